"""Outcomes that are damaged count as none."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from octavo.studies.job import OUTCOME, outcome_of
from octavo.util.records import plain

DONE = {
    "status": "done",
    "judge": "last",
    "settled": True,
    "val_loss": 2.0,
    "bits_per_byte": 1.5,
    "accuracy": 0.5,
    "perplexity": 7.4,
}


def read(folder: Path, outcome: object) -> object:
    (folder / OUTCOME).write_text(json.dumps(outcome))
    return plain(outcome_of(folder))


def test_whole_outcomes_are_read(tmp_path: Path) -> None:
    failed = {"status": "failed", "judge": "best", "settled": False, "reason": "x"}
    for outcome in (DONE, failed, {**DONE, "more": 1}):
        assert read(tmp_path, outcome) == outcome
    assert read(tmp_path, {**DONE, "val_loss": float("nan")}) is not None  # said as "not a finite number"


@pytest.mark.parametrize(
    "outcome",
    [
        None,
        [],
        {},
        {**DONE, "status": "nothing"},
        {**DONE, "perplexity": None},
        {**DONE, "unit": "nats per step", "val_loss": None},
        {**DONE, "val_loss": "2.0"},
        {**DONE, "val_loss": 1e308},
        {**DONE, "step": -1},
        {**DONE, "judge": None},
        {**DONE, "reason": 5},
    ],
)
def test_damaged_outcomes_are_none(outcome: object, tmp_path: Path) -> None:
    assert read(tmp_path, outcome) is None
