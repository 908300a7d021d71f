"""What chance alone does to a study: made-up studies without any difference, in several worlds of noise.

Numbers in units of the baseline's noise; nothing here knows of the runs that are judged.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from octavo.util.stats import LEVEL  # all intervals of a study hold at once with this probability

DRAWS = 20_000

NOISIER = 3.0
"""A change whose deviation is this many times that of the rest does not speak for the noise floor."""

UNEQUAL = (3.0, 5.0)
"""How many times as noisy as the baseline changes are in the worlds that a study is compared with."""

BEYOND = 25.0
"""The same, where an arm was seen that is noisier still."""


class Draws(NamedTuple):
    """One change's chance differences (DRAWS,) and their squared standard errors."""

    deviation: np.ndarray
    squared_error: np.ndarray

    def ratio(self, documents: np.ndarray | None) -> np.ndarray:
        """A difference over its standard error, (DRAWS,); `documents` is what their choice adds."""
        if documents is None:
            return np.abs(self.deviation) / np.sqrt(self.squared_error)
        return np.abs(self.deviation + documents) / np.sqrt(self.squared_error + documents.var())


class Shape(NamedTuple):
    """What chance depends on, apart from documents.

    Attributes:
        counts: runs of each arm, the baseline first.
        steady: which of them may speak for the noise floor.
        pairs: how many pairs each change is compared in; 0 where it is not.
        beyond: whether an arm was seen that is noisier than the usual worlds have it.
    """

    counts: tuple[int, ...]
    steady: tuple[bool, ...]
    pairs: tuple[int, ...]
    beyond: bool = False


class World(NamedTuple):
    """Studies in which nothing differs but noise: (DRAWS, k) each.

    Attributes:
        noisy: the changes that are noisier, from 1, and how many times.
    """

    noisy: tuple[int, ...]
    ratio: float
    deviation: np.ndarray
    squared_error: np.ndarray

    def column(self, arm: int) -> Draws:
        """One change of them, from 1."""
        return Draws(self.deviation[:, arm - 1], self.squared_error[:, arm - 1])


class Chance(NamedTuple):
    """How large ratios get by chance in the worst world.

    Attributes:
        marginals: of each change, sorted (DRAWS,): its own ratios.
        least: of each world, sorted (DRAWS,): the smallest p-value of all changes.
        alone: the p-value of a single change at which the whole study is at its level.
    """

    marginals: list[np.ndarray]
    least: list[np.ndarray]
    alone: float

    def critical(self, change: int) -> float:
        """The ratio from which on a change is seen."""
        return float(np.quantile(self.marginals[change], 1 - self.alone))

    def p(self, change: int, ratio: float) -> tuple[float, float]:
        """The p-value of a ratio, alone and among all changes."""
        alone = max(1 / (DRAWS + 1), float(_share_above(self.marginals[change], np.array([ratio]))[0]))
        together = max(
            float(1 + np.searchsorted(one, alone, side="right")) / (DRAWS + 1) for one in self.least
        )
        return alone, min(1.0, together + _of_draws(together))


def chance(shape: Shape, documents: Sequence[np.ndarray | None]) -> Chance:
    """What chance does to a study; `documents`: of each change, what their choice adds to its difference."""
    return _without_documents(shape) if all(one is None for one in documents) else _chance(shape, documents)


@lru_cache(maxsize=64)
def _without_documents(shape: Shape) -> Chance:
    return _chance(shape, [None] * len(shape.pairs))


def _chance(shape: Shape, documents: Sequence[np.ndarray | None]) -> Chance:
    tried = worlds(shape)
    ratios = [
        [draws_of(shape, world, change).ratio(documents[change]) for world in tried]
        for change in range(len(documents))
    ]
    marginals = []
    for change, own in enumerate(ratios):
        # It may be the noisy one itself, which a change with as many runs stands for.
        like = shape.counts.index(shape.counts[change + 1], 1)
        more = (
            []
            if shape.pairs[change]
            else [w.column(like).ratio(documents[change]) for w in tried if w.noisy == (like,)]
        )
        marginals.append(np.sort([*own, *more], axis=1).max(axis=0))
    least = [
        np.sort(
            np.min([_share_above(m, own[world]) for m, own in zip(marginals, ratios, strict=True)], axis=0)
        )
        for world in range(len(tried))
    ]
    level = 1 - LEVEL - _of_draws(1 - LEVEL)
    return Chance(marginals, least, min(float(np.quantile(one, level)) for one in least))


