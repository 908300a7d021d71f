"""The trainer: the loop and the work around its steps. It ends finished, interrupted or diverged."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor, nn

import octavo
from octavo.config import Recipe, to_yaml
from octavo.data import Dataset
from octavo.data.batches import Batches
from octavo.errors import CheckpointError, DivergedError, Interrupted, MissingExtra
from octavo.evaluation.result import Metrics
from octavo.model.base import LanguageModel, build_model
from octavo.run.data import in_steps
from octavo.run.deadline import Pace, clock_of, heard_again, judged_at_the_end
from octavo.run.evaluate import evaluate_split, evaluated_by
from octavo.run.finetune import started_of
from octavo.run.folder import Progress, RunFolder, ends_before, followed, going_on, in_between
from octavo.run.run import Run
from octavo.task import task_of
from octavo.training.checkpoint import (
    OTHER,
    Checkpoint,
    keep_chapter,
    learning_tensors,
    model_tensors,
    save_checkpoint,
    story_steps,
)
from octavo.training.checkpoint_folder import follow, point, prune
from octavo.training.device import Runtime, WatchfulCrew, compiled, compiles, faster, pass_timing, set_threads
from octavo.training.distributed.parallel import held, is_part
from octavo.training.loop import DIVERGED_REMEDY, StepInfo, training_steps
from octavo.training.objective import Learning, Objective
from octavo.training.step import StepOptions
from octavo.util.files import replace_text, storage_errors, sync
from octavo.util.processes import stop_requests
from octavo.util.records import json_text
from octavo.util.terminal import Console


@dataclass(frozen=True)
class Hook:
    """Work to do after every `every`-th step.

    Attributes:
        every: steps from one time to the next; 0: only as the other three say.
        work: gets the `Trainer` and what the step did.
        first: also after the very first step.
        last: also after the last step, an early stop's too.
        best: also after each new best.

    For example, `octavo.train(recipe, text, hooks=[Hook(every=100, work=lambda trainer, info: print(info.loss))])`.
    """

    every: int
    work: Callable[[Trainer, StepInfo], None]
    first: bool = False
    last: bool = False
    best: bool = False

    def __post_init__(self) -> None:
        assert self.every >= 0, f"a hook every {self.every} steps"

    def due(self, progress: Progress) -> bool:
        """Whether it is due after this step."""
        return (
            bool(self.every and progress.step % self.every == 0)
            or (self.first and progress.step == 1)
            or (self.last and progress.finished)
            or (self.best and progress.best_step == progress.step)
        )


def event_writer() -> Any:
    """What writes event files. Raises MissingExtra."""
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError as error:
        raise MissingExtra("tensorboard", "tensorboard", "logging.tensorboard") from error
    return SummaryWriter


class TensorBoard:
    """Writes every number of a metrics row as a scalar named event/key; metrics.jsonl stays the record."""

    def __init__(self, writer: Any) -> None:
        self._writer = writer

    @classmethod
    def open(cls, folder: Path) -> TensorBoard:
        """Event files in `folder`/tensorboard; raises MissingExtra."""
        return cls(event_writer()(str(folder / "tensorboard")))

    def write(self, row: dict[str, Any]) -> None:
        for key, value in row.items():
            if isinstance(value, int | float) and not isinstance(value, bool) and key != "step":
                self._writer.add_scalar(f"{row['event']}/{key}", value, row["step"])
        self._writer.flush()


FEW = 100  # tokens
SPARING = 10  # a checkpoint by time comes no sooner than after so many times the last save's length


@dataclass(frozen=True)
class Training:
    """All that a training has.

    Attributes:
        held_out: tokens of the training split that the network does not learn from (N,), if there are any.
        steps: of the whole run, as its recipe says.
        objective: without teachers.
        source: the checkpoint that it resumes from.
        before: seconds that it took in earlier sessions, where none came to a checkpoint of its own.
        prepared: seconds until text and model were there.
        replay_of: the run that it repeats.
        reserve: seconds kept for the end of the run beside its evaluation; None disables the deadline.
    """

    recipe: Recipe
    folder: RunFolder
    dataset: Dataset
    held_out: np.ndarray | None
    batches: Batches
    steps: int
    model: LanguageModel
    objective: Objective
    runtime: Runtime
    console: Console
    source: Checkpoint | None = None
    before: float = 0.0
    prepared: float = 0.0
    replay_of: RunFolder | None = None
    teachers: Sequence[Run] = ()
    reserve: float | None = None


class Trainer:
    """Trains a model in a run folder, from wherever its checkpoint stands; the caller's `hooks` run next to its own."""

    def __init__(self, training: Training, hooks: Sequence[Hook] = ()) -> None:
        self.training = training
        self.recipe = recipe = training.recipe
        self.folder, self.dataset, self.batches = training.folder, training.dataset, training.batches
        self.runtime, self.console, self.world = training.runtime, training.console, training.runtime.world
        source = training.source
        replay_of = None if training.replay_of is None else followed(training.replay_of)
        if source is not None:
            source.load_trained(training.model)
        self.model = training.model.to(self.runtime.device)
        self.trained = recipe.parallel.build(self.model, self.world)
        self.objective = recipe.objective.build()
        if training.teachers:
            from octavo.run.teachers import objective_of

            models = [run.network().model for run in training.teachers]
            self.objective = objective_of(recipe, models, self.runtime.device)
        self.objective.set_tokenizer(self.dataset.tokenizer)
        self.optimizers = recipe.training.optimizer.build(self.model)
        self.progress = Progress(elapsed=training.before)
        if source is not None:
            source.load_optimizers(self.optimizers)
            self.progress = Progress.of(source)
        self.learned = self._learned(source)
        for note in self.learned.notes if self.learned is not self.batches else ():
            self.console.say(note)
        self.earlier = self.progress.elapsed
        self.evaluated: int | None = None  # the step after which it was last evaluated, in this session
        anew = recipe.training.minutes is None
        planned = self.progress.plan(training.steps, anew=anew, like=replay_of)
        self.pace = Pace(planned, self.progress.pace)
        self.ends = ends_before(planned, replay_of.pace if replay_of else ())
        self.clock = clock_of(
            recipe, self.batches, self.pace, self.progress, self.console, finish=training.reserve
        )
        self.progress.finished = self.progress.step >= self.steps or self.out_of_patience
        self.crew = self._crew()
        asked = recipe.logging.tensorboard and self.world.first
        self.board = TensorBoard.open(self.folder.path) if asked else None
        periods = in_steps(recipe, self.batches, planned)
        self.checkpoint_every = int(periods.training.checkpoint_every)
        self.hooks = [
            Hook(recipe.logging.every, Trainer.log_step, first=True, last=True),
            Hook(1, Trainer.show),
            Hook(int(periods.evaluation.every), Trainer.evaluate, last=True),
            Hook(int(periods.sampling.every), Trainer.sample),
            Hook(1, Trainer.keep_for_story),
            *hooks,
            Hook(self.checkpoint_every, Trainer.save, last=True, best=True),
        ]
        self.story = story_steps(planned, recipe.training.keep_for_story)
        self._first = self.progress.step + 1  # of this session
        self._clock = time.monotonic()
        self._mark = (time.monotonic(), 0)  # when, and after how many tokens, speed was last read
        self._saved, self._saving = time.monotonic(), 0.0  # when it last saved, and how long that took

    @property
    def steps(self) -> int:
        """Of the whole run, as things stand."""
        return self.pace.total

    def _learned(self, source: Checkpoint | None) -> Batches:
        """What the run learns from: the recipe's batches, or what its objective puts in their place, from where that
        was at the checkpoint `source`."""
        recipe, folder, training = self.recipe, self.folder, self.recipe.training
        kept = folder.start.is_file()
        learning = Learning(
            model=self.model,
            batches=self.batches,
            started=started_of(folder, recipe, self.dataset.tokenizer) if kept else None,
            dataset=self.dataset,
            seed=recipe.seed,
            rows=training.batch,
            accumulation=training.accumulation,
        )
        learned = self.objective.begin(learning)
        if source is not None:
            try:
                learned.restore(source.others())
            except (ValueError, TypeError, KeyError, IndexError) as error:
                raise CheckpointError(
                    f"{source.folder} does not hold the state of this objective ({error})."
                ) from error
        return learned

    def _crew(self) -> WatchfulCrew | None:
        """What watches the threads, if the recipe leaves their number open and other programs could slow them down."""
        runtime, training = self.runtime, self.recipe.training
        if training.threads or runtime.most == 1 or runtime.device.type != "cpu" or training.compile is True:
            return None
        if self.world.size > 1 or self.recipe.parallel.kind != "none":
            return None

        def timing(threads: int) -> float:
            batch, objective = self.batches.batch(0, 0).to("cpu"), self.training.objective
            return pass_timing(self.model, batch, runtime.most, objective=objective)(threads)

        crew = WatchfulCrew(runtime.most, self.progress.thread_changes, timing, first=runtime.threads)
        goes_on = self.clock is not None and self.progress.step > 0
        if goes_on and crew.threads == runtime.most and faster(runtime.most, timing)[0] == 1:
            self.progress.thread_changes.append([self.progress.step + 1, 1])
            self.console.say("other programs use the cores: the run goes on with 1 thread")
        set_threads(crew.threads)
        return crew

    def fit(self) -> None:
        """Train to the end. Raises Interrupted (saved), DivergedError (not saved) or StorageError."""
        model = self.compiled()
        self.before_the_first_step()
        with stop_requests() as stop, self.console.working("training", self.steps):
            for info in self.steps_of(model):
                self.after_step(info)
                asked, overdue = self.world.all_reduce(bool(stop), self.world.first and self.overdue)
                if asked:
                    self.save()
                    raise self.interrupted(stop.name or "a signal", info.step)
                if self.progress.finished:
                    break
                if overdue:
                    self.save()

    def steps_of(self, model: nn.Module) -> Iterator[StepInfo]:
        """Train through the steps that are left."""
        training, first = self.recipe.training, self.progress.step
        schedule = training.schedule.build(steps=self.pace.planned)
        return training_steps(
            model,
            self.optimizers,
            self.learned.batch,
            steps=self.pace.steps(first),
            seed=self.recipe.seed,
            schedule=lambda step: schedule(self.pace.place(step)),
            objective=self.objective,
            options=StepOptions(
                accumulation=training.accumulation,
                micro_batch=self.runtime.micro_batch,
                clip=training.clip,
                autocast=self.runtime.autocast,
                world=self.world,
            ),
        )

    def before_the_first_step(self) -> None:
        """Evaluate the untrained model where that is asked for or it may be the best, and once where a deadline has to
        know what that takes."""
        recipe, first = self.recipe, self.progress.step
        candidate = self.model.predicts_untrained
        asked = recipe.evaluation.initial or recipe.training.start_from or candidate
        if first == 0 and asked and self.progress.best_loss == math.inf:  # else a checkpoint of step 0 has it
            self.evaluate_untrained(candidate=candidate)
        if first < self.steps and self.clock is not None and self.clock.finish and not self.clock.evaluation:
            self.measured()  # what is kept for the end has to be known before the first look on the way

    def interrupted(self, by: str, step: int) -> Interrupted:
        """The error for a stop after this step, which is saved."""
        return Interrupted(
            f"Stopped by {by} after {self.at(step, sep=' of ')}; everything is saved.",
            remedy=going_on(self.folder, self.recipe, processes=self.world.size),
        )

    def compiled(self) -> nn.Module:
        """The model as it is trained, through torch.compile where that is worth it."""
        if not compiles(self.recipe.training.compile, self.runtime.device, steps=self.steps):
            return self.trained
        self.console.say("compiling the model; the first step takes a while")
        return compiled(self.trained, self.runtime.device, alone=self.world.size == 1)

    @property
    def out_of_patience(self) -> bool:
        """Whether as many evaluations as the recipe allows have brought no new best."""
        patience = self.recipe.training.patience
        return patience is not None and self.progress.evaluations_since_best >= patience

    @property
    def overdue(self) -> bool:
        """Whether the last checkpoint is so long ago that one in between is due."""
        minutes, since = self.recipe.training.checkpoint_minutes, time.monotonic() - self._saved
        return minutes > 0 and since >= max(60 * minutes, SPARING * self._saving)

    def after_step(self, info: StepInfo) -> None:
        """Everything periodic that is due."""
        progress, now = self.progress, time.monotonic()
        progress.step, progress.tokens = info.step, progress.tokens + info.tokens
        seconds = now - self._clock
        progress.seconds += seconds
        if self.crew is not None:
            if said := self.crew.after_step(info.step, seconds):
                self.console.say(said)
                if self.clock is not None:
                    self.clock.anew(progress, times=self.crew.times)
            set_threads(self.crew.threads)
        self._clock = time.monotonic()
        over = self.learned.over(info.step - 1)
        for sentence in filter(None, (self.learned.remark(info.step - 1), over)):
            self.console.say(f"step {info.step}: {sentence}")
        if self.clock is not None:
            self.clock.keep(progress)
            self.console.expect(self.steps, ends=self.clock.ends(info.step))
        end = info.step in self.ends
        progress.finished = info.step >= self.steps or over is not None or end
        for hook in self.hooks:
            if hook.due(progress):
                hook.work(self, info)
        progress.finished = progress.finished and (not end or self.out_of_patience)

    def show(self, info: StepInfo) -> None:
        self.console.advance(info.step, self.note(info), first=info.step == self._first)

    def at(self, step: int, *, sep: str = "/") -> str:
        """The step, of how many; of a run by the clock alone, for how many will fit is found out on the way."""
        return f"step {step}" if self.clock is not None else f"step {step}{sep}{self.steps}"

    def note(self, info: StepInfo) -> str:
        progress = self.progress
        speed = progress.tokens / max(progress.seconds, 1e-9)
        best = f"  best validation {progress.best_loss:.4f}" if math.isfinite(progress.best_loss) else ""
        return (
            f"{self.at(info.step)}  loss {info.loss:.4f}{best}  {speed:,.0f} {self.objective.unit.counted}/s"
        )

    def log_step(self, info: StepInfo) -> None:
        """A row of the training loss."""
        now, (then, tokens) = time.monotonic(), self._mark
        speed = (self.progress.tokens - tokens) / max(now - then, 1e-9)
        self._mark = (now, self.progress.tokens)
        self.write_row(
            {
                "event": "train",
                "step": info.step,
                "loss": info.loss,
                **info.metrics,
                **self.learned.figures(info.step - 1),
                "learning_rate": info.learning_rate,
                "gradient_norm": info.gradient_norm,
                "tokens": self.progress.tokens,
                "tokens_per_second": round(speed, 1),
                "seconds": round(self.progress.seconds, 3),
            }
        )

    def write_row(self, row: dict[str, Any]) -> None:
        """A line of metrics.jsonl, and TensorBoard's, if asked; of several processes the first one writes."""
        if not self.world.first:
            return
        with storage_errors(self.folder.path), self.folder.metrics.open("a", encoding="utf-8") as file:
            file.write(json_text(row) + "\n")
        if self.board is not None:
            self.board.write(row)

    def measured(self) -> Metrics:
        """The model's metrics on the validation split now. The time for it does not count as training."""
        data = self.dataset

        def evaluated(recipe: Recipe) -> Metrics:
            return evaluate_split(
                self.model, data.validation, recipe, data.tokenizer, self.runtime, objective=self.objective
            )

        if self.clock is not None and not self.clock.evaluation:
            evaluated(evaluated_by(self.recipe, FEW))  # makes tables that later ones find: it tells no time
        looked = time.monotonic()
        self.model.settle()  # which takes as long for a few tokens as for many
        began = time.monotonic()
        result = evaluated(self.recipe)
        if not math.isfinite(result.loss):
            raise self.diverged(f"the validation loss is {result.loss}")
        self._clock = time.monotonic()
        self._mark = (self._clock, self.progress.tokens)
        if self.clock is not None:
            each = (self._clock - began) / result.tokens
            trained = self.progress.seconds / max(1, self.progress.tokens)
            heard = heard_again(trained, each) if self.recipe.model.reads_on else 0.0
            at_the_end = each * judged_at_the_end(data, self.runtime.precision, heard=heard)
            self.clock.judged(self._clock - looked + at_the_end)  # the last step has a look of its own
        return result

    def evaluate(self, info: StepInfo) -> None:
        """Evaluate on the validation split, note a new best, and end the run when patience does."""
        progress, result = self.progress, self.measured()
        self.evaluated = info.step
        better = self.objective.improves(result.loss, progress.best_loss)
        if better:
            progress.best_loss, progress.best_step, progress.evaluations_since_best = (
                result.loss,
                info.step,
                0,
            )
        else:
            progress.evaluations_since_best += 1
        row = {"event": "validation", "step": info.step, **result.as_dict(), "best": better}
        self.write_row({**row, "seconds": round(progress.seconds, 3)})
        self.console.say(
            f"{self.at(info.step)}  training {info.loss:.4f}  validation {result}"
            + ("  (best)" if better else "")
        )
        if self.out_of_patience:
            progress.finished = True
            bad = progress.evaluations_since_best
            self.console.say(f"no better for {bad} evaluations: stopping early at step {info.step}")

    def evaluate_untrained(self, *, candidate: bool) -> None:
        """A row for step 0, and where it is a `candidate` for the best, a checkpoint."""
        result = self.measured()
        row = {"event": "validation", "step": 0, **result.as_dict(), "best": candidate}
        self.write_row({**row, "seconds": 0.0})
        what = "as it starts" if self.recipe.training.start_from else "untrained"
        self.console.say(f"{self.at(0)}  {what}  validation {result}")
        if candidate:
            self.progress.best_loss = result.loss
            self.save()

    def sample(self, info: StepInfo) -> None:
        """Write the sample files of this step."""
        self.refuse_infinite()
        model = self.whole_model()
        if not self.world.first:
            return
        with self.world.apart("busy", "sampling"):
            for text in write_samples(self.folder.samples, info.step, model, self.dataset, self.recipe):
                self.console.say(f"sample at step {info.step}: {shortened(text)}")

    def whole_model(self) -> LanguageModel:
        """The model as one that this process can use alone; of a model in parts the first process gets it, and all
        must call it."""
        if not any(is_part(parameter) for parameter in self.model.parameters()):
            return self.model
        blank = build_model(self.recipe.model, vocab_size=self.dataset.tokenizer.vocab_size, seed=0)
        tensors = model_tensors(self.model, keep=self.world.first)
        blank.load_state_dict(tensors, strict=False)  # a tied head has one name
        return blank.to(self.runtime.device)

    def save(self, info: StepInfo | None = None) -> None:
        """A checkpoint of this step; `last` and perhaps `best` lead to it; old ones go."""
        self.refuse_infinite()
        started, first = time.monotonic(), self.world.first
        self.model.settle()
        weights = model_tensors(self.model, keep=first)  # every process may hold a part of them
        memory = learning_tensors(self.model, self.optimizers, keep=first)
        others = self.learned.tensors(self.progress.step)
        memory |= {OTHER + name: tensor for name, tensor in others.items()}
        if first:
            with self.world.apart("saving", "a checkpoint"):
                self.write_checkpoint(weights, memory)
        self._saved = time.monotonic()
        self._saving = self._saved - started

    def keep_for_story(self, info: StepInfo) -> None:
        """The weights of this step, where it is one of the story's. Every process must call it."""
        if info.step not in self.story:
            return
        weights = model_tensors(self.model, keep=self.world.first)
        if self.world.first:
            keep_chapter(self.folder.story, info.step, weights)

    def write_checkpoint(self, weights: Mapping[str, Tensor], memory: Mapping[str, Tensor]) -> None:
        folder, recipe = self.folder, self.recipe
        self.progress.elapsed = self.earlier + time.monotonic() - self.console.started
        earlier_best = follow(folder.best)  # stays this once, for the case that this checkpoint gets damaged
        with storage_errors(folder.path):
            sync(folder.metrics)
            sync(folder.path)  # the rows' name, too: no checkpoint is there without the rows before it
        checkpoint = save_checkpoint(
            folder.checkpoints,
            self.progress.step,
            weights=weights,
            memory=memory,
            state=self.progress.state(),
            config=to_yaml(recipe),
            tokenizer=folder.tokenizer,
            version=octavo.__version__,
        )
        if self.progress.best_step == self.progress.step:
            point(folder.best, checkpoint)
        point(folder.last, checkpoint)
        always = [follow(folder.best), earlier_best]
        passing = partial(in_between, steps=self.steps, every=self.checkpoint_every)
        prune(folder.checkpoints, keep=recipe.training.keep, always=always, passing=passing)

    def refuse_infinite(self) -> None:
        """Raise DivergedError when an update made a weight infinite: the next loss would show it, but too late."""
        finite = all(held(parameter).isfinite().all() for parameter in self.model.parameters())
        if self.world.any(not finite):
            raise self.diverged("the weights are no longer finite numbers")

    def diverged(self, what: str) -> DivergedError:
        """The error for an update that spoilt the model."""
        return DivergedError(self.progress.step, f"{what} after its update", remedy=DIVERGED_REMEDY)


def write_samples(
    folder: Path, step: int, model: LanguageModel, dataset: Dataset, recipe: Recipe
) -> list[str]:
    """What the model writes after each prompt of the recipe, each as a file.

    `step-000500.txt` where there is one, else `step-000500-1.txt` and so on in the prompts' order.
    """
    texts = task_of(recipe).samples(model, dataset, recipe)
    for number, text in enumerate(texts, start=1):
        name = f"step-{step:06d}" + (f"-{number}" if len(texts) > 1 else "")
        replace_text(folder / f"{name}.txt", text)
    return texts


def shortened(text: str, limit: int = 120) -> str:
    """One line of a text."""
    line = " ".join(text.split())
    return line if len(line) <= limit else line[: limit - 1] + "…"
