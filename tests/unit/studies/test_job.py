"""One run of a study: whatever stands there is gone on with, whatever goes wrong is an outcome."""

from __future__ import annotations

import dataclasses
import json
import shutil
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from octavo.config import check
from octavo.errors import Interrupted
from octavo.evaluation.score import score
from octavo.run.data import build_dataset
from octavo.run.run import Run
from octavo.studies import job as module
from octavo.studies.job import Job, outcome_of, perform, settled
from octavo.studies.plan import jobs_of, plan_study
from octavo.studies.resolve import load_study
from octavo.task import task_of
from octavo.util.terminal import Console
from unit.studies.conftest import study_tree

pytestmark = pytest.mark.usefixtures("plain_reports")


@pytest.fixture(scope="module")
def template(text: Path, tmp_path_factory: pytest.TempPathFactory) -> Job:
    """A run that is done; read it, don't write."""
    study, _ = plan_study(load_study(study_tree(), text), Console(quiet=True))
    job = jobs_of(study, tmp_path_factory.mktemp("template"))[0]
    perform(job, lambda step: None)
    return job


def at(job: Job, folder: Path, **changed: Any) -> Job:
    """The same run in another place."""
    return Job(**{**asdict(job), "folder": str(folder), **changed})


def test_the_outcome_is_the_judgement_of_the_last_weights(template: Job) -> None:
    outcome = settled(template)
    assert outcome is not None and outcome.status == "done" and outcome.step == template.steps
    run = Run.open(template.folder, checkpoint="last")
    dataset = build_dataset(run.config, Console(quiet=True))
    split, marks = dataset.validation, dataset.tokenizer
    scored = run.config.batches.evaluation(
        split.tokens, split.starts, context=16, batch=64, start_id=marks.start, end_id=marks.end
    )
    whole = score(run.model, scored)
    assert outcome.val_loss == pytest.approx(whole.loss, rel=1e-5)
    assert outcome.bits_per_byte == pytest.approx(whole.bits_per_byte(split.bytes), rel=1e-5)
    assert outcome.initial_loss > outcome.val_loss
    units = json.loads((Path(template.folder) / "units.json").read_text())
    assert sum(units["nats"]) == pytest.approx(whole.total, rel=1e-5)
    assert sum(units["bytes"]) == split.bytes and sum(units["tokens"]) == whole.tokens


def test_little_stays_on_disk(template: Job) -> None:
    checkpoints = list((Path(template.folder) / "checkpoints").iterdir())
    links = {(Path(template.folder) / name).resolve() for name in ("best", "last")}
    assert set(checkpoints) == links


def test_what_is_done_is_not_done_again(
    template: Job, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "train", None)
    assert perform(template, lambda step: None) == outcome_of(Path(template.folder))


def test_other_weights_are_judged_anew(template: Job, tmp_path: Path) -> None:
    shutil.copytree(template.folder, tmp_path / "run", symlinks=True)
    outcome = perform(at(template, tmp_path / "run", judge="best"), lambda step: None)
    assert outcome.judge == "best" and outcome.status == "done"


def test_weights_of_an_earlier_step_cost_what_the_whole_run_did(
    template: Job, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(template.folder, tmp_path / "run", symlinks=True)
    opened, last = Run.open, settled(template)

    def earlier(folder: Path, checkpoint: str) -> Any:
        run = opened(folder, checkpoint="last")
        parts = {name: getattr(run, name) for name in ("config", "checkpoint", "tokenizer", "model")}
        return run if checkpoint == "last" else SimpleNamespace(**parts, step=7)

    monkeypatch.setattr(module.Run, "open", earlier)
    outcome = module.evaluated(at(template, tmp_path / "run", judge="best"), tmp_path / "run")
    assert last is not None and (outcome.step, outcome.flops) == (7, last.flops)


@pytest.mark.parametrize(
    ("page", "share"),
    [
        ({"stories": {"passed": 3, "written": 4}}, 0.75),
        ({"validity": {"generated": {"valid": 1, "records": 4}}}, 0.25),
        ({"validity": {"generated": None}}, None),
        ({}, None),
    ],
)
def test_how_many_of_the_texts_were_good_is_a_share_of_those_written(
    page: dict[str, Any], share: float | None
) -> None:
    found = task_of(check({})).study_figures(page, check({}), nats=None, documents=1)
    assert found.get("valid") == share


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (MemoryError(), "needs more memory than there is"),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried"), "needs more memory"),
        (ValueError("odd\nmore"), "ValueError: odd"),
        (KeyError(), "KeyError: no message"),
    ],
)
def test_whatever_goes_wrong_is_an_outcome_that_can_be_tried_again(
    template: Job, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception, reason: str
) -> None:
    def fail(*arguments: object, **options: object) -> None:
        raise error

    monkeypatch.setattr(module, "train", fail)
    job = at(template, tmp_path / "run")
    outcome = perform(job, lambda step: None)
    assert outcome.status == "failed" and reason in outcome.reason and settled(job) is None
    monkeypatch.undo()


