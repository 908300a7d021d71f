"""Is a difference more than noise? Numbers in, intervals out; nothing here knows of runs or files.

Every arm of a study (the baseline, each change) is a few runs that differ in their seed. Two things make its mean
uncertain, and both are drawn many times:

- *seeds*: three values are too few to draw from, so they are drawn from the normal distribution;
- *documents*: the validation text's units are drawn with replacement, the same ones for every run that read them.

A change may be several times as noisy as the baseline, and a few runs cannot tell by how much. So an arm counts with
its own variance or with that of all arms together (the noise floor), whichever is larger, and a difference divided by
its standard error is compared with how large that ratio gets by chance in the worst of several worlds: all arms equally
noisy; one change, half of the changes or all of them three and five times as noisy. In each world whole studies are
drawn, noise floor and all. With many changes it is the smallest p-value of all of them that is compared (single-step
min-P, Westfall & Young 1993), so the chance of one false alarm in the whole study stays at 5 % in the worst world. The
intervals hold together at the same level, and one rule serves for both: a difference is seen where its interval leaves
out zero.

Where runs of one seed go closely together, a change is compared in pairs, seed by seed, with Student's t of the
differences (`CLOSE`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from octavo.studies.chance import (
    DRAWS,
    NOISIER,
    UNEQUAL,
    Shape,
    chance,
    draws_of,
    pooled_floor,
    student,
    worlds,
)

POWER = 0.95
"""A difference that "would have been seen" is seen with this probability."""

CLOSE, FEWEST_PAIRS = 0.9, 5
"""A change is compared in pairs where so many seeds have at least this correlation with the baseline's."""


@dataclass(frozen=True)
class Arm:
    """The finished runs of the baseline or of a change."""

    values: np.ndarray
    """(n,) the metric, one value a run."""
    steady: bool = True
    """Whether its spread may speak for the noise floor: not if one of its runs failed."""
    resampled: np.ndarray | None = None
    """(DRAWS, n) the metric on texts made of documents drawn again; None if a metric has no parts."""
    seeds: tuple[int, ...] = ()
    """Of each run; without them nothing can be paired."""

    @property
    def count(self) -> int:
        return len(self.values)

    @property
    def variance(self) -> float:
        """Between runs; 0 for a single run."""
        return float(self.values.var(ddof=1)) if self.count > 1 else 0.0


@dataclass(frozen=True)
class Noise:
    """The noise floor: the spread between runs that differ in nothing but their seed."""

    sd: float
    freedom: int
    """Degrees of freedom: over how many independent deviations it was measured."""
    pooled: tuple[int, ...]
    """The changes that were measured together with the baseline, by position."""
    noisier: tuple[int, ...]
    """The changes that are visibly noisier than the rest, by position."""
    beyond: bool = False
    """Whether one of them is noisier than the usual worlds have it."""


@dataclass(frozen=True)
class Pairs:
    """The same change, seed by seed."""

    difference: float
    """Mean over the seeds that both have."""
    correlation: float
    count: int
    decide: bool
    """Whether they are so alike that the interval and the p-values are those of the pairs."""


@dataclass(frozen=True)
class Contrast:
    """One change against the baseline."""

    difference: float
    low: float
    high: float
    p: float
    p_adjusted: float
    smallest: float
    """The smallest true difference that a study like this sees with probability POWER."""
    noise: float
    """Standard deviation between this change's runs, as it was used."""
    pairs: Pairs | None = None
    critical: float = math.inf
    """How many standard errors a difference must have to be seen."""
    too_few: bool = False
    """Not seen, but it would have been if all arms were known to be equally noisy: more seeds can tell."""

    @property
    def seen(self) -> bool:
        """Whether the interval leaves out zero."""
        return self.low > 0 or self.high < 0


@dataclass(frozen=True)
class _Measured:
    """One change as it came out."""

    difference: float
    error: float
    unit: float
    """The noise deviation of its own runs, or pairs, as it is used."""
    documents: np.ndarray | None
    """What their choice adds, in that unit."""
    pairs: Pairs | None

    @property
    def in_pairs(self) -> int:
        """How many pairs decide; 0 if none do."""
        return self.pairs.count if self.pairs is not None and self.pairs.decide else 0


