"""The account of promises: what is kept of each, and which of them count."""

from __future__ import annotations

from pathlib import Path

import pytest

from octavo.run.audit import KEPT, earlier_promises, keep, promises_file


def note(missed: float, *of: str) -> None:
    """Of a text of its own, where none is named."""
    keep(law_bits=2.1, law_error=0.1, came_out=2.1 + missed * 0.1, of=of or (f"text {missed}",))


def test_what_came_out_is_kept_and_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OCTAVO_CACHE", str(tmp_path / "cache"))
    assert earlier_promises() == []
    note(2)
    note(0)
    assert earlier_promises() == [2.0, 0.0]
    with promises_file().open("a") as file:
        file.write('{"missed": "much"}\n{"missed": NaN}\n{"mis')
    assert earlier_promises() == [2.0, 0.0], "a damaged line is passed over"
    note(1)
    assert earlier_promises() == [2.0, 0.0, 1.0], "and spoils not the next one"


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
    assert "diary" not in promises_file().read_text()
    promises_file().write_text('{"missed": 1}\n{"missed": 3}\n{"missed": 5}\n')
    assert earlier_promises() == [3], "of texts that are not known"
