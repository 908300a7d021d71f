"""One training session: the loop with what happens around its steps. Ends finished, interrupted or diverged."""

from __future__ import annotations

import json
import math
import time
from dataclasses import asdict, dataclass
from typing import Any

import octavo
from octavo.config import Recipe, to_yaml
from octavo.dataset import Dataset
from octavo.dataset.batches import Batches
from octavo.errors import DivergedError, Interrupted
from octavo.generation import Sampling, Writer
from octavo.model.gpt import GPT
from octavo.runs.console import Console
from octavo.runs.folder import RunFolder
from octavo.runs.judge import judge, sampling_of
from octavo.runs.signals import stop_requests
from octavo.runs.tensorboard import TensorBoard
from octavo.training.checkpoint import Checkpoint, follow, point, prune, save_checkpoint, storage_errors, sync
from octavo.training.loop import DIVERGED_REMEDY, StepInfo, training_steps
from octavo.training.runtime import Runtime


@dataclass
class Progress:
    """The run's own numbers, saved with every checkpoint."""

    step: int = 0
    tokens: int = 0
    seconds: float = 0.0
    best_loss: float = math.inf
    best_step: int = 0
    evaluations_since_best: int = 0
    finished: bool = False

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Progress:
        """From a checkpoint's state.json."""
        finite: dict[str, Any] = {key: math.inf if value is None else value for key, value in state.items()}
        return cls(**finite)

    def state(self) -> dict[str, Any]:
        """As it is saved; JSON has no infinity."""
        return {key: None if value == math.inf else value for key, value in asdict(self).items()}


