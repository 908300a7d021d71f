"""The loss of every single token of a split, and how many tokens a model had before it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import torch
from torch import nn

from octavo.dataset.batch import Batch
from octavo.training.objective import NEXT_TOKEN, Objective


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
