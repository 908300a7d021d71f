"""What a model learns, and what it is evaluated by: the usual objective is `next-token`.

B sequences, T positions, V vocabulary.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import InitVar, dataclass, field
from typing import ClassVar, Literal

import numpy as np
import torch
from pydantic import Field
from torch import Tensor
from torch.nn import functional as F

from octavo.config import Recipe
from octavo.config.parts import PartConfig, register
from octavo.data import Dataset
from octavo.data.batch import NO_SIDE_INPUTS, Batch
from octavo.data.batches import Batches
from octavo.model.base import LanguageModel
from octavo.ngram.mixture import Judged
from octavo.tokenizers import Tokenizer

Model = Callable[..., Tensor]
"""Inputs (B, T), and `side=` inputs where a batch has any, to logits (B, T, V)."""


@dataclass(frozen=True)
class Unit:
    """What a loss is, in words. A smaller loss is better.

    Attributes:
        name, per: what is counted, for each what.
        text: whether it is −ln of the text's probability, in nats. Then it has bits per byte and a perplexity, and
            n-grams and compressors compare with it. Not so where a source is read: it is no part of what is predicted.
        counted: what is counted, several of it.
        density: whether it is −ln of a density. It then has no zero that means anything, and no share of it does.
    """

    name: str = "nats"
    per: str = "token"
    text: bool = True
    counted: str = "tokens"
    density: bool = False

    @property
    def has_bits_per_byte(self) -> bool:
        """Whether a loss can be written in bits per byte, the one figure that compares across tokenizers."""
        return self.text

    def __str__(self) -> str:
        return f"{self.name} per {self.per}"


TEXT = Unit()


@dataclass(frozen=True)
class Metric:
    """A number that an objective gives next to its loss: a mean over the scored targets.

    Attributes:
        name: its key in metrics.jsonl and evaluation.json.
        label, explanation: for people.
        form: how a value is written, as of `str.format`.
        written: a value for people, in this form.
    """

    name: str
    label: str
    explanation: str = ""
    form: InitVar[str] = "{:.4f}"
    written: Callable[[float], str] = field(init=False, repr=False, compare=False)

    def __post_init__(self, form: str) -> None:
        object.__setattr__(self, "written", form.format)


@dataclass(frozen=True)
class Loss:
    """What a step learns from.

    Attributes:
        total: summed over the targets, each with its weight; a scalar in float32 or wider.
        reported: what is said of it, summed in the same way, where that is another number.
        metrics: by name, summed over the scored targets, each of which counts alike.
    """

    total: Tensor
    metrics: Mapping[str, Tensor] = field(default_factory=dict)
    reported: Tensor | None = None


@dataclass(frozen=True)
class PerToken:
    """What evaluation knows of each position.

    Attributes:
        losses: (B, T), without their weights; 0 where nothing is predicted.
        metrics: by name, (B, T), numbers or truth values; 0 where nothing is predicted.
        logits: (B, T, V) in float32, where they stand for probabilities of tokens.
        judged: what the model says of the targets alone, where it was not asked for more.
    """

    losses: Tensor
    metrics: Mapping[str, Tensor]
    logits: Tensor | None = None
    judged: Judged | None = None


@dataclass(frozen=True)
class Learning:
    """What a training begins with.

    Attributes:
        model: what learns, on its device.
        batches: the recipe's.
        started: gives the model as it was before its first step; None where its weights were drawn.
        dataset: the recipe's texts.
        rows, accumulation: sequences of a batch, and batches of a step.
    """

    model: LanguageModel
    batches: Batches
    started: Callable[[], LanguageModel] | None
    dataset: Dataset
    seed: int
    rows: int
    accumulation: int


class Objective(ABC):
    """From a model and a batch to a loss.

    Attributes:
        unit: of the loss.
        metrics: what `evaluate` gives next to the loss. `loss` may give any.
        learns_texts: whether a falling loss on the recipe's texts is what it is after.
        asks_start: whether the model that the run started from is held, and asked, beside the one that learns.
        recordable: whether its loss is the same computation at every step, all of it on the device.
    """

    unit: Unit = TEXT
    learns_texts: bool = True
    asks_start: bool = False
    recordable: bool = True
    metrics: tuple[Metric, ...] = ()

    @property
    def writes(self) -> bool:
        """Whether the model's logits are those of the next token, so that it can write."""
        return self.unit.has_bits_per_byte

    @abstractmethod
    def loss(self, model: Model, batch: Batch[Tensor], *, step: int = 0) -> Loss:
        """What `step` learns from a batch. Nothing here may wait for the device (`.item()`)."""

    @abstractmethod
    def evaluate(self, model: Model, batch: Batch[Tensor]) -> PerToken:
        """Losses and metrics of each position of a batch."""

    def baselines(
        self, train: np.ndarray | None, validation: np.ndarray, *, vocab_size: int
    ) -> Mapping[str, float]:
        """Mean losses of simple predictors on the tokens of a validation split, by name; some may learn from the
        training split, where it is there. Of a loss in nats of text they are Octavo's own (`evaluation.baselines`).
        """
        return {}

    def refuse(  # noqa: B027 - most take anything
        self, recipe: Recipe, dataset: Dataset, model: LanguageModel, *, processes: int
    ) -> None:
        """Raise ConfigError or InputError, before a run begins, for what this objective cannot learn by."""

    def set_tokenizer(self, tokenizer: Tokenizer) -> None:  # noqa: B027 - most need no words
        """Before a run begins or goes on: what its tokens are."""

    def compare_with(  # noqa: B027 - most compare with nothing
        self, reference: LanguageModel | None, device: torch.device
    ) -> None:
        """Take the model that the run started from, to compare with it. Raises InputError where it is not there."""

    def begin(self, learning: Learning) -> Batches:
        """Before the first step of a run, or of one that goes on: what it learns from, where that is not the recipe's
        batches."""
        return learning.batches

    def improves(self, loss: float, best: float) -> bool:
        """Whether a model with this loss on the validation split takes the place of the best one so far."""
        return loss < best