def draws_of(shape: Shape, world: World, change: int) -> Draws:
    """A change in a world: its own column or, where it is compared in pairs, differences with their own variance."""
    if not (count := shape.pairs[change]):
        return world.column(change + 1)
    spreads = np.maximum(_spreads(count - 1, change + 1), 1e-12)
    return Draws(_normals(change + 1) / math.sqrt(count), spreads / count)


def satterthwaite(variances: Sequence[float], freedoms: Sequence[int]) -> int:
    """Degrees of freedom of a sum of variances that were measured apart (Satterthwaite 1946), rounded down."""
    squares = sum(one**2 / freedom for one, freedom in zip(variances, freedoms, strict=True))
    # To a millionth: eight may come out as 7.999….
    return max(1, int(round(sum(variances) ** 2 / squares, 6))) if squares else sum(freedoms)


@lru_cache(maxsize=256)
def student(freedom: int, share: float) -> float:
    """What a ratio with a pooled variance exceeds with a probability."""
    return float(
        np.quantile(np.abs(_normals(1)) / np.sqrt(np.maximum(_spreads(freedom, 0), 1e-12)), 1 - share)
    )


@lru_cache(maxsize=8)
def worlds(shape: Shape) -> tuple[World, ...]:
    """That of equal noise first; then one change, half of them and all of them noisier."""
    counts = shape.counts
    few = sorted(range(1, len(counts)), key=lambda arm: counts[arm])
    alone = sorted({counts.index(count, 1) for count in counts[1:]})
    groups = [*((arm,) for arm in alone), tuple(few[: (len(few) + 1) // 2]), tuple(few)]
    ratios = (*UNEQUAL, BEYOND) if shape.beyond else UNEQUAL
    normals = np.stack([_normals(arm) for arm in range(len(counts))], axis=1) / np.sqrt(counts)
    spreads = np.stack([_spreads(count - 1, arm) for arm, count in enumerate(counts)], axis=1)
    freedoms = np.array(
        [count - 1 if known else 0 for count, known in zip(counts, shape.steady, strict=True)], float
    )

    def world(noisy: tuple[int, ...], ratio: float) -> World:
        sd = np.ones(len(counts))
        sd[list(noisy)] = ratio
        means, variances = normals * sd, spreads * sd**2
        floor, _ = pooled_floor(variances, freedoms)
        used = np.maximum(variances, floor[:, None]) / np.array(counts)
        return World(noisy, ratio, means[:, 1:] - means[:, :1], used[:, 1:] + used[:, :1])

    unequal = dict.fromkeys((group, ratio) for group in groups for ratio in ratios)
    return (world((), 1.0), *(world(group, ratio) for group, ratio in unequal))


def pooled_floor(variances: np.ndarray, freedoms: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The variance (…,) of arms (…, 1 + k) together, weighted by their degrees of freedom (1 + k,), and which of
    them it is of (…, 1 + k): one after the other, changes more than NOISIER times as noisy as the rest are left out.
    """
    inside = np.broadcast_to(freedoms > 0, variances.shape).copy()

    def mean(chosen: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        weights = freedoms * chosen
        total = weights.sum(-1)
        return (variances * weights).sum(-1) / np.maximum(total, 1), total

    for _ in range(variances.shape[-1] - 1):
        worst = np.where(inside[..., 1:], variances[..., 1:], -1.0).argmax(-1)[..., None] + 1
        rest = inside.copy()
        np.put_along_axis(rest, worst, np.zeros_like(worst, bool), -1)
        others, freedom = mean(rest)
        largest = np.take_along_axis(np.where(inside, variances, -1.0), worst, -1)[..., 0]
        out = (freedom > 0) & (largest > NOISIER**2 * others)
        if not out.any():
            break
        inside &= rest | ~out[..., None]
    return mean(inside)[0], inside


def _share_above(marginal: np.ndarray, ratios: np.ndarray) -> np.ndarray:
    """How often chance alone gives ratios as large as these."""
    return 1 - np.searchsorted(marginal, ratios, side="left") / DRAWS


def _of_draws(p: float) -> float:
    """How far a share counted in DRAWS draws may lie from the true one: two standard errors, to be on the safe side."""
    return 2 * math.sqrt(p * (1 - p) / DRAWS)


@lru_cache(maxsize=64)
def _normals(arm: int) -> np.ndarray:
    return np.random.default_rng([1, arm]).standard_normal(DRAWS)


@lru_cache(maxsize=64)
def _spreads(freedom: int, arm: int) -> np.ndarray:
    if not freedom:
        return np.zeros(DRAWS)
    return np.random.default_rng([2, freedom, arm]).chisquare(freedom, DRAWS) / freedom
