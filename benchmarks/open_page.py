"""Whether the page of `octavo open` keeps up with 50 runs of 10,000 points; and the documentation's pictures.

    python benchmarks/open_page.py [--runs 50] [--points 10000] [--repeats 3]
    python benchmarks/open_page.py --pictures FOLDER --work FOLDER --run runs/NAME --text NAME

Frames are counted by requestAnimationFrame in Chromium without a graphics card, which draws in software: while nothing
happens, while the pointer moves over the curves, while they are zoomed, and while every run gets new lines each second.
Runs are made up. Beside it stand the seconds until all curves are there, and the bytes that new lines cost.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

CHROMIUM = "/usr/bin/chromium"
ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
SECONDS = 4.0
FRAMES = """async (seconds) => {
  const found = [], end = performance.now() + 1000 * seconds;
  let last = performance.now();
  while (last < end) {
    const now = await new Promise(requestAnimationFrame);
    found.push(now - last);
    last = now;
  }
  return found.slice(1);
}"""
TREE = "n=200&t=0.8&p=LADY+CHILTERN.++&w=_0__7_200_0.8___&w=0_64_104_9_150_0.8___&token=25"
SHOTS = (
    (
        "open-start",
        "start?text={text}&minutes=30",
        "#oo-minutes .oo-headline",
        "#oo-read",
        (900, 1100),
        "light",
    ),
    (
        "open-watch",
        "watch?what=loss&run={run}&focus={run}",
        ".oo-samples .oo-text",
        "",
        (1440, 1280),
        "light",
    ),
    ("open-play", "play?run={run}&" + TREE, ".oo-who", "", (1440, 960), "dark"),
    ("open-narrow", "play?run={run}&" + TREE, ".oo-who", ".oo-pane", (360, 760), "light"),
    ("open-away", "away?run={run}&lesson=14", ".oo-certificate", ".oo-targets", (1200, 860), "dark"),
)
"""Pictures: the view, what must be there, what stands at the top, the size, the colours."""


def made_up(folder: Path, runs: int, points: int) -> list[Path]:
    """Runs whose metrics look like those of trainings."""
    found = []
    for number in range(runs):
        rng = random.Random(number)
        run = folder / "runs" / f"run-{number:02d}"
        run.mkdir(parents=True)
        (run / "config.yaml").write_text("training:\n  steps: 200000\n", encoding="utf-8")
        floor, rate = 1.2 + 0.6 * rng.random(), 300 + 2000 * rng.random()
        with (run / "metrics.jsonl").open("w", encoding="utf-8") as file:
            for point in range(1, points + 1):
                file.write(line(10 * point, floor, rate, rng))
        found.append(run)
    return found


def line(step: int, floor: float, rate: float, rng: random.Random) -> str:
    """A row of a training."""
    loss = floor + 3.6 * math.exp(-step / rate) + 1 / (1 + step / 4000) + rng.gauss(0, 0.08)
    row = {
        "event": "train",
        "step": step,
        "loss": loss,
        "learning_rate": 0.03,
        "gradient_norm": abs(rng.gauss(0.6, 0.1)),
        "tokens": step * 768,
        "tokens_per_second": 9000 + rng.gauss(0, 300),
        "seconds": step * 0.08,
    }
    return json.dumps(row) + "\n"


@contextmanager
def opened(folder: Path) -> Iterator[str]:
    """`octavo open` there: its address."""
    environment = {**os.environ, "OCTAVO_CACHE": str(folder / ".octavo" / "cache")}
    words = [sys.executable, "-P", "-m", "octavo", "open", "--port", "0", "--no-browser"]
    server = subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=environment, cwd=folder)
    assert server.stdout is not None
    try:
        yield server.stdout.readline().removeprefix("open at ").strip()
    finally:
        server.terminate()
        server.wait(30)


def browser_seconds() -> float:
    """CPU seconds that the browser's processes have used, however busy the machine is."""
    parents: dict[int, int] = {}
    used: dict[int, float] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            name, _, rest = stat.read_text().rpartition(")")
        except OSError:
            continue
        fields = rest.split()
        parents[int(stat.parent.name)] = int(fields[1])
        if name.endswith("chromium") or "(chrom" in name:
            used[int(stat.parent.name)] = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def ours(process: int) -> bool:
        while process > 1:
            if process == os.getpid():
                return True
            process = parents.get(process, 0)
        return False

    return sum(seconds for process, seconds in used.items() if ours(process))


def rate(times: list[float], cpu: float) -> dict[str, float]:
    """Frames a second, and how long frames took, in milliseconds; `cpu`: seconds that the browser used for them."""
    return {
        "frames_per_second": 1000 * len(times) / sum(times),
        "cpu_ms": 1000 * cpu / len(times),
        "median_ms": statistics.median(times),
        "p95_ms": sorted(times)[int(0.95 * len(times))],
        "longest_ms": max(times),
    }


