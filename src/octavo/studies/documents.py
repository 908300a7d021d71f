"""The choice of documents: the validation text's units drawn again, and what that does to a difference."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from octavo.studies.chance import DRAWS

GROUPS = 200
"""Units beyond this many are put together, neighbours with neighbours; the interval hardly knows the difference."""


def resample(nats: np.ndarray, sizes: np.ndarray, *, stream: int = 0) -> np.ndarray:
    """Loss per unit of size on texts made of documents drawn again: (DRAWS, n) from (n, U) nats and (U,) sizes.

    Runs that read the same documents must use the same `stream`, and so see the same texts.
    """
    units = len(sizes)
    starts = np.arange(min(units, GROUPS)) * units // min(units, GROUPS)
    nats, sizes = np.add.reduceat(nats, starts, axis=1), np.add.reduceat(sizes, starts)
    weights = _weights(len(starts), stream)
    return (weights @ nats.T) / (weights @ sizes)[:, None]


def of_documents(resampled: np.ndarray, baseline: np.ndarray | None = None) -> np.ndarray:
    """What the choice of documents does to the difference of two arms, (DRAWS,), less what is chance between runs; from
    their runs on documents drawn again, (DRAWS, n) each. Without a baseline they are differences already.

    A run does a little better on one document and worse on another than its sister of another seed: that is
    in the noise floor already, so this share is taken out and not counted twice.
    """
    drawn, single = resampled.mean(axis=1), _between_runs(resampled)
    chance = single / resampled.shape[1]
    if baseline is not None:
        drawn = drawn - baseline.mean(axis=1)
        other = _between_runs(baseline)
        chance = (single if resampled.shape[1] > 1 else other) / resampled.shape[1] + other / baseline.shape[
            1
        ]
    drawn = drawn - drawn.mean()
    variance = float(drawn.var())
    return drawn * math.sqrt(max(0.0, 1 - chance / variance)) if variance > 0 else drawn


def _between_runs(resampled: np.ndarray) -> float:
    """Variance over documents of one run, measured against its sisters."""
    count = resampled.shape[1]
    apart = resampled - resampled.mean(axis=1, keepdims=True)
    return float(apart.var(axis=0).sum()) / (count - 1) if count > 1 else 0.0


@lru_cache(maxsize=4)
def _weights(units: int, stream: int) -> np.ndarray:
    counts = np.random.default_rng([3, stream]).multinomial(units, np.full(units, 1 / units), DRAWS)
    return counts.astype(np.float64)
