"""One run of a study: an ordinary training, then its evaluation unit by unit. It resumes from whatever is there.

runs/<slug>/seed-<n>/   the run folder, with two files more:
    units.json          the evaluated weights' loss on the validation split, unit by unit
    outcome.json        how the run ended, written last; where it says `settled`, nothing is left to do
"""

from __future__ import annotations

import math
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch

from octavo.config import Recipe
from octavo.errors import CheckpointError, DivergedError, Interrupted, OctavoError, RunFolderError
from octavo.evaluation.stored import Manifest
from octavo.evaluation.units import UnitScores
from octavo.model.base import LanguageModel, build_model
from octavo.model.vectors import calibrate
from octavo.run.data import build_dataset
from octavo.run.evaluate import unit_losses
from octavo.run.folder import Progress, RunFolder
from octavo.run.run import Run
from octavo.run.train import train
from octavo.run.trainer import Hook
from octavo.studies.early_stop import Hopeless, hopeless_hook
from octavo.studies.measures import OF_TASKS
from octavo.studies.stored import Outcome
from octavo.task import read_evaluation, task_of
from octavo.training.checkpoint_folder import follow, prune
from octavo.training.device import Runtime, set_threads
from octavo.util.files import put_away, replace_text
from octavo.util.memory import out_of_memory
from octavo.util.records import json_text, read_record
from octavo.util.terminal import Console

OUTCOME, UNITS = "outcome.json", "units.json"
PATIENCE = 60.0  # seconds that a run waits for a process that is still leaving its folder

OnStep = Callable[[int], None]


@dataclass(frozen=True)
class Job:
    """A run to do, as plain data, so that it can be sent to another process.

    Attributes:
        folder: the run folder.
        recipe: the resolved recipe's tree, seed and steps in it.
        judge: which weights, last or best.
        rival: run folder of the baseline with the same seed, where hopeless runs are stopped; else None.
        hopeless: `StopHopeless` as a mapping, or None.
    """

    change: str
    slug: str
    seed: int
    folder: str
    recipe: dict[str, Any]
    steps: int
    judge: Literal["last", "best"] = "last"
    rival: str | None = None
    hopeless: dict[str, float] | None = None


def settled(job: Job) -> Outcome | None:
    """The outcome of a run if nothing is left to do, or None."""
    outcome = outcome_of(Path(job.folder))
    if outcome is None or not outcome.settled or outcome.judge != job.judge:
        return None
    rule = job.hopeless
    if outcome.status == "stopped" and (rule is None or (outcome.hopeless or rule) != rule):
        return None  # by another rule, or one that is no more: it goes on
    return outcome


def outcome_of(folder: Path) -> Outcome | None:
    """How a run ended, if it did."""
    try:
        return Outcome(**read_record(folder / OUTCOME, Outcome))
    except CheckpointError:  # there is none yet, or it is judged again
        return None


def perform(job: Job, on_step: OnStep) -> Outcome:
    """Train, evaluate, write the outcome, and return it. `on_step` is called with the finished steps.

    Raises Interrupted when asked to stop. Whatever else goes wrong is an outcome.
    """
    folder = Path(job.folder)
    done = settled(job)
    if done is not None:
        return done
    try:
        outcome = _trained_and_evaluated(job, folder, on_step)
    except Interrupted:
        raise
    except Hopeless as note:
        outcome = Outcome(
            judge=job.judge, status="stopped", reason=str(note), settled=True, hopeless=job.hopeless
        )
    except DivergedError as error:
        # Where a run ends is a figure; that nothing was lost is no news in a table.
        outcome = failed(job, error.event, settled=True)
    except OctavoError as error:
        outcome = failed(job, error.what)
    except Exception as error:
        traceback.print_exc()
        reason = (
            f"{type(error).__name__}: {str(error).strip().splitlines()[0] if str(error) else 'no message'}"
        )
        outcome = failed(job, "The run needs more memory than there is." if out_of_memory(error) else reason)
    return write_outcome(job, outcome)


def failed(job: Job, reason: str, *, settled: bool = False) -> Outcome:
    """The outcome of a run that came to nothing. `settled`: it would again."""
    return Outcome(judge=job.judge, status="failed", reason=reason, settled=settled)


