"""The level of all intervals that Octavo states: defined here once, and named wherever one is shown."""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np

LEVEL = 0.95
"""The share of such intervals that hold what they are of."""
SAID = f"{LEVEL:.0%}".replace("%", " %")
Z = NormalDist().inv_cdf((1 + LEVEL) / 2)
"""Standard deviations of a normal distribution on either side."""


def ends_of(drawn: np.ndarray, *, axis: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """The ends of the interval from figures that were drawn again (a bootstrap), along an axis of theirs."""
    low, high = np.quantile(drawn, ((1 - LEVEL) / 2, (1 + LEVEL) / 2), axis=axis)
    return low, high


def wilson(hits: float, trials: int) -> tuple[float, float]:
    """95 % interval of a share (Wilson 1927), which holds for shares near 0 and 1 too."""
    share, square = hits / trials, Z * Z / trials
    middle = (share + square / 2) / (1 + square)
    half = Z * math.sqrt(share * (1 - share) / trials + square / (4 * trials)) / (1 + square)
    # The share lies within, to the last bit too.
    return max(0.0, min(share, middle - half)), min(1.0, max(share, middle + half))
