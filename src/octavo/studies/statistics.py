"""Is a difference more than noise? Numbers in, intervals out; nothing here knows of runs or files.

Every arm of a study (the baseline, each change) is a few runs that differ in their seed. Two things make its mean
uncertain, and both are drawn again many times:

- *seeds*: three values are too few to draw from, so means are drawn from the normal distribution, with one noise level
  measured over all arms together (the noise floor), and the level itself is drawn as uncertain as it is (chi-squared);
- *documents*: the validation text's units are drawn with replacement, the same ones for every run that read them.

A difference divided by its standard error is compared with how large that ratio gets by chance alone. With many changes
it is the smallest p-value of all of them that is compared (single-step min-P, Westfall & Young 1993), so the chance of
one false alarm in the whole study stays at 5 %. The intervals hold together at the same level, and one rule serves for
both: a difference is seen where its interval leaves out zero. Without documents, this is Dunnett's test (1955).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

LEVEL = 0.95
"""All intervals of a study hold at once with this probability."""

POWER = 0.95
"""A difference that "would have been seen" is seen with this probability."""

DRAWS = 20_000
GROUPS = 200
"""Units beyond this many are put together, neighbours with neighbours; the interval hardly knows the difference."""

NOISIER = 0.01
"""An arm as noisy as one in a hundred healthy studies would have is judged with its own noise."""

MOST_NOISE_SEEDS = 16


@dataclass(frozen=True)
class Arm:
    """The finished runs of the baseline or of a change."""

    values: np.ndarray
    """(n,) the metric, one value a run."""
    steady: bool = True
    """Whether its spread may speak for the noise floor: not if one of its runs failed."""
    resampled: np.ndarray | None = None
    """(DRAWS, n) the metric on texts made of documents drawn again; None if a metric has no parts."""

    @property
    def count(self) -> int:
        """Number of runs."""
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
    """The changes that are visibly noisier than the rest, by position; each is judged with its own noise."""


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

    @property
    def seen(self) -> bool:
        """Whether the interval leaves out zero."""
        return self.low > 0 or self.high < 0


def compare(baseline: Arm, changes: Sequence[Arm]) -> tuple[Noise, list[Contrast]]:
    """The noise floor, and each change against the baseline; see the module's text for the method.

    Raises ValueError if no two runs are alike but for the seed, so that noise cannot be measured.
    """
    noise = noise_floor(baseline, changes)
    if not changes:
        return noise, []
    drawn = [_drawn(position, arm, baseline, noise) for position, arm in enumerate(changes)]
    ratios = np.abs(np.stack([deviation / error for deviation, error, _ in drawn], axis=1))
    # The share of draws with a larger ratio: each draw's own p-value, change by change.
    chance = np.empty_like(ratios)
    np.put_along_axis(chance, ratios.argsort(axis=0), 1 - np.arange(DRAWS)[:, None] / DRAWS, axis=0)
    least = np.sort(chance.min(axis=1))
    alone = float(np.quantile(least, 1 - LEVEL - _chance_of_draws(1 - LEVEL)))
    contrasts = []
    for position, (arm, (deviation, error, measured)) in enumerate(zip(changes, drawn, strict=True)):
        difference = float(arm.values.mean() - baseline.values.mean())
        critical = float(np.quantile(ratios[:, position], 1 - alone))
        p = float(1 + (ratios[:, position] >= abs(difference) / measured).sum()) / (DRAWS + 1)
        together = float(1 + np.searchsorted(least, p, side="right")) / (DRAWS + 1)
        contrasts.append(
            Contrast(
                difference,
                difference - critical * measured,
                difference + critical * measured,
                p,
                min(1.0, together + _chance_of_draws(together)),
                float(np.quantile(critical * error - deviation, POWER)),
                math.sqrt(arm.variance) if position in noise.noisier else noise.sd,
            )
        )
    return noise, contrasts


def noise_floor(baseline: Arm, changes: Sequence[Arm]) -> Noise:
    """Variance within arms, over the baseline and every steady change that is not visibly noisier than the rest."""
    pool = [position for position, arm in enumerate(changes) if arm.steady and arm.count > 1]
    noisier = []
    while pool:
        worst = max(pool, key=lambda position: changes[position].variance)
        rest = [baseline, *(changes[position] for position in pool if position != worst)]
        variance, freedom = _pooled(rest)
        arm = changes[worst]
        if not freedom or arm.variance <= variance:
            break
        ratio = arm.variance / variance if variance else math.inf
        if f_tail(ratio, arm.count - 1, freedom) >= NOISIER / len(changes):
            break
        pool.remove(worst)
        noisier.append(worst)
    # A change that lost a run is left out of the pool, but its own noise may be large all the same.
    variance, freedom = _pooled([baseline, *(changes[position] for position in pool)])
    if not freedom:
        raise ValueError("no arm has two finished runs, so noise cannot be measured")
    for position, arm in enumerate(changes):
        if not arm.steady and arm.count > 1 and arm.variance > variance:
            tail = f_tail(arm.variance / variance if variance else math.inf, arm.count - 1, freedom)
            noisier += [position] if tail < NOISIER / len(changes) else []
    # Runs may be equal to the last digit (a metric that has saturated); nothing then divides by zero.
    least = 1e-9 * max(1e-9, abs(float(baseline.values.mean())))
    return Noise(max(math.sqrt(variance), least), freedom, tuple(pool), tuple(sorted(noisier)))


def default_noise(seeds: int, changes: int, *, effect: float = 2.9) -> int:
    """The fewest extra baseline seeds with which a difference of `effect` noise deviations is seen with POWER.

    The default is three, less a margin: the choice of documents adds to the noise between seeds.
    `seeds`: runs of each variant; `changes`: how many there are. At most MOST_NOISE_SEEDS: where that is not enough
    (with one or two seeds), more seeds for all of them serve better.
    """
    low, high = max(0, 2 - seeds), MOST_NOISE_SEEDS
    while low < high:
        middle = (low + high) // 2
        if smallest_visible(changes, seeds, seeds + middle) <= effect:
            high = middle
        else:
            low = middle + 1
    return low


def smallest_visible(changes: int, seeds: int, baseline_seeds: int) -> float:
    """The smallest difference, in noise deviations, that a study of this size sees with probability POWER."""

    def arm(count: int) -> Arm:
        values = np.arange(count) - (count - 1) / 2
        return Arm(values / values.std(ddof=1) if count > 1 else values)

    contrasts = compare(arm(baseline_seeds), [arm(seeds)] * changes)[1]
    return max(contrast.smallest for contrast in contrasts)


def resample(nats: np.ndarray, sizes: np.ndarray, *, stream: int = 0) -> np.ndarray:
    """Loss per unit of size on texts made of documents drawn again: (DRAWS, n) from (n, U) nats and (U,) sizes.

    Runs that read the same documents must use the same `stream`, and so see the same texts.
    """
    units = len(sizes)
    starts = np.arange(min(units, GROUPS)) * units // min(units, GROUPS)
    nats, sizes = np.add.reduceat(nats, starts, axis=1), np.add.reduceat(sizes, starts)
    weights = _weights(len(starts), stream)
    return (weights @ nats.T) / (weights @ sizes)[:, None]


def f_tail(ratio: float, upper: int, lower: int) -> float:
    """Probability that a ratio of two equal variances' estimates exceeds `ratio` (the F distribution).

    `upper`, `lower`: degrees of freedom. Numerical Recipes' continued fraction of the incomplete beta function.
    """
    if math.isinf(ratio):
        return 0.0
    x = lower / (lower + upper * ratio)
    return _incomplete_beta(lower / 2, upper / 2, x)


def _chance_of_draws(p: float) -> float:
    """How far a share counted in DRAWS draws may lie from the true one: two standard errors, to be on the safe side."""
    return 2 * math.sqrt(p * (1 - p) / DRAWS)


def _drawn(position: int, arm: Arm, baseline: Arm, noise: Noise) -> tuple[np.ndarray, np.ndarray, float]:
    """Chance deviations of a difference (DRAWS,), their standard errors (DRAWS,), and the measured standard error."""
    own = position in noise.noisier
    variance = arm.variance if own else noise.sd**2
    factor = _spreads(noise.freedom, 0)
    own_factor = _spreads(arm.count - 1, position + 1) if own else factor
    documents = _documents(arm, baseline)
    documents_variance = float(documents.var())
    deviation = (
        _normals(position + 1) * math.sqrt(variance / arm.count)
        - _normals(0) * noise.sd / math.sqrt(baseline.count)
        + documents
    )
    parts = variance / arm.count, noise.sd**2 / baseline.count
    error = np.sqrt(parts[0] * own_factor + parts[1] * factor + documents_variance)
    return deviation, error, math.sqrt(sum(parts) + documents_variance)


def _documents(arm: Arm, baseline: Arm) -> np.ndarray:
    """What the choice of documents does to the difference, (DRAWS,), less what is chance between runs.

    A run does a little better on one document and worse on another than its sister of another seed: that is
    in the noise floor already, so this share is taken out and not counted twice.
    """
    if arm.resampled is None or baseline.resampled is None:
        return np.zeros(DRAWS)
    drawn = arm.resampled.mean(axis=1) - baseline.resampled.mean(axis=1)
    drawn = drawn - drawn.mean()
    variance = float(drawn.var())
    single = _between_runs(baseline.resampled)
    chance = single / baseline.count
    chance += (_between_runs(arm.resampled) if arm.count > 1 else single) / arm.count
    return drawn * math.sqrt(max(0.0, 1 - chance / variance)) if variance > 0 else drawn


def _between_runs(resampled: np.ndarray) -> float:
    """Variance over documents of one run, measured against its sisters."""
    count = resampled.shape[1]
    apart = resampled - resampled.mean(axis=1, keepdims=True)
    return float(apart.var(axis=0).sum()) / (count - 1) if count > 1 else 0.0


def _pooled(arms: Sequence[Arm]) -> tuple[float, int]:
    """Variance within arms and its degrees of freedom."""
    freedom = sum(max(0, arm.count - 1) for arm in arms)
    total = sum((arm.count - 1) * arm.variance for arm in arms if arm.count > 1)
    return (total / freedom if freedom else 0.0), freedom


@lru_cache(maxsize=64)
def _normals(arm: int) -> np.ndarray:
    return np.random.default_rng([1, arm]).standard_normal(DRAWS)


@lru_cache(maxsize=64)
def _spreads(freedom: int, arm: int) -> np.ndarray:
    return np.random.default_rng([2, freedom, arm]).chisquare(freedom, DRAWS) / freedom


@lru_cache(maxsize=4)
def _weights(units: int, stream: int) -> np.ndarray:
    counts = np.random.default_rng([3, stream]).multinomial(units, np.full(units, 1 / units), DRAWS)
    return counts.astype(np.float64)


def _incomplete_beta(a: float, b: float, x: float) -> float:
    """Regularized, I_x(a, b): the probability that a beta-distributed number is below x."""
    if x <= 0 or x >= 1:
        return float(x >= 1)
    front = math.exp(
        math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)
    )
    if x > (a + 1) / (a + b + 2):
        return 1 - front * _fraction(b, a, 1 - x) / b
    return front * _fraction(a, b, x) / a


def _fraction(a: float, b: float, x: float) -> float:
    """The continued fraction of the incomplete beta function, by Lentz's method."""
    tiny = 1e-300
    c, d = 1.0, 1 / (1 - (a + b) * x / (a + 1) or tiny)
    value = d
    for m in range(1, 500):
        for term in (
            m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)),
        ):
            d = 1 / (1 + term * d or tiny)
            c = 1 + term / c or tiny
            value *= c * d
        if abs(c * d - 1) < 1e-14:
            break
    return value
