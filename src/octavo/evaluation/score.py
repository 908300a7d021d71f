"""The model's score on a split: every token predicted once."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from octavo.dataset.batch import Batch
from octavo.evaluation.places import Places
from octavo.training.objective import logits_of


@dataclass(frozen=True)
class Score:
    """Sums over the scored tokens."""

    nats: float
    tokens: int
    correct: int

    @property
    def loss(self) -> float:
        """Nats per token."""
        return self.nats / self.tokens

    @property
    def perplexity(self) -> float:
        """exp(loss) (report D)."""
        return math.exp(min(self.loss, 700.0))

    @property
    def accuracy(self) -> float:
        """Share of tokens that the model held most probable."""
        return self.correct / self.tokens

    def bits_per_byte(self, text_bytes: float) -> float:
        """Bits that the model needs for one byte of the scored text: comparable across tokenizers."""
        return self.nats / math.log(2) / text_bytes


@torch.no_grad()
def score(
    model: nn.Module,
    batches: Iterable[Batch[np.ndarray]],
    *,
    autocast: Callable[[], AbstractContextManager[Any]] = nullcontext,
    places: Places | None = None,
) -> Score:
    """Score a model on batches.

    `places`, if given, gathers where the predictions are good.
    """
    device = next(model.parameters()).device
    was_training = model.training
    model.eval()
    nats, tokens, correct = 0.0, 0, 0
    for arrays in batches:
        batch = arrays.to(device)
        targets = batch.targets
        with autocast():
            logits = logits_of(model, batch).float()  # (B, T, V)
        each = F.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=-1, reduction="none")
        nats += each.sum().item()
        if places is not None:
            places.add(logits, targets, each.view_as(targets))
        tokens += batch.scored
        correct += int((logits.argmax(dim=-1) == targets).sum())
    model.train(was_training)
    return Score(nats=nats, tokens=tokens, correct=correct)
