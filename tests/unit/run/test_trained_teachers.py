"""Teachers that a run trains itself: the same as such that were trained by hand, to the bit, also where it stops."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
import torch

import octavo
from octavo.config import check
from octavo.config.schema import ASKING
from octavo.data.batch import Batch
from octavo.errors import CheckpointError, ConfigError, Interrupted
from octavo.run.deadline import with_more_minutes
from octavo.run.folder import RunFolder, seconds_of
from octavo.run.teachers import ByNetworks
from octavo.run.train import teacher_recipe, turns
from octavo.run.trainer import Trainer, Training
from octavo.training.distill import Distillation
from octavo.training.objective import NEXT_TOKEN
from octavo.util import processes
from octavo.util.files import file_hash
from octavo.util.terminal import Console
from unit.run.small import RECIPE

TEXT = "a fox and a dog. " * 60
COUNTS = {"model": {**RECIPE["model"], "counts": {"kind": "kneser-ney", "orders": 3}}}


@pytest.fixture(autouse=True)
def text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("OCTAVO_CACHE", str(tmp_path / "cache"))
    path = tmp_path / "text.txt"
    path.write_text(TEXT)
    return path


def recipe_with(more: dict[str, Any], **training: Any) -> dict[str, Any]:
    return {**RECIPE, **more, "training": {**RECIPE["training"], "threads": 1, **training}}


DYING = recipe_with(COUNTS, teachers={"trained": 2, "trained_steps": 4})


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run that nothing stopped. Read it, don't write."""
    folder = tmp_path_factory.mktemp("whole")
    (folder / "text.txt").write_text(TEXT)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OCTAVO_CACHE", str(folder / "cache"))
        octavo.train(DYING, folder / "text.txt", folder / "run", quiet=True)
    return folder / "run"


def weights(folder: Path) -> str:
    return file_hash(folder / "last" / "model.safetensors")


@pytest.mark.parametrize("more", [{}, COUNTS], ids=["a network", "with counts"])
def test_they_are_what_one_would_train_by_hand(tmp_path: Path, text: Path, more: dict[str, Any]) -> None:
    own = recipe_with(more, teachers={"trained": 2, "trained_steps": 4, "trained_dropout": 0.3})
    run = octavo.train(own, text, tmp_path / "run", quiet=True)
    for number in (1, 2):
        by_hand = recipe_with(more, steps=4) | {"seed": 1337 + number}
        by_hand["model"] = by_hand["model"] | {"dropout": 0.3}
        octavo.train(by_hand, text, tmp_path / f"hand-{number}", quiet=True)
        assert weights(tmp_path / f"hand-{number}") == weights(tmp_path / "run" / "teachers" / str(number))
    named = recipe_with(more, teachers={"runs": [str(tmp_path / f"hand-{number}") for number in (1, 2)]})
    octavo.train(named, text, tmp_path / "named", quiet=True)
    assert weights(tmp_path / "named") == weights(tmp_path / "run")
    alone = octavo.train(recipe_with(more), text, tmp_path / "alone", quiet=True)
    assert weights(alone.path) != weights(run.path)
    known = json.loads((run.path / "manifest.json").read_text())["teachers"]
    assert [Path(one["checkpoint"]).parts[-4:-2] for one in known] == [("teachers", "1"), ("teachers", "2")]
    assert not (run.path / "teachers" / "1" / "evaluation.json").exists()
    said = json.loads((run.path / "evaluation.json").read_text())["verdict"]
    assert any(" s that of its teachers" in sentence for sentence in said)
    assert octavo.replay(run.path, tmp_path / "again", console=Console(quiet=True))[1] == []


