"""Runs that came from what is another one now are not mixed with new ones: weights, teachers, the user's own code."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

import octavo
from octavo.config import parts as own_parts
from octavo.config.parts import registered, restore
from octavo.errors import ConfigError
from octavo.run.run import Run
from octavo.studies.job import Job
from octavo.studies.provenance import Origins
from octavo.studies.run import refuse_other_settings
from octavo.util.processes import TOLD
from unit.studies.conftest import RECIPE

pytestmark = pytest.mark.usefixtures("plain_reports")

PART = """
from octavo.config.parts import register
from octavo.training.schedules import ScheduleConfig
from typing import Literal

@register("schedule")
class HalfConfig(ScheduleConfig):
    kind: Literal["half"] = "half"

    def build(self, *, steps):
        return lambda step: 0.5
"""


def trained(text: Path, out: Path, *overrides: str) -> Run:
    return octavo.train(
        RECIPE, text, out, overrides=["training.steps=2", *overrides], overwrite=out.exists(), quiet=True
    )


def changed(run: Run) -> list[str]:
    assert run.folder is not None
    return list(Origins().changed(run.folder, run.config))


def job_of(run: Run) -> Job:
    tree = run.config.model_dump(mode="json")
    return Job(change="mine", slug="mine", seed=5, folder=str(run.path), recipe=tree, steps=2)


def test_a_start_that_was_trained_anew_is_noticed(text: Path, tmp_path: Path) -> None:
    base = tmp_path / "base"
    trained(text, base)
    run = trained(text, tmp_path / "run", f"training.start_from={base}")
    assert changed(run) == []
    refuse_other_settings([job_of(run)], tmp_path)
    trained(text, base, "seed=9")
    assert changed(run) == [f"other weights of {base}"]
    with pytest.raises(ConfigError) as refusal:
        refuse_other_settings([job_of(run)], tmp_path)
    assert refusal.value.problems == [f"mine, seed 5 was run with other weights of {base}"]
    shutil.rmtree(base)
    assert changed(run) == [], "what is gone has not changed"


def test_a_teacher_that_was_trained_anew_is_noticed(text: Path, tmp_path: Path) -> None:
    teacher = tmp_path / "teacher"
    trained(text, teacher)
    run = trained(text, tmp_path / "run", f"training.teachers.runs=[{teacher}]")
    assert changed(run) == []
    trained(text, teacher, "seed=9")
    assert changed(run) == [f"other weights of its teacher {teacher}"]


@pytest.fixture
def as_before(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    before = registered()
    monkeypatch.setattr(own_parts, "_loaded", {})
    monkeypatch.setitem(TOLD, own_parts.VARIABLE, "[]")
    yield
    restore(before)


@pytest.mark.usefixtures("as_before")
def test_code_of_ones_own_that_was_edited_is_noticed(text: Path, tmp_path: Path) -> None:
    mine = tmp_path / "mine.py"
    mine.write_text(PART)
    own_parts.load_parts(mine)
    run = trained(text, tmp_path / "run", "training.schedule=half")
    assert run.folder is not None and json.loads(run.folder.manifest.read_text())["parts"]
    assert changed(run) == []
    mine.write_text(PART.replace("0.5", "0.0"))
    own_parts.load_parts(mine)
    assert changed(run) == [f"{mine} as it was before"]
    manifest = json.loads(run.folder.manifest.read_text())
    (entry,) = manifest["parts"]
    entry["parts"] = []
    run.folder.manifest.write_text(json.dumps(manifest))
    assert changed(run) == [f"{mine} as it was before"], "its parts are not told"
    entry["parts"] = ["schedule.another"]
    run.folder.manifest.write_text(json.dumps(manifest))
    assert changed(run) == [], "a part that the run did not take"
