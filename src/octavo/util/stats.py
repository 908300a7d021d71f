"""The intervals that Octavo states: their level, and those of means by drawing again (a bootstrap) or Student's t."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
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


STUDENT = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228)
"""Half-widths at `LEVEL` in standard errors, of 1, 2, … degrees of freedom."""


def drawn_again(
    statistic: Callable[[np.ndarray], np.ndarray], size: int, *, draws: int, random: np.random.Generator
) -> np.ndarray:
    """Values of a statistic over `size` units that are drawn again `draws` times. It gets their numbers, (draws,
    size)."""
    return statistic(random.integers(0, size, (draws, size)))


def interval_of_mean(
    values: np.ndarray, *, draws: int, seed: int, least: float = -np.inf, most: float = np.inf
) -> dict[str, float]:
    """The mean of values (P, M), NaN left out, of P groups with M values each, and its interval over other groups and
    other values: drawn again, or of 2 to 11 groups, for which that is too narrow, Student's t. The mean is known to
    lie between `least` and `most`."""
    mean = float(np.nanmean(values))
    by_group = np.array([np.nanmean(row) for row in values if np.isfinite(row).any()])
    if 1 < len(by_group) <= len(STUDENT) + 1:
        half = STUDENT[len(by_group) - 2] * float(by_group.std(ddof=1)) / len(by_group) ** 0.5
        return {"mean": mean, "low": max(mean - half, least), "high": min(mean + half, most)}
    random, means = np.random.default_rng(seed), []
    groups, each = values.shape
    for _ in range(draws):
        rows = random.integers(0, groups, groups) if groups > 1 else np.zeros(1, int)
        means.append(np.nanmean(values[rows[:, None], random.integers(0, each, (len(rows), each))]))
    low, high = ends_of(np.array(means))
    return {"mean": mean, "low": float(low), "high": float(high)}


def counts_drawn_again(
    counts: np.ndarray, *, draws: int, seed: int
) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Groups that are drawn again where there are several, and then the values in each, of counts (P, U) of U different
    values. For each draw: the groups, the weights (P', U) of their values, and each group's share of all."""
    random, groups = np.random.default_rng(seed), len(counts)
    for _ in range(draws):
        times = random.multinomial(groups, np.full(groups, 1 / groups)) if groups > 1 else np.ones(1, int)
        rows = np.flatnonzero(times)
        sizes = counts[rows].sum(1).astype(int)
        weights = [
            random.multinomial(size, counts[row] / counts[row].sum()) / size
            for row, size in zip(rows, sizes, strict=True)
        ]
        yield rows, np.array(weights), times[rows] / groups


def wilson(hits: float, trials: int) -> tuple[float, float]:
    """95 % interval of a share (Wilson 1927), which holds for shares near 0 and 1 too."""
    share, square = hits / trials, Z * Z / trials
    middle = (share + square / 2) / (1 + square)
    half = Z * math.sqrt(share * (1 - share) / trials + square / (4 * trials)) / (1 + square)
    # The share lies within, to the last bit too.
    return max(0.0, min(share, middle - half)), min(1.0, max(share, middle + half))
