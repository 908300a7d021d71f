"""What a model learns, and what it is evaluated by: the usual objective is `next-token`.

B sequences, T positions, V vocabulary.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from octavo.config.parts import PartConfig, register
from octavo.dataset.batch import Batch

Model = Callable[..., Tensor]
"""Inputs (B, T), and perhaps `segments` (B, T) and a `source` (B, S), to logits (B, T, V)."""


@dataclass(frozen=True)
class Unit:
    """What a loss is, in words. A smaller loss is better.

    Attributes:
        name, per: what is counted, for each what.
        text: whether it is −ln of the text's probability, in nats. Then it has bits per byte and a perplexity, and
            n-grams and compressors compare with it. Not so where a source is read: it is no part of what is predicted.
    """

    name: str = "nats"
    per: str = "token"
    text: bool = True

    def __str__(self) -> str:
        return f"{self.name} per {self.per}"


TEXT = Unit()


@dataclass(frozen=True)
class Metric:
    """A number that an objective gives next to its loss: a mean over the scored targets.

    Attributes:
        name: its key in metrics.jsonl and evaluation.json.
        label, explanation: for people.
        form: how it is written, as of `str.format`.
    """

    name: str
    label: str
    explanation: str = ""
    form: str = "{:.4f}"


@dataclass(frozen=True)
class Loss:
    """What a step learns from.

    Attributes:
        total: summed over the targets, each with its weight; a scalar in float32 or wider.
        metrics: by name, summed over the scored targets, each of which counts alike.
    """

    total: Tensor
    metrics: Mapping[str, Tensor] = field(default_factory=dict)


@dataclass(frozen=True)
class PerToken:
    """What evaluation knows of each position.

    Attributes:
        losses: (B, T), without their weights; 0 where nothing is predicted.
        metrics: by name, (B, T), numbers or truth values; 0 where nothing is predicted.
        logits: (B, T, V) in float32, where they stand for probabilities of tokens.
    """

    losses: Tensor
    metrics: Mapping[str, Tensor]
    logits: Tensor | None = None


class Objective(ABC):
    """From a model and a batch to a loss.

    Attributes:
        unit: of the loss.
        metrics: what `evaluate` gives next to the loss. `loss` may give any.
    """

    unit: Unit = TEXT
    metrics: tuple[Metric, ...] = ()

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


def logits_of(model: Model, batch: Batch[Tensor]) -> Tensor:
    """What the model makes of a batch, (B, T, V); it is told of segments and a source where there are some."""
    told = {"segments": batch.segments, "source": batch.source}
    return model(batch.inputs, **{name: value for name, value in told.items() if value is not None})


def at_least_float32(logits: Tensor) -> Tensor:
    """The same numbers, in a type in which they can be summed."""
    return logits.to(torch.promote_types(logits.dtype, torch.float32))


def counts(batch: Batch[Tensor]) -> Tensor:
    """How much each position counts in a sum of losses, (B, T): its weight, or 1, where there is a target."""
    scored = batch.targets >= 0
    return scored if batch.weights is None else batch.weights * scored


class NextToken(Objective):
    """Cross-entropy with the token that follows."""

    metrics = (Metric("accuracy", "accuracy", "of next tokens guessed first", "{:.1%}"),)

    def loss(self, model: Model, batch: Batch[Tensor], *, step: int = 0) -> Loss:
        """See the base class."""
        logits = at_least_float32(logits_of(model, batch)).flatten(0, 1)  # (B·T, V)
        targets = batch.targets.flatten()
        if batch.weights is None:
            return Loss(F.cross_entropy(logits, targets, ignore_index=-1, reduction="sum"))
        each = F.cross_entropy(logits, targets, ignore_index=-1, reduction="none")
        return Loss((each * batch.weights.flatten()).sum())

    def evaluate(self, model: Model, batch: Batch[Tensor]) -> PerToken:
        """See the base class."""
        logits = logits_of(model, batch).float()  # (B, T, V)
        targets = batch.targets
        nats = F.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=-1, reduction="none")
        right = logits.argmax(dim=-1) == targets
        return PerToken(nats.view_as(targets), {"accuracy": right}, logits)


NEXT_TOKEN = NextToken()


class ObjectiveConfig(PartConfig):
    """Base of the kinds; each has `build() -> Objective`."""

    def build(self) -> Objective:
        """The objective."""
        raise NotImplementedError


@register("objective")
class NextTokenConfig(ObjectiveConfig):
    """Predict the token that follows: cross-entropy, in nats per token."""

    kind: Literal["next-token"] = "next-token"

    def build(self) -> Objective:
        """The objective."""
        return NEXT_TOKEN
