"""Curves as a browser computes them: what is thinned out loses no peak, what is smoothed is smoothed whole, and what
came in parts is what came at once. Each is compared with a plain twin in Python."""

from __future__ import annotations

import json
import math
import random
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from unit.browser.conftest import Shown, Window, opened, until, write_run

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def window(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Window]:
    folder = tmp_path_factory.mktemp("work")
    for seed in range(12):
        write_run(folder / "runs" / f"run-{seed:02d}", steps=40, seed=seed)
    with opened(folder) as window:
        yield window


@pytest.fixture
def page(window: Window, show: Callable[..., Shown]) -> Any:
    return show(window, "watch").page


def noise(seed: int, n: int, gaps: bool = False) -> list[float | None]:
    rng = random.Random(seed)
    return [
        None if gaps and rng.random() < 0.05 else rng.gauss(0, 1) + 5 * (rng.random() < 0.01)
        for _ in range(n)
    ]


THINNED = """([y, from, to, width]) => {
  const x = Float64Array.from(y, (_, i) => i);
  const points = { x, y: Float64Array.from(y, (v) => v === null ? NaN : v), n: y.length };
  return Array.from(octavo.series.thinned(points, from, to, (v) => (v - from) / (to - from) * width));
}"""


@pytest.mark.parametrize(
    ("n", "begin", "end"), [(5000, 0, 4999), (5000, 1234, 1500), (100, 0, 99), (1, 0, 1), (2, 0, 1)]
)
@pytest.mark.parametrize("gaps", [False, True])
def test_no_peak_is_thinned_out(page: Any, n: int, begin: int, end: int, gaps: bool) -> None:
    width, values = 300, noise(n, n, gaps)
    flat = page.evaluate(THINNED, [values, begin, end, width])
    found = list(zip(flat[0::2], flat[1::2], strict=True))
    assert len(found) <= 4 * (width + 2) + 5 * values.count(None)
    columns: dict[int, list[float]] = {}
    for place, value in enumerate(values):
        if value is not None and begin <= place <= end:
            columns.setdefault(math.floor((place - begin) / max(1, end - begin) * width), []).append(value)
    kept: dict[int, list[float]] = {}
    for pixel, value in found:
        if value is not None and not math.isnan(value):
            kept.setdefault(math.floor(pixel), []).append(value)
    for column, inside in columns.items():
        assert min(kept[column]) == min(inside) and max(kept[column]) == max(inside)
    pixels = [pixel for pixel, _ in found]
    assert pixels == sorted(pixels)


SMOOTHED = """([parts, share]) => {
  const smoothed = new octavo.series.Smoothed(share), all = [];
  let out;
  for (const part of parts) {
    all.push(...part.map((v) => v === null ? NaN : v));
    out = smoothed.of(Float64Array.from(all));
  }
  return Array.from(out, (v) => Number.isNaN(v) ? null : v);
}"""


@pytest.mark.parametrize("share", [0.0, 0.6, 0.99])
def test_what_came_in_parts_is_smoothed_as_what_came_at_once(page: Any, share: float) -> None:
    values = noise(3, 900, gaps=True)
    parts, rng, at = [], random.Random(1), 0
    while at < len(values):
        size = rng.randrange(1, 200)
        parts.append(values[at : at + size])
        at += size
    wanted: list[float | None] = []
    mean = weight = 0.0
    for value in values:
        if value is None:
            wanted.append(None)
            continue
        mean, weight = share * mean + (1 - share) * value, share * weight + (1 - share)
        wanted.append(mean / weight)
    for given in (parts, [values]):
        found = page.evaluate(SMOOTHED, [given, share])
        assert [value is None for value in found] == [value is None for value in wanted]
        assert [v for v in found if v is not None] == pytest.approx([v for v in wanted if v is not None])


def test_a_shorter_file_begins_anew(page: Any) -> None:
    assert page.evaluate(SMOOTHED, [[[5.0] * 50], 0.9])[-1] == pytest.approx(5)
    again = """() => {
      const s = new octavo.series.Smoothed(0.9);
      s.of(new Float64Array(50).fill(9));
      return s.of(new Float64Array(3).fill(1))[2];
    }"""
    assert page.evaluate(again) == pytest.approx(1)


