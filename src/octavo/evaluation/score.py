"""The model's score on a split: every token predicted once."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
import torch
from torch import nn

from octavo.data.batch import Batch
from octavo.evaluation.by_position import Places
from octavo.training.objective import NEXT_TOKEN, TEXT, Objective, PerToken, Unit

MOST_NATS = 230.0
"""Of which there is a perplexity that can be stored as a figure (`ground.records.Number`)."""


@dataclass(frozen=True)
class Score:
    """Sums over the scored tokens.

    Attributes:
        total: of the losses, each with its weight.
        weight: what the tokens count together; without weights as many as there are.
        tokens: how many there are.
        sums: of the objective's metrics, by name.
        unit: of the loss.
    """

    total: float
    weight: float
    tokens: int
    sums: Mapping[str, float]
    unit: Unit = TEXT

    @property
    def loss(self) -> float:
        """Mean loss, in its unit: nats per token, as a rule."""
        return self.total / self.weight

    @property
    def metrics(self) -> dict[str, float]:
        """The objective's metrics: means over the tokens."""
        return {name: value / self.tokens for name, value in self.sums.items()}

    @property
    def perplexity(self) -> float | None:
        """exp(loss) (report D), where the loss is one of text."""
        return math.exp(min(self.loss, MOST_NATS)) if self.of_text else None

    @property
    def of_text(self) -> bool:
        """Whether the total is −ln of the text's probability: not where some tokens count more than others."""
        return self.unit.has_bits_per_byte and self.weight == self.tokens

    def bits_per_byte(self, text_bytes: float) -> float | None:
        """Bits that the model needs for one byte of the scored text: comparable across tokenizers. None if the loss
        is not one of text.
        """
        return self.total / math.log(2) / text_bytes if self.of_text else None


class Listener(Protocol):
    """Gathers what was said of each token while a split is scored."""

    def add(self, scored: PerToken, batch: Batch[np.ndarray]) -> None: ...


@torch.no_grad()
def score(
    model: nn.Module,
    batches: Iterable[Batch[np.ndarray]],
    *,
    objective: Objective = NEXT_TOKEN,
    autocast: Callable[[], AbstractContextManager[object]] = nullcontext,
    places: Places | None = None,
    listener: Listener | None = None,
) -> Score:
    """Score a model on batches.

    `places`, if given, gathers where the predictions are good, and `listener` what was said of each token.
    """
    device = next(model.parameters()).device
    was_training = model.training
    model.eval()
    total, weight, tokens = 0.0, 0.0, 0
    sums = dict.fromkeys((metric.name for metric in objective.metrics), 0.0)
    for arrays in batches:
        batch = arrays.to(device)
        with autocast():
            scored = objective.evaluate(model, batch)
        losses = scored.losses if batch.weights is None else scored.losses * batch.weights
        total += losses.sum().item()
        if places is not None:
            places.add(model, scored, batch)
        if listener is not None:
            listener.add(scored, arrays)
        weight, tokens = weight + arrays.weight, tokens + arrays.scored
        for name in sums:
            sums[name] += scored.metrics[name].sum().item()
    model.train(was_training)
    return Score(total, weight, tokens, sums, objective.unit)


# The loss of every single token of a split, and how many tokens a model had before it.


class TokenLosses(NamedTuple):
    """By place in the split, (N,) each."""

    nats: np.ndarray
    """NaN where nothing is predicted."""
    before: np.ndarray
    """Tokens that stood before it in its window."""


@torch.no_grad()
def token_losses(
    model: nn.Module, batches: Iterable[Batch[np.ndarray]], count: int, *, objective: Objective = NEXT_TOKEN
) -> TokenLosses:
    """Score a model on batches that say where in a split of `count` tokens each target stands."""
    nats, before = np.full(count, np.nan), np.zeros(count, np.int64)
    device, was_training = next(model.parameters()).device, model.training
    model.eval()
    for arrays in batches:
        assert arrays.places is not None, "batches that score say where"
        losses = objective.evaluate(model, arrays.to(device)).losses.double().cpu().numpy()
        there = arrays.places >= 0
        nats[arrays.places[there]] = losses[there]
        before[arrays.places[there]] = np.broadcast_to(np.arange(there.shape[1]) + 1, there.shape)[there]
    model.train(was_training)
    return TokenLosses(nats, before)
