"""A session goes on where the last one ended: patience counts on, and no row is lost or taken twice."""

from __future__ import annotations

import shutil
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import octavo
from octavo.errors import CorpusError, InputError, StorageError
from octavo.evaluation.result import Metrics
from octavo.run import train as runs_train
from octavo.run import trainer
from octavo.run.deadline import ending, with_more_minutes
from octavo.run.evaluate import evaluate_split
from octavo.run.trainer import Hook, Trainer
from octavo.tasks.text import task as text_task
from octavo.tasks.text.task import cached_baselines
from octavo.training.checkpoint import Checkpoint, save_checkpoint
from octavo.training.checkpoint_folder import CheckpointFolder, follow
from octavo.training.loop import StepInfo
from octavo.util.terminal import Console

# So small a rate moves no weight, so the first evaluation is the best and none after it is better.
RECIPE: dict[str, Any] = {
    "model": {"layers": 1, "width": 16, "heads": 2, "context": 8},
    "training": {
        "batch": 4,
        "steps": 20,
        "patience": 4,
        "precision": "float32",
        "device": "cpu",
        "threads": 1,
        "optimizer": {"kind": "adamw", "learning_rate": 1e-30},
    },
    "evaluation": {"every": 1},
    "sampling": {"tokens": 5},
    "logging": {"every": 1},
}


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "text.txt"
    path.write_text("the cat sat on the mat and saw the rat; " * 12, encoding="utf-8")
    return path


def train(text: Path, out: Path, *changes: str, **options: Any) -> list[dict[str, Any]]:
    """The rows of a run, without what the clock says."""
    run = octavo.train(RECIPE, text, out, overrides=changes, console=Console(quiet=True), **options)
    return [
        {key: value for key, value in row.items() if key not in ("seconds", "tokens_per_second")}
        for row in run.metrics
    ]


def test_patience_and_metrics_go_on_after_every_resume(text: Path, tmp_path: Path) -> None:
    """Patience once began anew with every session, so a run that was stopped often enough never ended."""
    constant = "training.schedule=constant"  # the rate in a row does not depend on where the run would end
    whole = train(text, tmp_path / "whole", constant)
    evaluated = [row for row in whole if row["event"] == "validation"]
    # As good as the best is no better.
    assert len({row["loss"] for row in evaluated}) == 1
    assert [row["best"] for row in evaluated] == [True, False, False, False, False]
    for step in (2, 3, 4):
        rows = train(text, tmp_path / "parts", constant, f"training.steps={step}", resume=step > 2)
        assert rows == [row for row in whole if row["step"] <= step]
    assert train(text, tmp_path / "parts", constant, resume=True) == whole


