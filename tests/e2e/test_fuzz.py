"""Hundreds of damaged folders, recipes and overrides through the command line; see benchmarks/fuzz.py."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.mark.slow
def test_whatever_is_damaged_ends_with_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "benchmarks"))
    from fuzz import fuzz

    rows, faults = fuzz(tmp_path, (120, 120), 1)
    assert sum(row["cases"] for row in rows) == 240
    assert not faults, "\n\n".join(faults)