def write_outcome(job: Job, outcome: Outcome) -> Outcome:
    """Put an outcome into the run folder, in one atomic step."""
    folder = Path(job.folder)
    folder.mkdir(parents=True, exist_ok=True)
    replace_text(folder / OUTCOME, json_text(outcome, indent=1, ensure_ascii=False))
    return outcome


def _trained_and_evaluated(job: Job, folder: Path, on_step: OnStep) -> Outcome:
    wait_until_free(folder)
    hooks = [Hook(1, lambda session, info: on_step(info.step))]
    if job.hopeless and job.rival:
        hooks.append(hopeless_hook(Path(job.rival), **job.hopeless))
    begun = RunFolder(folder).config.is_file()
    try:
        train(job.recipe, out=folder, resume=begun, quiet=True, hooks=hooks)
    except CheckpointError:
        if not begun:
            raise
        put_away(folder, "damaged")  # no checkpoint of it is whole: it starts again
        train(job.recipe, out=folder, quiet=True, hooks=hooks)
    return evaluated(job, folder)


def of_page(folder: Path, recipe: Recipe, step: int) -> dict[str, Any]:
    """What a run's own evaluation says of the weights of a step; nothing where it is of others."""
    evaluation = read_evaluation(RunFolder(folder).evaluation, recipe, of="the run")
    return evaluation if evaluation.get("step") == step else {}


def wait_until_free(folder: Path) -> None:
    """Wait while a process of an earlier, killed study leaves the folder. Raises RunFolderError if it does not."""
    folder.mkdir(parents=True, exist_ok=True)
    end = time.monotonic() + PATIENCE
    while True:
        try:
            with RunFolder(folder).lock():
                return
        except RunFolderError:
            if time.monotonic() > end:
                raise
        time.sleep(0.2)


def evaluated(job: Job, folder: Path) -> Outcome:
    """Evaluate a finished run's weights unit by unit, and its untrained model; writes units.json."""
    run = Run.open(folder, checkpoint=job.judge)
    recipe, state = run.config, Progress.of(run.checkpoint)
    described = read_record(RunFolder(folder).manifest, Manifest, of="the run")["runtime"]
    runtime = Runtime(
        torch.device(described["device"]), described["precision"], set_threads(described["threads"])
    )
    dataset = build_dataset(recipe, Console(quiet=True), run.tokenizer)

    def scores(model: LanguageModel) -> UnitScores:
        return unit_losses(model, dataset.validation, recipe, dataset.tokenizer, runtime)

    vocab_size = dataset.tokenizer.vocab_size
    by_unit, initial = scores(run.model), None
    if recipe.training.start_from is None:  # else it is no share of that loss which training took away
        untrained = build_model(recipe.model, vocab_size=vocab_size, seed=recipe.seed)
        calibrate(untrained, dataset.train.tokens)
        initial = scores(untrained).total.loss
    total = by_unit.total
    if not math.isfinite(total.loss):
        return failed(job, "Its loss on the validation split is not a finite number.", settled=True)
    content = {"checkpoint": job.judge, "step": run.step, "names": None, **by_unit.as_dict()}
    replace_text(folder / UNITS, json_text(content))
    per_position = recipe.model.training_flops(vocab_size=vocab_size)
    positions = recipe.training.batch * recipe.training.accumulation * recipe.model.context  # of a step
    last = Progress.of(Run.open(folder, checkpoint="last").checkpoint)
    own = task_of(recipe).study_figures(
        of_page(folder, recipe, run.step),
        recipe,
        nats=total.total if total.of_text else None,
        documents=dataset.validation.documents,
    )
    metrics: Any = {metric: own.get(metric) for metric in OF_TASKS}
    outcome = Outcome(
        judge=job.judge,
        status="done",
        reason=None,
        settled=True,
        val_loss=total.loss,
        bits_per_byte=total.bits_per_byte(dataset.validation.bytes),
        accuracy=total.metrics.get("accuracy"),
        perplexity=total.perplexity,
        **metrics,
        unit=None if total.of_text else str(total.unit),
        initial_loss=initial,
        step=run.step,
        tokens=state.tokens,
        flops=float(per_position * positions * last.step),
        parameters=sum(parameter.numel() for parameter in run.model.parameters()),
        seconds=last.seconds,
    )
    here = RunFolder(folder)  # a new best spared its forerunner, for the case of damage; that case is over
    prune(here.checkpoints, keep=recipe.training.keep, always=[follow(here.best), follow(here.last)])
    return outcome
