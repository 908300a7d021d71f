"""How good a distribution of numbers is, from draws of it: of each channel in its own unit, and of all channels
together in usual steps of each, for no mean of newtons and radians says anything.

M draws of each of N numbers (or rows of C numbers) beside the truth. The estimates are fair: their mean does not depend
on M.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

LEVELS = (50, 80, 95)
"""Central intervals whose coverage is told, in per cent."""


def crps(drawn: np.ndarray, truth: np.ndarray) -> np.ndarray:
    """Continuous ranked probability score of each number, from draws (M, …) beside the truth (…): E|X − y| less
    ½ E|X − X'| (Gneiting and Raftery 2007), where X and X' are never the same draw."""
    count = len(drawn)
    ordered = np.sort(drawn, axis=0)
    weights = (2 * np.arange(1, count + 1) - count - 1).reshape(-1, *[1] * truth.ndim)
    spread = (weights * ordered).sum(axis=0) / (count * (count - 1))  # ½ E|X − X'|
    return np.abs(drawn - truth).mean(axis=0) - spread


def energy_score(drawn: np.ndarray, truth: np.ndarray) -> np.ndarray:
    """The same for rows: draws (M, N, C) beside the truth (N, C), by Euclidean distance; (N,)."""
    count = len(drawn)
    apart = np.zeros(drawn.shape[1])
    for shift in range(1, count):  # each pair once in either order
        apart += np.linalg.norm(drawn - np.roll(drawn, shift, axis=0), axis=-1).sum(axis=0)
    near = np.linalg.norm(drawn - truth, axis=-1).mean(axis=0)
    return near - 0.5 * apart / (count * (count - 1))


def quantiles(drawn: np.ndarray, levels: Sequence[float] | float) -> np.ndarray:
    """Of draws (M, …), for levels in per cent: (levels, …), or (…) of one. A new draw lies below that of level p with a
    chance of p, however few draws there are (Weibull 1939); numpy's usual ones lie too far inside. Between draws of 32
    bits numpy's versions differ."""
    return np.percentile(np.asarray(drawn, np.float64), levels, axis=0, method="weibull")


def covered(drawn: np.ndarray, truth: np.ndarray, level: float) -> np.ndarray:
    """Whether each number lies in the central interval of `level` per cent, from its draws (M, …)."""
    low, high = quantiles(drawn, (50 - level / 2, 50 + level / 2))
    return (truth >= low) & (truth <= high)


def ranks(drawn: np.ndarray, truth: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """Probability integral transform of each number, between 0 and 1: where it stands among its draws (M, …), at random
    among equal ones. Even, if the distribution is right."""
    below, equal = (drawn < truth).sum(axis=0), (drawn == truth).sum(axis=0)
    return (below + random.random(truth.shape) * (equal + 1)) / (len(drawn) + 1)


def mean_density(log_densities: np.ndarray) -> np.ndarray:
    """Log of the mean density (…) over M paths, from its logs (M, …): what is said of a number several steps ahead,
    where each path says what comes after it."""
    most = log_densities.max(axis=0)
    most = np.where(np.isneginf(most), 0.0, most)  # no path holds it possible
    with np.errstate(divide="ignore"):
        return most + np.log(np.exp(log_densities - most).mean(axis=0))


@dataclass(frozen=True)
class Scores:
    """All scores of one predictor at one horizon; None where one is not finite, for paths may run away.

    Attributes:
        horizon: steps ahead.
        nll: minus the log density of a row.
        scaled_crps, scaled_energy, mase: in usual steps of each channel.
        crps_by_channel, rmse_by_channel: in each channel's own unit; None of one without a number.
        coverage: by level in per cent, the share of numbers in that central interval.
        pit: ten shares of the probability integral transform.
        rows: that were judged.
    """

    horizon: int
    nll: float | None
    scaled_crps: float | None
    crps_by_channel: list[float | None]
    scaled_energy: float | None
    rmse_by_channel: list[float | None]
    mase: float | None
    coverage: dict[str, float]
    pit: list[float]
    rows: int


@np.errstate(over="ignore", invalid="ignore")
def scores(
    horizon: int,
    drawn: np.ndarray,
    truth: np.ndarray,
    log_density: np.ndarray,
    scale: np.ndarray,
    random: np.random.Generator,
) -> Scores:
    """Judge draws.

    Args:
        drawn, truth: (M, N, C) and (N, C); of the truth at least one number is there. What is missing is not judged.
        log_density: of each row's numbers that are there, (N,).
        scale: mean absolute step of each channel in the training split, (C,), which `scaled` scores are told in, and
            MASE (Hyndman and Koehler 2006).

    Of rows as a whole (the energy score), and of channels without a number, None where there are none.
    """
    seen = ~np.isnan(truth).all(axis=1)
    drawn, truth, log_density = drawn[:, seen], truth[seen], log_density[seen]
    there = ~np.isnan(truth)
    whole = there.all(axis=1)
    middle = np.median(drawn, axis=0)
    each, squares = crps(drawn, truth), (drawn.mean(axis=0) - truth) ** 2
    pit = ranks(drawn, truth, random)[there]
    by_channel = list(zip(each.T, squares.T, there.T, strict=True))
    roots = [_mean(of[known]) for _, of, known in by_channel]
    return Scores(
        horizon=horizon,
        nll=_mean(-log_density),
        scaled_crps=_mean((each / scale)[there]),
        crps_by_channel=[_mean(of[known]) for of, _, known in by_channel],
        scaled_energy=_mean(energy_score(drawn[:, whole] / scale, truth[whole] / scale)),
        rmse_by_channel=[None if square is None else math.sqrt(square) for square in roots],
        mase=_mean((np.abs(middle - truth) / scale)[there]),
        coverage={str(level): float(covered(drawn, truth, level)[there].mean()) for level in LEVELS},
        pit=(np.histogram(pit, bins=10, range=(0, 1))[0] / pit.size).tolist(),
        rows=len(truth),
    )


def _mean(values: np.ndarray) -> float | None:
    mean = float(values.mean()) if len(values) else math.nan
    return mean if math.isfinite(mean) else None
