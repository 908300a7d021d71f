"""Promises: how wide they are, how earlier ones calibrate them, and what is kept."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pytest

from octavo.auto.choose import choices
from octavo.auto.promise import (
    KEPT,
    LIKELY,
    NARROWEST,
    calibration,
    earlier_promises,
    keep,
    promise,
    promises_file,
)
from unit.auto.laws import made_up
from unit.auto.test_choose import FACTS, SPEEDS

BEST = choices(FACTS, SPEEDS, 60, made_up())[0]


def note(missed: float, *of: str) -> None:
    """Of a text of its own, where none is named."""
    of = of or (f"text {missed}",)
    keep(law_bits=BEST.bits, law_error=BEST.error, came_out=BEST.bits + missed * BEST.error, of=of)


def test_the_interval_holds_eighty_of_a_hundred() -> None:
    made = promise(1, BEST)
    drawn = random.Random(1)
    held = sum(made.holds(drawn.gauss(BEST.bits, BEST.error)) for _ in range(4000)) / 4000
    assert held == pytest.approx(0.8, abs=0.02)


def test_no_promise_is_below_nothing() -> None:
    made = promise(1, replace(BEST, bits=0.1, error=0.3), [-3.0] * 60)
    assert made.bits == 0 and "-" not in str(made)


def test_without_earlier_ones_nothing_changes() -> None:
    assert calibration([]) == (0, 1)


def test_promises_that_were_too_sure_widen_the_next_and_kept_ones_narrow_them() -> None:
    assert calibration([3, -3] * 20)[1] > 2
    assert calibration([0.1, -0.1] * 20)[1] < 0.6
    assert calibration([1.0] * 60) == (1, NARROWEST)
    assert 0 < calibration([1.0] * 5)[0] < 1, "a few of them move it on the way"
    assert promise(1, BEST, [1.0] * 60).bits > promise(1, BEST).bits


def test_calibrated_promises_hold_eighty_of_a_hundred() -> None:
    """Where the law is off by half a standard deviation and half as sure as it should be, two hundred tell."""
    drawn = random.Random(2)
    shift, scale = calibration([drawn.gauss(0.5, 2) for _ in range(200)])
    new = [drawn.gauss(0.5, 2) for _ in range(4000)]
    assert sum(abs(each - shift) <= LIKELY * scale for each in new) / 4000 == pytest.approx(0.8, abs=0.04)


def test_what_came_out_is_kept_and_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OCTAVO_CACHE", str(tmp_path / "cache"))
    assert earlier_promises() == []
    note(2)
    note(0)
    assert earlier_promises() == [2.0, 0.0]
    with promises_file().open("a") as file:
        file.write('{"missed": "much"}\n{"missed": NaN}\n{"mis')
    assert earlier_promises() == [2.0, 0.0], "a damaged line is passed over"


def test_the_newest_promises_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OCTAVO_CACHE", str(tmp_path / "cache"))
    promises_file().parent.mkdir(parents=True)
    rows = (f'{{"missed": {number}, "of": ["{number}"]}}\n' for number in range(KEPT + 5))
    promises_file().write_text("".join(rows))
    assert earlier_promises() == list(range(5, KEPT + 5))


def test_many_trainings_of_one_text_count_as_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OCTAVO_CACHE", str(tmp_path / "cache"))
    for number in range(20):  # a diary that grows
        note(-0.3 - 0.01 * number, f"text {number}", "paths diary.txt")
    note(-0.1, "text 7", "paths copy.txt")
    note(2, "text of another")
    assert earlier_promises() == [pytest.approx(-0.39), 2.0]
    assert calibration(earlier_promises())[1] > 0.95
    assert "diary" not in promises_file().read_text()
    promises_file().write_text('{"missed": 1}\n{"missed": 3}\n{"missed": 5}\n')
    assert earlier_promises() == [3], "of texts that are not known"


def test_one_text_like_no_other_does_not_spoil_all_promises(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OCTAVO_CACHE", str(tmp_path / "cache"))
    note(1000)
    shift, scale = calibration(earlier_promises())
    assert 0 < shift < 0.2 and scale < 1.5
    note(-1000)
    assert calibration(earlier_promises())[0] == pytest.approx(0, abs=1e-9)