class Session:
    """Trains a model in a run folder, from wherever `progress` stands."""

    def __init__(
        self,
        *,
        recipe: Recipe,
        steps: int,
        folder: RunFolder,
        dataset: Dataset,
        batches: Batches,
        model: GPT,
        runtime: Runtime,
        console: Console,
        source: Checkpoint | None = None,
    ) -> None:
        self.recipe, self.steps, self.folder, self.dataset = recipe, steps, folder, dataset
        self.batches, self.model, self.runtime, self.console = (
            batches,
            model.to(runtime.device),
            runtime,
            console,
        )
        self.optimizers = recipe.training.optimizer.build(model)
        self.progress = Progress()
        if source is not None:
            source.load_model(self.model)
            source.load_optimizers(self.optimizers)
            self.progress = Progress.from_state(source.state())
        self.progress.finished = self.progress.step >= steps or self.out_of_patience
        self.board = TensorBoard.open(folder.path) if recipe.logging.tensorboard else None
        self._clock = time.monotonic()
        self._mark = (time.monotonic(), 0)  # when, and after how many tokens, speed was last read

    def run(self) -> None:
        """Train to the end. Raises Interrupted (saved), DivergedError (not saved) or StorageError."""
        recipe, first = self.recipe, self.progress.step
        model = self.compiled()
        loop = training_steps(
            model,
            self.optimizers,
            self.batches.batch,
            schedule=recipe.training.schedule.build(steps=self.steps),
            seed=recipe.seed,
            start=first,
            steps=self.steps,
            accumulation=recipe.training.accumulation,
            clip=recipe.training.clip,
            autocast=self.runtime.autocast,
        )
        with stop_requests() as stop, self.console.working("training", self.steps):
            for info in loop:
                self.after_step(info, first=info.step == first + 1)
                if stop:
                    self.save()
                    raise Interrupted(
                        f"Stopped by {stop.name} after step {info.step} of {self.steps}; everything is saved.",
                        remedy="run the same command with --resume to go on",
                    )
                if self.progress.finished:
                    break

    def compiled(self) -> Any:
        """The model as it is trained, through torch.compile where the recipe asks for it."""
        if not self.recipe.training.compile:
            return self.model
        import torch

        self.console.say("compiling the model; the first step takes a while")
        return torch.compile(self.model)

    @property
    def out_of_patience(self) -> bool:
        """Whether the last evaluations brought nothing, as many as the recipe bears."""
        patience = self.recipe.training.patience
        return patience is not None and self.progress.evaluations_since_best >= patience

    def after_step(self, info: StepInfo, *, first: bool) -> None:
        """Everything periodic."""
        recipe, progress = self.recipe, self.progress
        progress.step, progress.tokens = info.step, progress.tokens + info.tokens
        now = time.monotonic()
        progress.seconds, self._clock = progress.seconds + now - self._clock, now
        last = info.step == self.steps
        if last or info.step == 1 or info.step % recipe.logging.every == 0:
            self.log_step(info)
        self.console.advance(info.step, self.note(info), first=first)
        if last or info.step % recipe.evaluation.every == 0:
            self.evaluate(info)
        if recipe.sampling.every and info.step % recipe.sampling.every == 0:
            self.sample()
        if self.out_of_patience:
            bad = progress.evaluations_since_best
            self.console.say(f"no better for {bad} evaluations: stopping early at step {info.step}")
        progress.finished = last or self.out_of_patience
        if (
            progress.finished
            or info.step % recipe.training.checkpoint_every == 0
            or progress.best_step == info.step
        ):
            self.save()

    def note(self, info: StepInfo) -> str:
        """The live line."""
        elapsed = self.progress.seconds
        left = elapsed / self.progress.step * (self.steps - self.progress.step)
        return (
            f"step {info.step}/{self.steps}  loss {info.loss:.4f}  "
            f"{self.progress.tokens / max(elapsed, 1e-9):,.0f} tokens/s  {left:.0f} s left"
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
                "learning_rate": info.learning_rate,
                "gradient_norm": info.gradient_norm,
                "tokens": self.progress.tokens,
                "tokens_per_second": round(speed, 1),
                "seconds": round(self.progress.seconds, 3),
            }
        )

    def write_row(self, row: dict[str, Any]) -> None:
        """A line of metrics.jsonl, and TensorBoard's, if asked."""
        with storage_errors(self.folder.path), self.folder.metrics.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")
        if self.board is not None:
            self.board.write(row)

    def evaluate(self, info: StepInfo) -> None:
        """Judge on the validation split, and note a new best."""
        progress = self.progress
        result = judge(self.model, self.dataset.validation, self.recipe, self.dataset.tokenizer, self.runtime)
        if not math.isfinite(result.loss):
            raise self.diverged(f"the validation loss is {result.loss}")
        better = result.loss < progress.best_loss
        if better:
            progress.best_loss, progress.best_step, progress.evaluations_since_best = (
                result.loss,
                info.step,
                0,
            )
        else:
            progress.evaluations_since_best += 1
        self._clock = time.monotonic()  # evaluations do not count as training time
        self._mark = (self._clock, progress.tokens)
        row = {"event": "validation", "step": info.step, **result.as_dict(), "best": better}
        self.write_row({**row, "seconds": round(progress.seconds, 3)})
        self.console.say(
            f"step {info.step}/{self.steps}  training {info.loss:.4f}  validation {result.loss:.4f}  "
            f"{result.bits_per_byte:.3f} bits/byte" + ("  (best)" if better else "")
        )

    def sample(self) -> None:
        """Write a sample file."""
        self.refuse_infinite()
        path = self.folder.samples / f"step-{self.progress.step:06d}.txt"
        text = sample_text(self.model, self.dataset, self.recipe)
        with storage_errors(self.folder.path):
            path.write_text(text, encoding="utf-8")
        self.console.say(f"sample at step {self.progress.step}: {shortened(text)}")

    def save(self) -> None:
        """A checkpoint of this step; `last` and perhaps `best` lead to it; old ones go."""
        self.refuse_infinite()
        folder, recipe = self.folder, self.recipe
        earlier_best = follow(folder.best)  # stays this once, for the case that this checkpoint gets damaged
        with storage_errors(folder.path):
            sync(folder.metrics)
        checkpoint = save_checkpoint(
            folder.checkpoints,
            self.progress.step,
            model=self.model,
            optimizers=self.optimizers,
            state=self.progress.state(),
            config=to_yaml(recipe),
            tokenizer=folder.tokenizer,
            version=octavo.__version__,
        )
        if self.progress.best_step == self.progress.step:
            point(folder.best, checkpoint)
        point(folder.last, checkpoint)
        prune(folder.checkpoints, keep=recipe.training.keep, always=[follow(folder.best), earlier_best])

    def refuse_infinite(self) -> None:
        """Raise DivergedError when an update made a weight infinite: the next loss would show it, but too late."""
        if not all(parameter.isfinite().all() for parameter in self.model.parameters()):
            raise self.diverged("the weights are no longer finite numbers")

    def diverged(self, what: str) -> DivergedError:
        """The error for an update that spoilt the model."""
        return DivergedError(
            f"Step {self.progress.step} diverged: {what} after its update. "
            "Nothing of this step was kept; what was saved before it is whole.",
            remedy=DIVERGED_REMEDY,
        )


def sample_text(model: GPT, dataset: Dataset, recipe: Recipe) -> str:
    """The prompt and what the model writes after it, by the recipe's sampling settings."""
    settings = recipe.sampling
    writer = Writer(model, dataset.tokenizer)
    sampling: Sampling = sampling_of(settings)
    (sample,) = writer.samples(settings.prompt, tokens=settings.tokens, sampling=sampling, seed=recipe.seed)
    return settings.prompt + sample.text


def shortened(text: str, limit: int = 120) -> str:
    """One line of a text."""
    line = " ".join(text.split())
    return line if len(line) <= limit else line[: limit - 1] + "…"