def test_rows_become_columns(page: Any) -> None:
    rows = [
        {"event": "train", "step": 1, "loss": 3.0, "tokens": 10, "seconds": 1.0},
        {"event": "validation", "step": 2, "loss": 2.5, "bits_per_byte": 3.0},
        {"event": "train", "step": 3, "loss": None, "tokens": 30, "seconds": 3.0, "reward": 0.5},
        {"event": "own", "step": 3, "thing": 7, "__proto__": 1, "name": "x"},
    ]
    text = "".join(json.dumps(row) + "\n" for row in rows) + '{"event": "train", "st\n' + "[]\nnull\n5\n"
    script = """(text) => {
      const m = new octavo.series.Metrics();
      m.read(text);
      const p = m.points("validation.loss", "tokens"), train = m.points("train.loss", "step").y;
      const plain = (y) => Array.from(y, (v) => Number.isNaN(v) ? null : v);
      return { keys: m.keys().sort(), x: plain(p.x), y: plain(p.y), train: plain(train) };
    }"""
    found = page.evaluate(script, text)
    assert {"own.thing", "train.loss", "train.reward", "validation.bits_per_byte"} <= set(found["keys"])
    assert found["x"] == [20] and found["y"] == [2.5] and found["train"] == [3.0, None]


def test_a_band_lies_between_the_seeds(page: Any) -> None:
    script = """() => { const of = (x, y) => ({ x: Float64Array.from(x), y: Float64Array.from(y), n: x.length });
      const b = octavo.series.band([of([0, 10, 20], [4, 3, 2]), of([0, 5, 20, 30], [6, 5, 4, 1])]);
      return [b.x, b.mean, b.low, b.high].map((each) => Array.from(each)).concat(b.of); }"""
    x, mean, low, high, of = page.evaluate(script)
    assert x == [0, 5, 20] and mean == [5, 4.25, 3] and low == [4, 3.5, 2] and high == [6, 5, 4] and of == 2


@pytest.mark.parametrize(
    ("low", "high", "log"),
    [(0, 1, False), (2.1, 2.19, False), (-5, 5, False), (0.001, 1000, True), (3, 5, True), (1, 1, False)],
)
def test_axes_have_round_numbers_within_their_bounds(page: Any, low: float, high: float, log: bool) -> None:
    found = page.evaluate("([low, high, log]) => octavo.series.ticks(low, high, 6, log)", [low, high, log])
    assert 1 <= len(found) <= 20 and found == sorted(found)
    assert all(low - 1e-9 <= each <= high * 1.001 + 1e-9 for each in found)


def test_commands_to_copy_are_quoted_as_a_shell_wants_them(page: Any) -> None:
    words = [
        "octavo",
        "a b",
        "",
        "it's",
        "$HOME`;&|",
        "M\u00e4rchen.txt",
        "-x",
        "a\nb",
        '"',
        "~",
        "x/y-1.0:@%+=,_",
    ]
    assert page.evaluate("(words) => octavo.typed(...words)", words) == shlex.join(words)


def drawn(page: Any) -> str:
    """What is on the canvas of the curves."""
    return page.evaluate("document.querySelector('.oo-plot canvas').toDataURL()")


MOVED = """async () => {
  const plot = document.querySelector(".oo-plot"), box = plot.getBoundingClientRect();
  const [under, over] = plot.querySelectorAll("canvas"), cleared = [0, 0];
  const clear = CanvasRenderingContext2D.prototype.clearRect, clientY = box.top + 80;
  CanvasRenderingContext2D.prototype.clearRect = function (...all) {
    cleared[[under, over].indexOf(this.canvas)]++;
    return clear.apply(this, all);
  };
  for (let n = 0; n < 20; n++) {
    plot.dispatchEvent(new PointerEvent("pointermove", { clientX: box.left + 100 + 9 * n, clientY, bubbles: true }));
    const until = performance.now() + 5000;
    while (cleared[1] <= n && performance.now() < until) await new Promise(requestAnimationFrame);
  }
  CanvasRenderingContext2D.prototype.clearRect = clear;
  return cleared;
}"""


