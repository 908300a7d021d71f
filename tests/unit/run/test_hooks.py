"""Periodic work: what is due when, hooks of the caller's own, epochs as a period, several prompts, the first loss."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import octavo
from octavo.config import load_recipe
from octavo.errors import ConfigError
from octavo.report.data import ReportData
from octavo.run.folder import Progress
from octavo.run.trainer import Hook, Trainer
from octavo.training.loop import StepInfo
from octavo.util.terminal import Console

RECIPE: dict[str, Any] = {
    "model": {"layers": 1, "width": 16, "heads": 2, "context": 8},
    "training": {"batch": 4, "steps": 6, "precision": "float32", "device": "cpu", "threads": 1},
    "evaluation": {"every": 3},
    "sampling": {"tokens": 5},
}
TEXT = "the cat sat on the mat and saw the rat; " * 12


def train(tmp_path: Path, *changes: str, **options: Any) -> octavo.Run:
    text = tmp_path / "text.txt"
    text.write_text(TEXT, encoding="utf-8")
    return octavo.train(
        RECIPE, text, tmp_path / "run", overrides=changes, console=Console(quiet=True), **options
    )


@pytest.mark.parametrize(
    ("hook", "steps"),
    [
        (Hook(3, print), [3, 6, 9]),
        (Hook(0, print), []),
        (Hook(4, print, first=True), [1, 4, 8]),
        (Hook(4, print, last=True), [4, 8, 10]),
        (Hook(0, print, first=True, last=True), [1, 10]),
        (Hook(6, print, best=True), [6, 7]),
    ],
)
def test_when_a_hook_is_due(hook: Hook, steps: list[int]) -> None:
    due = [step for step in range(1, 11) if hook.due(Progress(step=step, best_step=7, finished=step == 10))]
    assert due == steps


def test_hooks_of_the_callers_own_change_nothing_else(tmp_path: Path) -> None:
    seen: list[tuple[int, float]] = []

    def note(session: Any, info: Any) -> None:
        seen.append((info.step, info.loss))
        session.write_row({"event": "note", "step": info.step})

    (tmp_path / "plain").mkdir()
    plain = train(tmp_path / "plain")
    hooked = train(tmp_path, hooks=[octavo.Hook(every=2, work=note)])
    assert [step for step, _ in seen] == [2, 4, 6]
    assert [row["step"] for row in hooked.metrics if row["event"] == "note"] == [2, 4, 6]
    weights = [run.checkpoint.folder / "model.safetensors" for run in (plain, hooked)]
    assert weights[0].read_bytes() == weights[1].read_bytes()


def test_a_run_that_gets_more_steps_on_its_way_goes_through_the_rest_of_its_schedule(tmp_path: Path) -> None:
    def more(trainer: Trainer, info: StepInfo) -> None:
        if info.step == 3:
            trainer.pace.change(3, 9)

    settings = ("training.schedule={kind: linear, floor: 0}", "logging.every=1")
    run = train(tmp_path, *settings, hooks=[Hook(1, more)])
    rates = [row["learning_rate"] for row in run.metrics if row["event"] == "train"]
    places = [0, 1, 2, 3, 3.5, 4, 4.5, 5, 5.5]  # of the six steps that were planned
    assert [rate / rates[0] for rate in rates] == pytest.approx([max(0, 1 - place / 5) for place in places])


def test_an_epoch_as_a_period(tmp_path: Path) -> None:
    run = train(
        tmp_path,
        "batches=sliding",
        "training.steps=~",
        "training.epochs=2",
        "evaluation.every=epoch",
        "sampling.every=epoch",
        "training.checkpoint_every=epoch",
        "training.keep=9",
    )
    steps = [row["step"] for row in run.metrics if row["event"] == "validation"]
    epoch = -(-((int(0.9 * len(TEXT)) - 9) // 8 + 1) // 4)
    assert steps == [epoch, 2 * epoch]
    assert run.folder is not None
    assert sorted(path.name for path in run.folder.checkpoints.glob("step-*")) == [
        f"step-{step:06d}" for step in steps
    ]
    assert {path.name for path in run.folder.samples.glob("step-*.txt")} == {
        f"step-{step:06d}.txt" for step in steps
    }
    assert run.config.evaluation.every == "epoch"


def test_epochs_of_random_windows_are_refused_all_at_once() -> None:
    with pytest.raises(ConfigError) as caught:
        load_recipe(RECIPE, ["evaluation.every=epoch", "training.checkpoint_every=epoch"])
    for word in ("evaluation.every", "training.checkpoint_every", "no epochs", "batches=sliding"):
        assert word in str(caught.value)
    assert "sampling.every" not in str(caught.value)


@pytest.mark.parametrize("wrong", ["evaluation.every=0", "sampling.every=-1", "evaluation.every=week"])
def test_what_is_no_period(wrong: str) -> None:
    with pytest.raises(ConfigError, match=wrong.partition("=")[0]):
        load_recipe(RECIPE, [wrong])


def test_each_prompt_has_its_file_and_its_place_in_the_report(tmp_path: Path) -> None:
    run = train(tmp_path, "sampling.prompt=[the cat, 'and ']", "sampling.every=3")
    assert run.folder is not None
    for step in (3, 6):
        for number, prompt in enumerate(("the cat", "and "), start=1):
            text = (run.folder.samples / f"step-{step:06d}-{number}.txt").read_text(encoding="utf-8")
            assert text.startswith(prompt) and len(text) == len(prompt) + 5
    shown = ReportData.from_run(run.folder.path).samples
    assert [(sample.step, sample.prompt, len(sample.text)) for sample in shown] == [
        (3, "the cat", 5),
        (3, "and ", 5),
        (6, "the cat", 5),
        (6, "and ", 5),
    ]


def test_no_prompts_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"sampling\.prompt"):
        load_recipe(RECIPE, ["sampling.prompt=[]"])


def test_the_untrained_loss_is_a_row_and_never_the_best(tmp_path: Path) -> None:
    run = train(tmp_path, "evaluation.initial=true", "training.optimizer.learning_rate=1e-9")
    rows = [row for row in run.metrics if row["event"] == "validation"]
    assert [row["step"] for row in rows] == [0, 3, 6]
    assert not rows[0]["best"] and rows[1]["best"]
    assert rows[0]["loss"] == pytest.approx(rows[1]["loss"], abs=1e-3)
    assert run.step in (3, 6)


def test_going_on_does_not_write_the_untrained_loss_again(tmp_path: Path) -> None:
    train(tmp_path, "evaluation.initial=true", "training.steps=3")
    run = train(tmp_path, "evaluation.initial=true", "training.steps=6", resume=True)
    assert [row["step"] for row in run.metrics if row["event"] == "validation"] == [0, 3, 6]
    assert run.folder is not None
    lines = run.folder.metrics.read_text(encoding="utf-8").splitlines()
    assert len(lines) == len({(json.loads(line)["event"], json.loads(line)["step"]) for line in lines})