def logits_of(model: Model, batch: Batch[Tensor]) -> Tensor:
    """What the model makes of a batch, (B, T, V)."""
    side = batch.side_inputs
    return model(batch.inputs) if side is None else model(batch.inputs, side=side)


def at_least_float32(logits: Tensor) -> Tensor:
    """The same numbers, in a type in which they can be summed."""
    return logits.to(torch.promote_types(logits.dtype, torch.float32))


def counts(batch: Batch[Tensor]) -> Tensor:
    """How much each position counts in a sum of losses, (B, T): its weight, or 1, where there is a target."""
    scored = batch.targets >= 0
    return scored if batch.weights is None else batch.weights * scored


class NextToken(Objective):
    """Cross-entropy with the token that follows.

    Args:
        label_smoothing: share of each target that is learned as any token (Szegedy et al. 2016). What is reported, in
            training and evaluation, is the cross-entropy without it.
    """

    metrics = (Metric("accuracy", "accuracy", "of next tokens guessed first", "{:.1%}"),)

    def __init__(self, *, label_smoothing: float = 0.0) -> None:
        self.label_smoothing = label_smoothing

    def loss(self, model: Model, batch: Batch[Tensor], *, step: int = 0) -> Loss:
        logits = at_least_float32(logits_of(model, batch)).flatten(0, 1)  # (B·T, V)
        targets = batch.targets.flatten()
        if self.label_smoothing:
            return self.smoothed(logits, targets, counts(batch).flatten())
        if batch.weights is None:
            return Loss(F.cross_entropy(logits, targets, ignore_index=-1, reduction="sum"))
        each = F.cross_entropy(logits, targets, ignore_index=-1, reduction="none")
        return Loss((each * batch.weights.flatten()).sum())

    def smoothed(self, logits: Tensor, targets: Tensor, counts: Tensor) -> Loss:
        """Of logits (N, V) and targets (N,), of which each counts so much."""
        logs = logits.log_softmax(dim=-1)
        right = -logs.gather(-1, targets.clamp(min=0)[:, None])[:, 0] * counts
        total = (1 - self.label_smoothing) * right - self.label_smoothing * logs.mean(dim=-1) * counts
        return Loss(total.sum(), reported=right.sum())

    def evaluate(self, model: Model, batch: Batch[Tensor]) -> PerToken:
        targets = batch.targets
        if isinstance(model, LanguageModel):
            own = model.judged(batch.inputs, targets, batch.side_inputs or NO_SIDE_INPUTS)
            if own is not None:
                there = targets >= 0
                return PerToken(-own.logs.where(there, 0), {"accuracy": own.first & there}, judged=own)
        logits = logits_of(model, batch).float()  # (B, T, V)
        nats = F.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=-1, reduction="none")
        right = logits.argmax(dim=-1) == targets
        return PerToken(nats.view_as(targets), {"accuracy": right}, logits)


