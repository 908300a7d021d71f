"""Hopeless runs: a pure rule on two curves, and the run that it ends."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from octavo.runs.folder import RunFolder
from octavo.studies.hopeless import Hopeless, Watch, hopeless

RIVAL = [(10, 5.0), (20, 4.0), (30, 3.0), (40, 2.5)]
RULE = {"after": 0.5, "worse_by": 0.1, "steps": 40}


@pytest.mark.parametrize(
    ("step", "bits", "ended"),
    [
        (10, 9.0, False),  # too early
        (20, 4.41, True),
        (20, 4.39, False),
        (30, 3.31, True),
        (40, 9.0, False),  # it is done anyway
    ],
)
def test_the_rule(step: int, bits: float, ended: bool) -> None:
    assert bool(hopeless([(5, 6.0), (step, bits)], RIVAL, **RULE)) is ended


def test_runs_of_other_lengths_are_compared_at_the_same_share() -> None:
    said = hopeless([(60, 5.0)], RIVAL, **{**RULE, "steps": 80})
    assert said and "step 60 of 80" in said and "3.000" in said


def test_nothing_to_compare() -> None:
    assert hopeless([], RIVAL, **RULE) is None
    assert hopeless([(30, 9.0)], [], **RULE) is None
    assert hopeless([(30, 9.0)], [(39, 1.0), (40, 1.0)], **RULE) is None


@given(st.lists(st.floats(0.1, 20), min_size=1, max_size=8))
def test_a_run_that_is_never_behind_is_never_ended(curve: list[float]) -> None:
    points = [(10 * n, value) for n, value in enumerate(curve, 1)]
    for end in range(1, len(points) + 1):
        assert hopeless(points[:end], points, after=0.1, worse_by=0.01, steps=points[-1][0]) is None


def rows(folder: Path, *points: tuple[int, float]) -> None:
    folder.mkdir(exist_ok=True)
    text = "".join(
        json.dumps({"event": "validation", "step": step, "loss": bits, "bits_per_byte": bits}) + "\n"
        for step, bits in points
    )
    (folder / "metrics.jsonl").write_text(text)


def test_the_watch_ends_a_run_after_an_evaluation(tmp_path: Path) -> None:
    rows(tmp_path / "rival", *RIVAL)
    rows(tmp_path / "run", (10, 5.0), (20, 4.1))
    steps: list[int] = []
    watch = Watch(steps.append, RunFolder(tmp_path / "run"), RULE, str(tmp_path / "rival"))
    watch.advance(20, "")
    watch.say("step 20/40 …")
    rows(tmp_path / "run", (10, 5.0), (20, 4.1), (30, 4.0))
    with pytest.raises(Hopeless, match="step 30 of 40"):
        watch.say("step 30/40 …")
    assert steps == [20]
