"""Hopeless runs: a pure rule on two curves, and the run that it ends."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from octavo.run.folder import RunFolder
from octavo.run.train import train
from octavo.studies.early_stop import Hopeless, evaluations, hopeless, hopeless_hook
from octavo.training.checkpoint_folder import list_checkpoints

pytestmark = pytest.mark.usefixtures("plain_reports")

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
    assert said and (said.step, said.steps, said.reached, said.rival) == (60, 80, 5.0, 3.0)


def test_nothing_to_compare() -> None:
    assert hopeless([], RIVAL, **RULE) is None
    assert hopeless([(30, 9.0)], [], **RULE) is None
    assert hopeless([(30, 9.0)], [(39, 1.0), (40, 1.0)], **RULE) is None


@given(st.lists(st.floats(0.1, 20), min_size=1, max_size=8))
def test_a_run_that_is_never_behind_is_never_ended(curve: list[float]) -> None:
    points = [(10 * n, value) for n, value in enumerate(curve, 1)]
    for end in range(1, len(points) + 1):
        assert hopeless(points[:end], points, after=0.1, worse_by=0.01, steps=points[-1][0]) is None


RECIPE = {
    "tokenizer": "char",
    "model": {"layers": 1, "width": 8, "heads": 1, "context": 8},
    "batches": "windows",
    "training": {"steps": 8, "batch": 2, "patience": None, "checkpoint_every": 2},
    "evaluation": {"every": 2},
    "sampling": {"every": 0},
}


def test_a_run_is_ended_after_the_evaluation_that_finds_it_behind(tmp_path: Path) -> None:
    text = tmp_path / "text.txt"
    text.write_text("to be or not to be, that is the question\n" * 30)
    rival, folder = tmp_path / "rival", tmp_path / "run"
    rival.mkdir()
    lines = [
        {"event": "validation", "step": step, "loss": 1.0, "bits_per_byte": 0.01} for step in (2, 4, 6, 8)
    ]
    (rival / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    hook = hopeless_hook(rival, after=0.5, worse_by=0.1)
    with pytest.raises(Hopeless, match=r"at step 4 of 8: .* had 0\.010") as ended:
        train(RECIPE, text, folder, quiet=True, hooks=[hook])
    found = RunFolder(folder).rows()
    assert (ended.value.step, ended.value.steps, ended.value.rival) == (4, 8, 0.01)
    assert ended.value.reached == evaluations(found)[-1][1] and evaluations(found)[-1][0] == 4
    assert [each.step for each in list_checkpoints(folder / "checkpoints")] == [2]  # none of where it ended
    with pytest.raises(Hopeless, match="at step 4 of 8"):  # the same again, whenever it goes on
        train(RECIPE, text, folder, resume=True, quiet=True, hooks=[hook])
    (rival / "metrics.jsonl").write_text(json.dumps({**lines[-1], "bits_per_byte": 99.0}) + "\n")
    train(
        RECIPE, text, folder, resume=True, quiet=True, hooks=[hopeless_hook(rival, after=0.5, worse_by=0.1)]
    )