def measured(page: Any, address: str, runs: list[Path]) -> dict[str, Any]:
    """One look at all runs."""
    names = "&".join(f"run=runs/{run.name}" for run in runs)
    began = time.perf_counter()
    page.goto(f"{address}#watch?what=train.loss&{names}")
    page.reload()
    page.wait_for_selector(".oo[data-ready=yes]", timeout=120_000)
    rows = "(octavo.curves.of(run.id)?.tables.get('train')?.n ?? 0)"
    points = f"octavo.things.all('run').reduce((n, run) => n + {rows}, 0)"
    wanted = sum(1 for run in runs for _ in (run / "metrics.jsonl").open("rb"))
    while page.evaluate(points) < wanted:
        page.wait_for_timeout(50)
    page.wait_for_timeout(300)
    found: dict[str, Any] = {"seconds_to_all": time.perf_counter() - began, "points": wanted}
    before = browser_seconds()
    found["still"] = rate(page.evaluate(FRAMES, SECONDS), browser_seconds() - before)
    box = page.locator(".oo-plot").bounding_box()
    page.mouse.move(box["x"] + 100, box["y"] + 100)
    counting = "(seconds) => { window.counted = (" + FRAMES + ")(seconds); return true; }"
    before = browser_seconds()
    page.evaluate(counting, SECONDS)
    end, place = time.perf_counter() + SECONDS, 0
    while time.perf_counter() < end:
        place = (place + 7) % int(box["width"] - 120)
        page.mouse.move(box["x"] + 60 + place, box["y"] + 120)
    found["hover"] = rate(page.evaluate("window.counted"), browser_seconds() - before)
    page.locator(".oo-plot").focus()
    before = browser_seconds()
    page.evaluate(counting, SECONDS)
    end = time.perf_counter() + SECONDS
    while time.perf_counter() < end:
        page.keyboard.press("+")
        page.wait_for_timeout(60)
        page.keyboard.press("-")
        page.wait_for_timeout(60)
    found["zoom"] = rate(page.evaluate("window.counted"), browser_seconds() - before)
    page.keyboard.press("0")
    sizes: list[int] = []
    page.on(
        "response",
        lambda response: (
            sizes.append(int(response.headers["content-length"])) if "/api/metrics" in response.url else None
        ),
    )
    stop = threading.Event()

    def grow() -> None:
        rng, step = random.Random(0), 10**6
        while not stop.wait(1.0):
            step += 10
            for run in runs:
                with (run / "metrics.jsonl").open("a", encoding="utf-8") as file:
                    file.write(line(step, 1.2, 500, rng))

    writer = threading.Thread(target=grow)
    writer.start()
    before = browser_seconds()
    found["live"] = rate(page.evaluate(FRAMES, 2 * SECONDS), browser_seconds() - before)
    stop.set()
    writer.join()
    found["live_bytes_per_second"] = sum(sizes) / (2 * SECONDS)
    return found


def pictures(browser: Any, address: str, run: str, text: str, folder: Path) -> None:
    """Those of docs/guide/open.md, of a folder where a text was trained on and the run was packed."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, view, ready, top, (width, height), scheme in SHOTS:
        context = browser.new_context(
            viewport={"width": width, "height": height},
            color_scheme=scheme,
            locale="en-US",
            reduced_motion="reduce",
        )
        page = context.new_page()
        page.goto(f"{address}#{view.format(run=run, text=text)}")
        page.wait_for_selector(".oo[data-ready=yes]", timeout=60_000)
        page.wait_for_selector(ready, timeout=600_000)
        page.wait_for_timeout(2500)
        page.evaluate("top => top ? document.querySelector(top).scrollIntoView() : scrollTo(0, 0)", top)
        page.wait_for_timeout(500)
        page.screenshot(path=str(folder / f"{name}.png"))
        context.close()


def small(folder: Path) -> None:
    """Pictures of few colours take a third of the bytes."""
    from PIL import Image

    for name, *_ in SHOTS:
        path = folder / f"{name}.png"
        Image.open(path).convert("RGB").quantize(128, dither=Image.Dither.NONE).save(path, optimize=True)


def main() -> None:
    """Measure, or take pictures."""
    from playwright.sync_api import sync_playwright

    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=50)
    parser.add_argument("--points", type=int, default=10_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--pictures", type=Path)
    parser.add_argument("--work", type=Path)
    parser.add_argument("--run")
    parser.add_argument("--text")
    given = parser.parse_args()
    with sync_playwright() as driver, tempfile.TemporaryDirectory() as made:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        if given.pictures:
            with opened(given.work) as address:
                pictures(browser, address, given.run, given.text, given.pictures)
            small(given.pictures)
            return
        folder = Path(made)
        runs = made_up(folder, given.runs, given.points)
        found = []
        with opened(folder) as address:
            for _ in range(given.repeats):
                page = browser.new_page(viewport={"width": 1600, "height": 1000})
                found.append(measured(page, address, runs))
                page.close()
        browser.close()
    print(
        f"{given.runs} runs of {given.points:,} points, load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores\n"
    )
    print(f"{'':10}{'frames/s':>10}{'CPU ms':>9}{'median ms':>11}{'p95 ms':>9}{'longest':>9}")
    for what in ("still", "hover", "zoom", "live"):
        middle = {key: statistics.median(one[what][key] for one in found) for key in found[0][what]}
        print(
            f"{what:10}{middle['frames_per_second']:10.1f}{middle['cpu_ms']:9.1f}{middle['median_ms']:11.1f}"
            f"{middle['p95_ms']:9.1f}{middle['longest_ms']:9.1f}"
        )
    seconds = statistics.median(one["seconds_to_all"] for one in found)
    live = statistics.median(one["live_bytes_per_second"] for one in found)
    print(
        f"\nall curves after {seconds:.1f} s; {live:,.0f} bytes a second while each run gets a line a second\n"
    )
    print(json.dumps({"runs": given.runs, "points": given.points, "load": os.getloadavg(), "repeats": found}))


if __name__ == "__main__":
    main()
