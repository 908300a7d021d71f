"""What the page of `octavo explain` writes in a second, beside `octavo generate`; and the documentation's pictures.

    python benchmarks/explain_page.py RUN [--repeats 3] [--pictures FOLDER]

One thread each, turn by turn, the same run: the page in Chromium by WebAssembly SIMD, by plain JavaScript, and
`octavo generate`'s engine in float32. Characters are counted, not tokens. Medians; smallest and largest beside them.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import torch

from octavo.run.explain import explain_run
from octavo.run.run import Run
from octavo.util.terminal import Console

CHROMIUM = "/usr/bin/chromium"
ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
TOKENS = 600
WRITE = """async ([native, tokens]) => {
    const engine = await octavo.open(native), T = octavo.facts.config.context;
    const { start } = octavo.tokenizer.facts;
    let seen = [start === null ? octavo.tokenizer.encode(octavo.facts.text).ids[0] : start];
    const made = [], began = performance.now();
    for (let i = 0; i < tokens; i++) {
        if (seen.length > T) seen = seen.slice(-Math.max(1, T - Math.max(1, T >> 2)));
        engine.run(seen);
        const logits = engine.after(seen.length - 1);
        let most = -Infinity, sum = 0;
        for (const x of logits) most = Math.max(most, x);
        const e = Float64Array.from(logits, (x) => Math.exp(x - most));
        for (const x of e) sum += x;
        let left = ((i * 0.6180339887) % 1) * sum, id = 0;
        while (id + 1 < e.length && (left -= e[id]) > 0) id++;
        made.push(id);
        seen.push(id);
    }
    return [(performance.now() - began) / 1000, octavo.tokenizer.decode(made).length];
}"""


def by_page(page: Any, native: bool) -> float:
    """Characters a second."""
    seconds, characters = page.evaluate(WRITE, [native, TOKENS])
    return characters / seconds


def by_generate(run: Run) -> float:
    """The same of the engine that `octavo generate` uses."""
    began = time.perf_counter()
    text = run.generate("", tokens=TOKENS, seed=int(began * 1e6) % 2**31, temperature=1.0)
    return len(text) / (time.perf_counter() - began)


def pictures(browser: Any, file: Path, folder: Path) -> None:
    """Those of docs/guide/explain.md."""
    folder.mkdir(parents=True, exist_ok=True)
    page = browser.new_page(viewport={"width": 1080, "height": 1200})
    page.goto(file.as_uri())
    page.wait_for_selector("#octavo-explain[data-ready]")
    box = page.locator("#look-inside").bounding_box()
    page.screenshot(path=str(folder / "explain.png"), clip={**box, "height": 1090}, full_page=True)
    page.set_viewport_size({"width": 1080, "height": 860})
    picture = page.locator("#ox-scores button.ox-picture").nth(1)
    picture.scroll_into_view_if_needed()
    size = picture.bounding_box()
    picture.click(position={"x": size["width"] * 0.3, "y": size["height"] * 0.8})
    page.locator("#ox-head").evaluate("room => room.scrollIntoView()")
    page.screenshot(path=str(folder / "explain-number.png"))
    story = page.locator("#ox-story")
    if story.locator("input[type=range]").count():
        story.locator("input[type=range]").first.fill("5")
        story.screenshot(path=str(folder / "explain-time.png"))


def small(folder: Path) -> None:
    """Pictures of few colours, a third as large."""
    from PIL import Image

    for path in folder.glob("explain*.png"):
        Image.open(path).convert("RGB").quantize(96, dither=Image.Dither.NONE).save(path, optimize=True)


def main() -> None:
    """Measure, or take pictures."""
    from playwright.sync_api import sync_playwright

    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("run", type=Path)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--pictures", type=Path)
    given = parser.parse_args()
    torch.set_num_threads(1)
    run = Run.open(given.run).network()
    effort = 1.5e11 if given.pictures else 0
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as driver:
        file = Path(folder) / "page.html"
        file.write_text(explain_run(run, Console(quiet=True), effort=effort).page(), encoding="utf-8")
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        if given.pictures:
            pictures(browser, file, given.pictures)
            small(given.pictures)
            return
        page = browser.new_page()
        page.goto(file.as_uri())
        page.wait_for_selector("#octavo-explain[data-ready]")
        found: dict[str, list[float]] = {"WebAssembly": [], "JavaScript": [], "octavo generate": []}
        for _ in range(given.repeats + 1):
            found["WebAssembly"].append(by_page(page, True))
            found["JavaScript"].append(by_page(page, False))
            found["octavo generate"].append(by_generate(run))
    table = {name: sorted(values[1:]) for name, values in found.items()}
    for name, values in table.items():
        print(
            f"{name:16} {statistics.median(values):8,.0f} characters/s ({values[0]:,.0f} to {values[-1]:,.0f})"
        )
    print(
        json.dumps(
            {
                "run": str(given.run),
                "parameters": run.parameters,
                "tokens": TOKENS,
                "characters_per_second": table,
            }
        )
    )


if __name__ == "__main__":
    main()
