"""A run on a machine that others use: one thread meanwhile, written down, and kept when the run goes on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import octavo
from octavo.run import replay
from octavo.run.run import Run
from octavo.training import device
from octavo.training.checkpoint_folder import CheckpointFolder
from octavo.training.device import WatchfulCrew
from octavo.util.records import read_record
from octavo.util.terminal import Console

RECIPE: dict[str, Any] = {
    "model": {"layers": 1, "width": 16, "heads": 2, "context": 16, "dropout": 0.1},
    "training": {"steps": 8, "batch": 4, "precision": "float32", "device": "cpu", "checkpoint_every": 4},
    "evaluation": {"every": 8},
    "sampling": {"tokens": 5},
}


@pytest.fixture(autouse=True)
def two_threads(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    monkeypatch.setenv("OCTAVO_CACHE", str(tmp_path / "cache"))
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "text.txt"
    path.write_text("the brown fox jumps over the lazy dog.\n" * 60)
    return path


def busy(monkeypatch: pytest.MonkeyPatch, *, after: int) -> None:
    """From that step on two threads are ruinous."""
    monkeypatch.setattr(device.Pace, "step", lambda self, seconds: seconds >= 0 and next(steps) >= after)
    monkeypatch.setattr(
        device, "step_seconds", lambda *_, **__: 60.0 if torch.get_num_threads() == 2 else 1.0
    )
    monkeypatch.setattr(device.Pace, "usual", 0.05)
    monkeypatch.setattr(device.Pace, "now", 3.0)
    steps = iter(range(1, 1000))


def train(text: Path, out: Path, **more: Any) -> tuple[Run, list[int]]:
    """The run, and the threads of each of its steps."""
    seen: list[int] = []
    hooks = [octavo.Hook(1, lambda session, info: seen.append(torch.get_num_threads()))]
    return octavo.train(RECIPE, text, out, console=Console(quiet=True), hooks=hooks, **more), seen


def test_two_threads_where_nobody_disturbs(
    text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(device, "step_seconds", lambda *_, **__: 1.0)
    run, seen = train(text, tmp_path / "run")
    assert seen == [2] * 8
    assert run.checkpoint.state()["thread_changes"] == []


def test_one_thread_from_a_step_on_and_when_the_run_goes_on(
    text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(device, "step_seconds", lambda *_, **__: 1.0)
    busy_later = pytest.MonkeyPatch()
    original = device.Pace.step
    calls = iter(range(1, 1000))

    def step(self: device.Pace, seconds: float) -> bool:
        if next(calls) == 3:
            busy(busy_later, after=1)
            return True
        return original(self, seconds)

    monkeypatch.setattr(device.Pace, "step", step)
    try:
        run, seen = train(text, tmp_path / "run")
    finally:
        busy_later.undo()
    assert seen == [2, 2] + [1] * 6
    newest = Run.open(tmp_path / "run", checkpoint="last").checkpoint.state()
    assert newest["thread_changes"] == [[4, 1]]
    log = (tmp_path / "run" / "log.txt").read_text()
    assert log.count("because other programs use the cores. Continuing with 1 thread instead of 2") == 1

    torch.set_num_threads(2)
    on, seen = train(text, tmp_path / "run", resume=True, overrides=["training.steps=12"])
    assert seen == [1] * 4
    assert on.checkpoint.state()["thread_changes"] == [[4, 1]]
    assert run.step == 8 and on.step == 12


def test_threads_that_the_recipe_names_are_not_watched(
    text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    busy(monkeypatch, after=1)
    _, seen = train(text, tmp_path / "run", overrides=["training.threads=2"])
    assert seen == [2] * 8


def test_looking_changes_no_bit(text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def looks(self: WatchfulCrew, step: int, seconds: float) -> str:
        assert self._timed(1, 0.01) > 0 and self._timed(2, 0.01) > 0
        return ""

    few = "training.steps=3"
    runs = [train(text, tmp_path / "plain", overrides=["training.threads=2", few])[0]]
    monkeypatch.setattr(WatchfulCrew, "after_step", looks)
    monkeypatch.setattr(device, "faster", lambda most, timing: (most, 1.0))
    runs.append(train(text, tmp_path / "looked", overrides=[few])[0])
    one, other = (run.model.state_dict() for run in runs)
    assert all(torch.equal(value, other[name]) for name, value in one.items())


def test_a_repetition_says_what_the_first_run_went_on_with(
    text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(device, "step_seconds", lambda *_, **__: 1.0)
    first, _ = train(text, tmp_path / "first")
    train(text, tmp_path / "second", overrides=["seed=3"])
    changed = first.checkpoint.state() | {"thread_changes": [[4, 1]]}
    plain = CheckpointFolder.state
    monkeypatch.setattr(
        CheckpointFolder,
        "state",
        lambda self, *shape: changed if tmp_path / "first" in self.folder.parents else plain(self),
    )
    folders = [replay.RunFolder(tmp_path / name) for name in ("first", "second")]
    manifests = [read_record(folder.manifest) for folder in folders]
    found = replay.differences(*folders, *manifests)
    assert any("first went on with 1 thread from step 4 on" in sentence for sentence in found)


def test_a_run_by_the_clock_goes_on_with_one_thread_on_a_busy_machine(
    text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It could otherwise take no step in its time, and what is usual there it cannot know. Other runs go on as they
    were, to the bit."""
    monkeypatch.setattr(device, "step_seconds", lambda *_, **__: 1.0)
    by_the_clock = ["training.minutes=5", "training.passes=0.3"]
    train(text, tmp_path / "timed", overrides=by_the_clock)
    train(text, tmp_path / "counted")
    torch.set_num_threads(2)
    monkeypatch.setattr(
        device, "step_seconds", lambda *_, **__: 60.0 if torch.get_num_threads() == 2 else 1.0
    )
    more = ["training.minutes=6", "training.passes=0.6"]
    run, seen = train(text, tmp_path / "timed", resume=True, overrides=more)
    assert len(seen) > 5 and set(seen) == {1}
    ((step, number),) = run.checkpoint.state()["thread_changes"]
    assert number == 1 and step == run.step - len(seen) + 1
    torch.set_num_threads(2)
    monkeypatch.setattr(device.Pace, "step", lambda self, seconds: False)  # whatever this machine does now
    _, seen = train(text, tmp_path / "counted", resume=True, overrides=["training.steps=12"])
    assert seen == [2] * 4