def compare(baseline: Arm, changes: Sequence[Arm]) -> tuple[Noise, list[Contrast]]:
    """The noise floor, and each change against the baseline; see the module's text for the method.

    Raises ValueError if no two runs are alike but for the seed, so that noise cannot be measured.
    """
    noise = noise_floor(baseline, changes)
    if not changes:
        return noise, []
    measured = [_measured(baseline, arm, noise) for arm in changes]
    shape = Shape(
        (baseline.count, *(arm.count for arm in changes)),
        (True, *(arm.steady for arm in changes)),
        tuple(one.in_pairs for one in measured),
        noise.beyond,
    )
    by_chance = chance(shape, [one.documents for one in measured])
    contrasts = []
    for position, one in enumerate(measured):
        critical = by_chance.critical(position)
        half = critical * one.error
        spread = 0.0 if one.documents is None else one.unit * float(one.documents.std())
        equal = student(noise.freedom, by_chance.alone) * math.hypot(
            noise.sd * math.sqrt(1 / shape.counts[position + 1] + 1 / baseline.count), spread
        )
        contrasts.append(
            Contrast(
                one.difference,
                one.difference - half,
                one.difference + half,
                *by_chance.p(position, abs(one.difference) / one.error),
                _smallest(shape, position, one, critical, noise),
                one.unit if one.in_pairs or position in noise.noisier else noise.sd,
                one.pairs,
                critical,
                not one.in_pairs and half >= abs(one.difference) > equal,
            )
        )
    return noise, contrasts


def interval(baseline: Arm, arm: Arm, noise: Noise, like: Contrast) -> tuple[float, float, float]:
    """Another figure of the same runs, such as one on their way: its difference, and the ends of its interval, judged
    as `like` was.
    """
    one = _measured(baseline, arm, noise, in_pairs=like.pairs is not None and like.pairs.decide)
    half = like.critical * one.error
    return one.difference, one.difference - half, one.difference + half


def _measured(baseline: Arm, arm: Arm, noise: Noise, *, in_pairs: bool | None = None) -> _Measured:
    """In pairs, or as the pairs' correlation says."""
    pairs, apart = paired(baseline, arm)
    if pairs is not None and apart is not None and (pairs.decide if in_pairs is None else in_pairs):
        unit = max(math.sqrt(apart.variance), 1e-3 * noise.sd)  # equal differences leave nothing to divide by
        difference, squared = pairs.difference, unit**2 / apart.count
        documents = None if apart.resampled is None else of_documents(apart.resampled)
    else:
        unit = max(math.sqrt(arm.variance), noise.sd)
        difference = float(arm.values.mean() - baseline.values.mean())
        squared = unit**2 / arm.count + max(baseline.variance, noise.sd**2) / baseline.count
        documents = None
        if arm.resampled is not None and baseline.resampled is not None:
            documents = of_documents(arm.resampled, baseline.resampled)
    if documents is not None:
        squared += float(documents.var())
        documents = documents / unit
    return _Measured(difference, math.sqrt(squared), unit, documents, pairs)


def _smallest(shape: Shape, position: int, one: _Measured, critical: float, noise: Noise) -> float:
    """The smallest true difference that is seen with POWER in the world that is like this study: all equally noisy
    or, of a noisier change, this one alone.
    """
    like, unit = worlds(shape)[0], noise.sd
    draws = draws_of(shape, like, position)
    if one.in_pairs:
        unit = one.unit
    elif position in noise.noisier:
        stands = shape.counts.index(shape.counts[position + 1], 1)
        like = max(
            (world for world in worlds(shape) if world.noisy == (stands,)), key=lambda world: world.ratio
        )
        draws, unit = like.column(stands), one.unit / like.ratio
    deviation, squared = draws
    if one.documents is not None:
        added = one.documents * (one.unit / unit)
        deviation, squared = deviation + added, squared + added.var()
    return unit * float(np.quantile(critical * np.sqrt(squared) - deviation, POWER))