def test_a_run_far_behind_its_rival_is_stopped(template: Job, tmp_path: Path) -> None:
    (tmp_path / "rival").mkdir()
    line = {"event": "validation", "step": 1, "loss": 1.0, "bits_per_byte": 0.01}
    (tmp_path / "rival" / "metrics.jsonl").write_text(json.dumps(line) + "\n")
    line["step"] = template.steps
    with (tmp_path / "rival" / "metrics.jsonl").open("a") as rows:
        rows.write(json.dumps(line) + "\n")
    rule = {"after": 0.01, "worse_by": 0.1}
    job = at(template, tmp_path / "run", rival=str(tmp_path / "rival"), hopeless=rule)
    outcome = perform(job, lambda step: None)
    assert outcome.status == "stopped" and settled(job) == outcome
    assert outcome.reason.startswith("Stopped as hopeless at step ")
    assert outcome.reason.endswith(" where the baseline with the same seed had 0.010.")
    for other in (None, {"after": 0.01, "worse_by": 1e6}):
        assert settled(dataclasses.replace(job, hopeless=other)) is None, "by that rule it goes on"
    goes_on = dataclasses.replace(job, hopeless=None, rival=None)
    assert perform(goes_on, lambda step: None).status == "done"


def test_a_run_that_diverges_says_where(template: Job, tmp_path: Path) -> None:
    recipe = json.loads(json.dumps(template.recipe))
    recipe["training"]["optimizer"] = {"kind": "sgd", "learning_rate": 1e30}
    job = at(template, tmp_path / "run", recipe=recipe)
    outcome = perform(job, lambda step: None)
    assert outcome.status == "failed" and settled(job) == outcome
    assert outcome.reason.startswith("Step ") and " diverged: " in outcome.reason
    assert "kept" not in outcome.reason  # that nothing was lost is no news in a table


def test_a_run_without_a_whole_checkpoint_begins_anew(template: Job, tmp_path: Path) -> None:
    shutil.copytree(template.folder, tmp_path / "run", symlinks=True)
    (tmp_path / "run" / "outcome.json").unlink()
    for weights in (tmp_path / "run").glob("checkpoints/*/model.safetensors"):
        weights.write_bytes(b"damaged")
    steps: list[int] = []
    outcome = perform(at(template, tmp_path / "run"), steps.append)
    first = outcome_of(Path(template.folder))
    assert first is not None
    assert steps[0] == 1 and outcome == first.model_copy(update={"seconds": outcome.seconds})


def test_being_stopped_is_no_outcome(template: Job, tmp_path: Path) -> None:
    def stop(step: int) -> None:
        raise Interrupted("stopped")

    job = at(template, tmp_path / "run")
    with pytest.raises(Interrupted):
        perform(job, stop)
    assert outcome_of(tmp_path / "run") is None


def test_a_folder_that_stays_occupied(template: Job, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PATIENCE", 0.3)
    job = at(template, tmp_path / "run")
    (tmp_path / "run").mkdir()
    with module.RunFolder(tmp_path / "run").lock():
        outcome = perform(job, lambda step: None)
    assert outcome.status == "failed" and "being written by another process" in outcome.reason
    assert settled(job) is None