def test_judging_is_no_training_time(text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By a clock of its own: a step takes some ticks, an evaluation a thousand seconds."""
    clock = count(step=0.01)
    seconds = [0.0]

    def slow(*arguments: Any, **options: Any) -> Metrics:
        seconds[0] += 1000
        return evaluate_split(*arguments, **options)

    monkeypatch.setattr(trainer, "evaluate_split", slow)
    monkeypatch.setattr(trainer, "time", SimpleNamespace(monotonic=lambda: seconds[0] + next(clock)))
    run = octavo.train(RECIPE, text, tmp_path / "run", console=Console(quiet=True))
    assert seconds[0] == 5000
    assert 0 < run.metrics[-1]["seconds"] < 10
    assert all(row["tokens_per_second"] > 1 for row in run.metrics if row["event"] == "train")


def test_a_run_by_the_clock_that_resumes_knows_what_judging_takes_before_it_trains(
    text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = []
    fit = Trainer.fit

    def noted(self: Trainer) -> None:
        monkeypatch.setattr(
            trainer, "training_steps", lambda *_, **__: known.append(self.clock.judging) or ()
        )
        fit(self)

    train(
        text, tmp_path / "run", "training.minutes=0.02", "evaluation.every=1000", "evaluation.initial=false"
    )
    monkeypatch.setattr(Trainer, "fit", noted)
    more = with_more_minutes(tmp_path / "run", 1)
    train(text, tmp_path / "run", *more, resume=True)
    assert known[0] > 0


def test_a_resume_that_is_refused_changes_nothing(text: Path, tmp_path: Path) -> None:
    train(text, tmp_path / "run")
    before = {path: path.read_bytes() for path in (tmp_path / "run").rglob("*") if path.is_file()}
    changes = ("sampling.prompt=ж",)
    with pytest.raises(InputError):
        train(text, tmp_path / "run", *changes, resume=True)
    after = {path: path.read_bytes() for path in (tmp_path / "run").rglob("*") if path.is_file()}
    assert after.keys() == before.keys()
    assert {path.name for path in after if after[path] != before[path]} <= {"log.txt"}
    train(text, tmp_path / "run", resume=True)


def test_a_run_by_the_clock_finds_its_baselines_before_it_trains(
    text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their time is no part of what its end will take: an audit on the test split has none beside it."""
    seconds, kept, foreseen = [100.0], [], []
    find = text_task.TextTask.find_baselines

    def counted(*arguments: Any) -> dict[str, Any]:
        seconds[0] += 7
        return cached_baselines(*arguments)

    def clocked(*arguments: Any, finish: float | None) -> None:
        kept.append(finish)

    def noted(*arguments: Any) -> None:
        foreseen.append(arguments)
        find(*arguments)

    monkeypatch.setattr(text_task, "cached_baselines", counted)
    monkeypatch.setattr(text_task.TextTask, "find_baselines", noted)
    monkeypatch.setattr(runs_train, "time", SimpleNamespace(monotonic=lambda: seconds[0]))
    monkeypatch.setattr(trainer, "clock_of", clocked)
    minutes = "training.minutes=1"
    train(text, tmp_path / "tested", minutes, "validation=0.2", "test=0.2", "split=contiguous")
    train(text, tmp_path / "untested", minutes, "validation=0.2", "test=0")
    train(text, tmp_path / "without")
    octavo.replay(tmp_path / "tested", tmp_path / "again", console=Console(quiet=True))
    assert kept == [ending(0.0), ending(0.0), None, None]
    assert len(foreseen) == 2, "found first by those alone that go by the clock"


class Clock:
    """Takes the place of the session's: a step takes 45 seconds, a save `saving`."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, saving: float = 0.0) -> None:
        self.now, self.saving = 0.0, saving
        self.saved: list[int] = []
        self.step = Hook(1, self.tick)
        monkeypatch.setattr(trainer, "time", SimpleNamespace(monotonic=lambda: self.now))
        monkeypatch.setattr(trainer, "save_checkpoint", self.save)

    def tick(self, running: Trainer, info: StepInfo) -> None:
        self.now += 45

    def save(self, checkpoints: Path, step: int, **content: Any) -> Checkpoint:
        self.now += self.saving
        self.saved.append(step)
        return save_checkpoint(checkpoints, step, **content)


LONG = (
    *("training.steps=22", "training.checkpoint_every=10", "training.patience=null"),
    *("training.optimizer.learning_rate=0.01", "evaluation.every=22"),
)


def weights(checkpoint: Path) -> list[bytes]:
    return [(checkpoint / name).read_bytes() for name in ("model.safetensors", "state.safetensors")]


@pytest.mark.parametrize(
    ("minutes", "saving", "steps"),
    [
        (0, 0, [10, 20, 22]),
        (2, 0, [3, 6, 9, 10, 13, 16, 19, 20, 22]),
        (5, 0, [7, 10, 17, 20, 22]),
        (2, 30, [3, 10, 17, 20, 22]),  # ten times 30 seconds are seven steps
        (2, 100, [3, 10, 20, 22]),
    ],
)
def test_checkpoints_by_time_come_between_the_regular_ones(
    text: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    minutes: float,
    saving: float,
    steps: list[int],
) -> None:
    clock = Clock(monkeypatch, saving)
    train(text, tmp_path / "run", *LONG, f"training.checkpoint_minutes={minutes}", hooks=[clock.step])
    assert clock.saved == steps


def test_checkpoints_by_time_change_no_bit_and_go_on_to_the_same_bits(
    text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    without = train(text, tmp_path / "without", *LONG, "training.checkpoint_minutes=0")
    clock = Clock(monkeypatch)
    assert train(text, tmp_path / "with", *LONG, hooks=[clock.step]) == without
    wanted = weights(tmp_path / "without" / "last")
    assert weights(tmp_path / "with" / "last") == wanted

    def die(running: Trainer, info: StepInfo) -> None:
        if info.step == 18:
            raise SystemExit(9)

    with pytest.raises(SystemExit):
        train(text, tmp_path / "dead", *LONG, hooks=[clock.step, Hook(1, die)])
    assert follow(tmp_path / "dead" / "last") == CheckpointFolder(
        tmp_path / "dead" / "checkpoints" / "step-000016"
    )
    rows = train(text, tmp_path / "dead", *LONG, "training.checkpoint_minutes=0", resume=True)
    assert rows == without
    assert weights(tmp_path / "dead" / "last") == wanted


@pytest.mark.parametrize(
    ("every", "wanted"),
    [
        (22, {8: [3, 6], 12: [9, 10], 20: [10, 19], 22: [10, 20]}),
        (1, {8: [1, 7], 12: [1, 10], 20: [1, 10, 19], 22: [1, 10, 20]}),  # the first is the best
    ],
)
def test_checkpoints_by_time_push_none_of_the_regular_ones_out(
    text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, every: int, wanted: dict[int, list[int]]
) -> None:
    clock = Clock(monkeypatch)
    found = {}

    def note(running: Trainer, info: StepInfo) -> None:
        found[info.step] = sorted(int(path.name[5:]) for path in running.folder.checkpoints.glob("step-*"))

    changes = (*LONG, "training.optimizer.learning_rate=1e-30", f"evaluation.every={every}")
    train(text, tmp_path / "run", *changes, hooks=[clock.step, Hook(1, note)])
    assert {step: found[step] for step in wanted} == wanted


def test_a_run_does_not_go_on_with_another_text_of_the_same_length(text: Path, tmp_path: Path) -> None:
    train(text, tmp_path / "run", "training.steps=2")
    content = text.read_text(encoding="utf-8")
    text.write_text(content.replace("the cat sat", "the rat sat", 1), encoding="utf-8")
    with pytest.raises(CorpusError, match="changed since this run began"):
        train(text, tmp_path / "run", resume=True)
    text.write_text(content, encoding="utf-8")
    assert train(text, tmp_path / "run", "training.steps=3", resume=True)[-1]["step"] == 3


def test_a_dataset_that_is_deleted_meanwhile_is_a_sentence(
    text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache, steps = tmp_path / "cache", "training.steps=3"
    monkeypatch.setenv("OCTAVO_CACHE", str(cache))
    wanted = train(text, tmp_path / "whole", steps)
    empty = Hook(2, lambda running, info: shutil.rmtree(cache / "datasets"))
    with pytest.raises(StorageError, match=r"(?s)deleted while it was in use.*resume=True") as told:
        train(text, tmp_path / "run", steps, hooks=[empty])
    assert told.value.exit_code == 1 and "--resume" in told.value.as_command_line
    assert train(text, tmp_path / "run", steps, resume=True) == wanted
    assert (tmp_path / "run" / "evaluation.json").is_file()


def test_the_best_before_the_best_stays_once(text: Path, tmp_path: Path) -> None:
    """For the case that the newest is damaged; with keep=1 nothing else would be left."""
    learning = ["training.optimizer.learning_rate=0.01", "training.schedule=constant", "training.steps=3"]
    rows = train(text, tmp_path / "run", *learning, "training.keep=1")
    assert [row["best"] for row in rows if row["event"] == "validation"] == [True, True, True]
    checkpoints = tmp_path / "run" / "checkpoints"
    assert sorted(path.name for path in checkpoints.glob("step-*")) == ["step-000002", "step-000003"]
    weights = checkpoints / "step-000003" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1])
    with pytest.warns(UserWarning, match="damaged"):
        assert octavo.Run.open(tmp_path / "run").step == 2