@pytest.mark.parametrize("steps", [1, 5, 9, *(pytest.param(at, marks=pytest.mark.slow) for at in (4, 12))])
def test_whenever_it_dies_it_goes_on_to_the_same_bits(
    tmp_path: Path, text: Path, whole: Path, monkeypatch: pytest.MonkeyPatch, steps: int
) -> None:
    left, step = steps, Trainer.after_step

    def dies(self: Trainer, info: Any) -> None:
        nonlocal left
        left -= 1
        if left < 0:
            raise MemoryError
        step(self, info)

    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "after_step", dies)
        with pytest.raises(MemoryError):
            octavo.train(DYING, text, tmp_path / "run", quiet=True)
    told = RunFolder(tmp_path / "run").made_by()
    assert told is not None and told["recipe"] == "run"  # what is told of a run is kept from its beginning
    run = octavo.train(None, None, tmp_path / "run", resume=True, quiet=True)
    for part in ("", "teachers/1", "teachers/2"):
        assert weights(run.path / part) == weights(whole / part)
        rows = [RunFolder(folder / part).rows() for folder in (run.path, whole)]
        assert [(row["step"], row["loss"]) for row in rows[0]] == [
            (row["step"], row["loss"]) for row in rows[1]
        ]


def test_a_stop_says_who_was_training_and_the_run_goes_on(
    tmp_path: Path, text: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = recipe_with({}, teachers={"trained": 1})
    with monkeypatch.context() as patch:
        patch.setattr(processes.StopRequest, "__bool__", lambda self: True)
        with pytest.raises(Interrupted, match=r"after step 1 of 6.*teacher 1 of 1"):
            octavo.train(own, text, tmp_path / "run", quiet=True)
        timed = recipe_with({}, teachers={"trained": 1}, minutes=1)
        with pytest.raises(Interrupted) as stopped:
            octavo.train(timed, text, tmp_path / "timed", quiet=True)
        assert f"octavo train --out {tmp_path / 'timed'} --resume    uses" in str(stopped.value.remedy)
    run = octavo.train(own, text, tmp_path / "run", resume=True, quiet=True)
    assert run.step == 6 and "resuming after step 1" in (run.path / "teachers" / "1" / "log.txt").read_text()
    assert "step 6/6" in (run.path / "log.txt").read_text()


def test_teachers_stay_as_they_are_where_the_run_gets_more_steps(tmp_path: Path, text: Path) -> None:
    own = recipe_with(COUNTS, teachers={"trained": 1})
    run = octavo.train(own, text, tmp_path / "run", quiet=True)
    teacher = weights(run.path / "teachers" / "1")
    run = octavo.train(None, None, run.path, resume=True, overrides=["training.steps=9"], quiet=True)
    assert run.folder is not None and run.folder.rows()[-1]["step"] == 9
    assert weights(run.path / "teachers" / "1") == teacher


@pytest.mark.slow
def test_teachers_stay_as_they_are_where_the_run_gets_more_minutes(tmp_path: Path, text: Path) -> None:
    run = octavo.train(recipe_with(COUNTS, teachers={"trained": 1}), text, tmp_path / "run", quiet=True)
    teacher = weights(run.path / "teachers" / "1")
    minutes, passes = with_more_minutes(run.path, 0.06)
    octavo.train(None, None, run.path, resume=True, overrides=[minutes, passes], quiet=True)
    assert run.folder is not None and run.folder.rows()[-1]["step"] > 6
    assert weights(run.path / "teachers" / "1") == teacher


def test_a_teacher_that_is_not_the_one_that_taught_is_told(tmp_path: Path, text: Path) -> None:
    own = recipe_with({}, teachers={"trained": 1})
    octavo.train(own, text, tmp_path / "run", overrides=["training.steps=4"], quiet=True)
    other = octavo.train(recipe_with({}) | {"seed": 5}, text, tmp_path / "other", quiet=True)
    (tmp_path / "run" / "teachers" / "1").rename(tmp_path / "gone")
    other.path.rename(tmp_path / "run" / "teachers" / "1")
    with pytest.raises(CheckpointError, match="is not what taught this run"):
        octavo.train(own, text, tmp_path / "run", resume=True, quiet=True)


def test_counts_teach_nobody_and_the_gate_has_the_text_as_its_teacher() -> None:
    class Teacher(torch.nn.Module):
        def forward(self, tokens: torch.Tensor, **_: Any) -> torch.Tensor:
            return torch.arange(5.0).expand(*tokens.shape, 5)

    targets = torch.tensor([[1, 2, 3], [4, 0, 1]])
    batch = Batch(torch.zeros(2, 3, dtype=torch.long), targets, alone=torch.tensor([[1, 1, 1], [0, 0, 0]]))
    taught = ByNetworks(NEXT_TOKEN, [Teacher()], weight=0.5)
    soft = taught.soft_targets(batch, step=0)
    plain = Distillation(NEXT_TOKEN, [Teacher()], weight=0.5).soft_targets(batch, step=0)
    assert torch.equal(soft[0], plain[0])
    assert torch.equal(soft[1], torch.nn.functional.one_hot(targets[1], 5).float())
    without = Batch(batch.inputs, targets)
    assert torch.equal(taught.soft_targets(without, step=0), plain)


def test_a_run_by_the_clock_shares_its_time_by_steps(tmp_path: Path) -> None:
    recipe = check(recipe_with({}, minutes=1.0, passes=8.0, teachers={"trained": 2, "trained_steps": 3}))
    console = Console(quiet=True)
    console.started = time.monotonic()
    unused: Any = None
    training = Training(
        recipe=recipe,
        folder=RunFolder(tmp_path),
        dataset=unused,
        held_out=None,
        batches=unused,
        steps=6,
        model=unused,
        objective=unused,
        runtime=unused,
        console=console,
        reserve=32.0,
    )
    (_, one, after), (_, two, last) = turns(training)
    each = 28 * 3 / (3 + 3 + 6 * (1 + ASKING))
    assert [60 * one, after] == pytest.approx([each, 28 - each], abs=0.1)
    # It does nothing here, so the second one has its part of all the time, not of what the first one leaves.
    assert [60 * two, last] == pytest.approx([28 * 3 / 11, 28 * 8 / 11], abs=0.1)
    learns = teacher_recipe(recipe, 1, 6, two)
    assert learns.training.passes == 4 and learns.training.steps == 3 and learns.seed == recipe.seed + 2
    assert not learns.training.teachers.trained and learns.training.minutes == two
    last = recipe.model_copy(update={"seed": 2**32 - 1})
    assert check(teacher_recipe(last, 0, 6, None).model_dump(mode="json")).seed == 0


def test_the_time_of_its_teachers_is_the_runs_own(
    tmp_path: Path, text: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where it stops before it begins itself."""
    own = recipe_with({}, minutes=60.0, passes=3.0, teachers={"trained": 1})
    with monkeypatch.context() as patch:
        patch.setattr(processes.StopRequest, "__bool__", lambda self: True)
        with pytest.raises(Interrupted):
            octavo.train(own, text, tmp_path / "run", quiet=True)
    before = seconds_of(RunFolder(tmp_path / "run"))
    assert before > 0
    (more, _) = with_more_minutes(tmp_path / "run", 2)
    assert float(more.partition("=")[2]) == pytest.approx(before / 60 + 2, rel=1e-3)
    teacher = tmp_path / "run" / "teachers" / "1" / "last" / "state.json"
    assert json.loads(teacher.read_text())["elapsed"] == before
    run = octavo.train(None, None, tmp_path / "run", resume=True, quiet=True)
    assert json.loads((run.path / "last" / "state.json").read_text())["elapsed"] > before


def test_who_cannot_teach_is_said() -> None:
    for training, wrong in (
        ({"teachers": {"trained": 1, "runs": ["x"]}}, "not both"),
        ({"teachers": {"trained": 1, "written": 99}}, "nobody is there to write"),
        ({"teachers": {"trained": 1}, "start_from": "x"}, "start from no other run"),
        ({"teachers": {"trained": -1}}, "greater than or equal to 0"),
        ({"teachers": {"trained": 1, "trained_steps": 0}}, "greater than or equal to 1"),
    ):
        with pytest.raises(ConfigError, match=wrong):
            check({"training": training})
