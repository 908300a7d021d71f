"""Models that go on from no text, in a real browser: a translation with its attention, a forecast with its fans."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import octavo
from unit.browser.conftest import READY, Shown, Window, opened, until

pytestmark = pytest.mark.slow
QUICK = (
    "training={steps: 6, batch: 4, checkpoint_every: 3, threads: 1, precision: float32, device: cpu}",
    "report.explainer=false",
)
PAIRS = (
    *("corpus={kind: pairs}", "split=documents", "batches=pairs", "tokenizer={kind: word, lines: keep}"),
    *("objective=given-source", "model={kind: encoder-decoder, layers: 1, width: 16, heads: 2, context: 12}"),
)
SERIES = (
    "corpus={kind: series, channels: [force, angle], time: t, rate: 100, held_out: [P3], pattern: '(?P<person>P.)'}",
    *("test=0", "batches=series", "objective={kind: forecast, origins: 2, paths: 4, horizons: [1]}"),
    "model={layers: 1, width: 16, heads: 2, context: 16, input: {kind: linear, lags: 2}, output: {kind: student-t}}",
)
STEPS = 12


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tables")
    for person in (1, 2, 3):
        rows = [
            f"{row},{80 * max(0.0, math.sin(row / 5 + person)):.2f},{math.cos(row / 5)}" for row in range(160)
        ]
        (folder / f"P{person}.csv").write_text("t,force,angle\n" + "\n".join(rows) + "\n", encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def window(tmp_path_factory: pytest.TempPathFactory, tables: Path) -> Iterator[Window]:
    folder, draw = tmp_path_factory.mktemp("work"), random.Random(5)
    sentences = sorted({" ".join(draw.choices("abcdef", k=draw.randint(1, 4))) for _ in range(300)})
    pairs = folder / "pairs.tsv"
    pairs.write_text("".join(f"{each}\t{each.upper()}\n" for each in sentences), encoding="utf-8")
    octavo.train(text=pairs, out=folder / "runs" / "words", overrides=[*PAIRS, *QUICK], quiet=True)
    octavo.train(text=tables, out=folder / "runs" / "steps", overrides=[*SERIES, *QUICK], quiet=True)
    with opened(folder) as window:
        yield window


def test_a_translation_shows_where_the_model_looked(window: Window, show: Callable[..., Shown]) -> None:
    shown = show(window, "play?run=runs/words")
    page = shown.page
    page.wait_for_selector("#oo-translation", timeout=60_000)
    page.fill("#oo-translation textarea", "a b c")
    page.keyboard.press("Enter")
    page.wait_for_selector(".oo-translated", timeout=60_000)
    with window.client() as client:
        told = client.post("/api/translate", json={"model": "runs/words", "source": "a b c"}).json()
    assert page.locator(".oo-translated").inner_text() == told["translations"][0]["text"]
    rows = "rows => rows.map(row => [...row.querySelectorAll('td')].map(cell => +cell.style.getPropertyValue('--w')))"
    drawn = page.locator(".oo-attention tbody tr").evaluate_all(rows)
    assert drawn == told["weights"] and len(drawn) == len(told["target"])
    assert all(len(row) == 3 and sum(row) == pytest.approx(1, abs=0.01) for row in drawn)
    page.reload()
    page.wait_for_selector(READY)
    page.wait_for_selector(".oo-translated", timeout=60_000)
    assert page.locator(".oo-translated").inner_text() == told["translations"][0]["text"]
    assert shown.complaints == []


def points(page: Any, part: str) -> list[tuple[float, float]]:
    """Of a line or an area in the first picture."""
    text = page.locator(".oo-fan").first.locator(part).get_attribute("points")
    return [tuple(map(float, pair.split(","))) for pair in text.split()]


def test_a_forecast_goes_on_from_the_table_with_its_fans(
    window: Window, tables: Path, show: Callable[..., Shown]
) -> None:
    shown = show(window, "play?run=runs/steps")
    page = shown.page
    page.wait_for_selector("#oo-forecast", timeout=60_000)
    page.set_input_files("#oo-forecast input[type=file]", str(tables / "P3.csv"))
    page.get_by_label("Steps ahead").fill(str(STEPS))
    page.get_by_role("button", name="Forecast", exact=True).click()
    until(page, "document.querySelectorAll('.oo-fan').length === 2", 60)
    was, middle = points(page, ".oo-fan-0"), points(page, ".oo-fan-1")
    inner, outer = points(page, ".oo-fan-2"), points(page, ".oo-fan-3")
    assert middle[0] == was[-1] and len(middle) == STEPS + 1
    assert len(inner) == len(outer) == 2 * STEPS
    for step in range(STEPS):  # an area goes there along its upper edge, and back along the lower one
        high, low = (
            (area[step][1] for area in (outer, inner)),
            (area[-1 - step][1] for area in (outer, inner)),
        )
        edges = [*high, middle[step + 1][1], *reversed(list(low))]
        assert edges == sorted(edges), "pixels count downwards"
    page.set_input_files("#oo-forecast input[type=file]", str(Path(__file__)))
    page.get_by_role("button", name="Forecast", exact=True).click()
    page.wait_for_selector("#oo-forecast [role=alert]", timeout=60_000)
    assert shown.complaints == [] and shown.elsewhere == []
