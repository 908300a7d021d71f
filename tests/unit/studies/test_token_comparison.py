"""Where a study's changes are better, token by token: of runs that were made, against their own losses."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from octavo.errors import InputError
from octavo.studies.results import StudyResults, collect
from octavo.studies.spec import BASELINE
from octavo.studies.token_comparison import NOWHERE, WHERE, where_of, write_where
from octavo.util.terminal import Console

QUIET = Console(quiet=True)


@pytest.fixture
def study(whole: tuple[StudyResults, str], tmp_path: Path) -> StudyResults:
    shutil.copytree(whole[0].folder, tmp_path / "study")
    return collect(tmp_path / "study")


def loss(study: StudyResults, change: str) -> float:
    return float(np.mean([run.val_loss for run in study.of(change)]))


def test_the_parts_add_up_to_the_difference_of_the_losses(study: StudyResults) -> None:
    write_where(study, QUIET)
    kept = where_of(study.folder)
    assert kept.found.keys() | kept.why_not.keys() == {change.name for change in study.study.changes}
    assert kept.why_not == {"hot": "no run of it ended"}
    for name, where in kept.found.items():
        difference = loss(study, name) - loss(study, BASELINE)
        assert where.whole.difference == pytest.approx(difference, abs=1e-4)
        assert sum(part.tokens for part in where.by_ngram) == where.whole.tokens
        assert where.whole.error > 0


def test_it_is_worked_out_once_and_again_when_the_runs_are_others(study: StudyResults) -> None:
    path = study.folder / WHERE
    write_where(study, QUIET)
    first = path.read_text("utf-8")
    for weights in study.folder.rglob("*.safetensors"):
        weights.unlink()  # as somebody does who wants the room back
    write_where(study, QUIET)
    assert path.read_text("utf-8") == first
    stored = json.loads(first)
    stored["of"].popitem()
    path.write_text(json.dumps(stored), "utf-8")
    write_where(study, QUIET)
    assert not where_of(study.folder).found and any(where_of(study.folder).why_not.values())


def test_a_damaged_file_is_said_and_made_again(study: StudyResults) -> None:
    assert where_of(study.folder) == NOWHERE
    for text in ("", "[]", '{"of": {}, "changes": {"two layers": {"where": {"order": "x"}}}}', "\0" * 40):
        (study.folder / WHERE).write_text(text, "utf-8")
        with pytest.raises(InputError, match=r"where.json.*damaged"):
            where_of(study.folder)
    write_where(study, QUIET)
    assert where_of(study.folder).found