NEXT_TOKEN = NextToken()


class Answers(NextToken):
    """The same where only the assistant's words are predicted, after what a user said: no probability of a text."""

    unit = Unit(name="nats", per="token of the answers", text=False)

    @property
    def writes(self) -> bool:
        return True

    def baselines(
        self, train: np.ndarray | None, validation: np.ndarray, *, vocab_size: int
    ) -> Mapping[str, float]:
        return {"uniform": math.log(vocab_size)}


class ObjectiveConfig(PartConfig):
    """Base of the kinds; each has `build() -> Objective`.

    Attributes:
        reads: what the documents are that it learns from (see `corpus.records`).
    """

    reads: ClassVar[str] = "text"

    takes_vectors: ClassVar[bool] = False
    """Whether it is about rows of numbers, not tokens."""

    tunes: ClassVar[bool] = False
    """Whether it goes on with a run's model, so that a recipe leaves the model to that run."""

    @abstractmethod
    def build(self) -> Objective:
        """The objective."""

    @property
    def unit(self) -> Unit:
        """Unit of its loss."""
        return self.build().unit

    @property
    def writes(self) -> bool:
        """Whether a model that learned by it can write."""
        return self.build().writes

    def not_compared_by(self, metric: str) -> str | None:
        """Why a study cannot compare runs of it by this metric, as a sentence; None where the loss says enough."""
        if metric == "valid" or self.build().learns_texts:
            return None
        return (
            f"objective={self.kind} is after something else than a lower loss, which a study compares; "
            "take metric=valid, the share of good texts"
        )


@register("objective")
class NextTokenConfig(ObjectiveConfig):
    """Predict the token that follows: cross-entropy, in nats per token."""

    kind: Literal["next-token"] = "next-token"
    label_smoothing: float = Field(0.0, ge=0, lt=1)
    """Share of each target that is learned as any token; what is reported is the loss without it."""

    def build(self) -> Objective:
        return NextToken(label_smoothing=self.label_smoothing)


class GivenSource(NextToken):
    """Cross-entropy with the target's next token, given the source, which is a part of the text and not predicted."""

    unit = Unit(name="nats", per="target token", text=False)


@register("objective")
class GivenSourceConfig(NextTokenConfig):
    """Predict a target, given its source: cross-entropy, in nats per token of the target. For pairs."""

    kind: Literal["given-source"] = "given-source"  # pyrefly: ignore  # not the next token's

    def build(self) -> Objective:
        return GivenSource(label_smoothing=self.label_smoothing)


@register("objective")
class AnswersConfig(ObjectiveConfig):
    """Predict what the assistant says in conversations (supervised fine-tuning): cross-entropy, in nats per token of
    its answers, their ends included."""

    kind: Literal["answers"] = "answers"
    tunes: ClassVar[bool] = True

    reads: ClassVar[str] = "conversations"

    def build(self) -> Objective:
        return Answers()