def paired(baseline: Arm, arm: Arm) -> tuple[Pairs | None, Arm | None]:
    """The change seed by seed, and the differences as an arm of their own; None where fewer than three seeds are
    shared.
    """
    shared = [seed for seed in arm.seeds if seed in baseline.seeds]
    if len(shared) < 3:
        return None, None
    mine, other = ([each.seeds.index(seed) for seed in shared] for each in (arm, baseline))
    one, two = arm.values[mine], baseline.values[other]
    spread = float(one.std() * two.std())
    correlation = float(((one - one.mean()) * (two - two.mean())).mean()) / spread if spread else 0.0
    drawn = None
    if arm.resampled is not None and baseline.resampled is not None:
        drawn = arm.resampled[:, mine] - baseline.resampled[:, other]
    decide = correlation >= CLOSE and len(shared) >= FEWEST_PAIRS
    apart = Arm(one - two, resampled=drawn)
    return Pairs(float(apart.values.mean()), correlation, len(shared), decide), apart


def noise_floor(baseline: Arm, changes: Sequence[Arm]) -> Noise:
    """Variance within arms, over the baseline and every steady change that is not visibly noisier than the rest."""
    arms = [baseline, *changes]
    freedoms = np.array([arm.count - 1 if arm.steady else 0 for arm in arms], float)
    freedoms[0] = max(0, baseline.count - 1)
    if not freedoms.any():
        raise ValueError("no arm has two finished runs, so noise cannot be measured")
    variances = np.array([arm.variance for arm in arms])
    floor, inside = pooled_floor(variances, freedoms)
    variance, pooled = float(floor), inside & (freedoms > 0)
    # A change that lost a run is left out of the pool, but its own noise may be large all the same.
    outside = [
        position
        for position, arm in enumerate(changes)
        if arm.count > 1 and not pooled[position + 1] and arm.variance > NOISIER**2 * variance
    ]
    # Runs may be equal to the last digit (a metric that has saturated); nothing then divides by zero.
    least = 1e-9 * max(1e-9, abs(float(baseline.values.mean())))
    sd = max(math.sqrt(variance), least)
    inner = tuple(position for position in range(len(changes)) if pooled[position + 1])
    beyond = bool(outside) and float(variances.max()) > (UNEQUAL[-1] * sd) ** 2
    return Noise(sd, int(freedoms[pooled].sum()), inner, tuple(outside), beyond)


def default_noise(seeds: int, changes: int) -> int:
    """Extra seeds of the baseline, which every change is compared with: √changes times as many runs as a change has
    (Dunnett 1955), and three in all at least.
    """
    return max(math.ceil(seeds * (math.sqrt(changes) - 1)), 3 - seeds, 0)


def smallest_visible(changes: int, seeds: int, baseline_seeds: int) -> float:
    """The smallest difference, in noise deviations, that a study of this size sees with probability POWER."""

    def arm(count: int) -> Arm:
        values = np.arange(count) - (count - 1) / 2
        return Arm(values / values.std(ddof=1) if count > 1 else values)

    contrasts = compare(arm(baseline_seeds), [arm(seeds)] * changes)[1]
    return max(contrast.smallest for contrast in contrasts)


# The choice of documents: units of the validation text drawn again, and what that does to a difference.

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
    by_chance = single / resampled.shape[1]
    if baseline is not None:
        drawn = drawn - baseline.mean(axis=1)
        other = _between_runs(baseline)
        by_chance = (single if resampled.shape[1] > 1 else other) / resampled.shape[
            1
        ] + other / baseline.shape[1]
    drawn = drawn - drawn.mean()
    variance = float(drawn.var())
    return drawn * math.sqrt(max(0.0, 1 - by_chance / variance)) if variance > 0 else drawn


def _between_runs(resampled: np.ndarray) -> float:
    """Variance over documents of one run, measured against its sisters."""
    count = resampled.shape[1]
    apart = resampled - resampled.mean(axis=1, keepdims=True)
    return float(apart.var(axis=0).sum()) / (count - 1) if count > 1 else 0.0


@lru_cache(maxsize=4)
def _weights(units: int, stream: int) -> np.ndarray:
    counts = np.random.default_rng([3, stream]).multinomial(units, np.full(units, 1 / units), DRAWS)
    return counts.astype(np.float64)