def test_curves_are_read_zoomed_and_told(window: Window, show: Callable[..., Shown]) -> None:
    shown = show(window, "watch?what=train.loss&smooth=0", viewport={"width": 1300, "height": 900})
    page = shown.page
    until(page, "octavo.curves.complete && document.querySelectorAll('.oo-key li').length === 6")
    page.wait_for_timeout(400)
    whole = drawn(page)
    plot = page.locator(".oo-plot")
    plot.focus()
    for _ in range(20):
        page.keyboard.press("ArrowRight")
    told = page.locator(".oo-told").inner_text()
    assert "step" in told and "run-" in told
    assert page.evaluate(MOVED) == [0, 20], "what follows the pointer draws no curve anew"
    page.keyboard.press("+")
    until(page, "location.hash.includes('zoom=')")
    # It is drawn in the next frame.
    until(page, f"document.querySelector('.oo-plot canvas').toDataURL() !== {json.dumps(whole)}")
    page.keyboard.press("0")
    until(page, "!location.hash.includes('zoom=')")
    box = plot.bounding_box()
    page.mouse.move(box["x"] + 200, box["y"] + 100)
    page.mouse.down()
    page.mouse.move(box["x"] + 400, box["y"] + 120, steps=5)
    page.mouse.up()
    until(page, "location.hash.includes('zoom=')")
    zoomed = drawn(page)
    page.reload()
    until(page, "octavo.curves.complete")
    page.wait_for_timeout(600)
    assert drawn(page) == zoomed, "the zoom stands in the address"
    page.locator(".oo-plot").dblclick()
    page.get_by_label("log y").check()
    until(page, "location.hash.includes('logy=1')")
    page.get_by_role("button", name="All", exact=True).click()
    until(page, "octavo.curves.complete && location.hash.split('run=').length === 13")
    page.get_by_role("button", name="None", exact=True).click()
    assert "Nothing to draw" in page.locator(".oo-nothing").inner_text()
    assert shown.complaints == [] and shown.elsewhere == []


SLOW = """() => {
  const text = Response.prototype.text;
  Response.prototype.text = async function () {
    await new Promise((done) => setTimeout(done, 300));
    return text.call(this);
  };
  window.shown = new Set();
  setInterval(() => shown.add(octavo.curves.of("runs/one")?.tables.get("train")?.n ?? null), 20);
}"""


def test_only_new_lines_are_asked_for(tmp_path: Path, show: Callable[..., Shown]) -> None:
    run = write_run(tmp_path / "runs" / "one", steps=2000)
    with opened(tmp_path) as window:
        shown = show(window, "watch?run=runs/one&what=train.loss")
        page = shown.page
        until(page, "octavo.curves.complete && octavo.curves.of('runs/one')?.tables.get('train')?.n === 2000")
        sizes: list[int] = []
        page.on(
            "response",
            lambda response: (
                sizes.append(int(response.headers["content-length"]))
                if "/api/metrics" in response.url
                else None
            ),
        )
        with (run / "metrics.jsonl").open("a") as file:
            for step in range(2001, 2011):
                file.write(
                    json.dumps({"event": "train", "step": step, "loss": 1.0, "tokens": 1, "learning_rate": 1})
                    + "\n"
                )
        until(page, "octavo.curves.of('runs/one')?.tables.get('train')?.n === 2010")
        page.wait_for_timeout(300)
        assert 0 < sum(sizes) < 2000 < (run / "metrics.jsonl").stat().st_size
        page.evaluate(SLOW)
        write_run(tmp_path / "other", steps=7)
        (tmp_path / "other" / "metrics.jsonl").replace(run / "metrics.jsonl")  # resumed from an earlier step
        until(page, "octavo.curves.of('runs/one')?.tables.get('train')?.n === 7")
        assert page.evaluate("[...shown]") == [2010, 7], "a plot is never empty between the two"
        assert shown.complaints == []
