"""Simple predictors of rows of numbers, with distributions: what a model has to beat. All learn from the training split
alone.

Each says where the next row is expected, from the rows before it; around that a Student-t is fitted to what it missed,
channel by channel. Where a channel is exactly zero at times, the chance of a zero, given whether it was zero before, is
counted too: else a density would be compared with a probability. A row with little history is predicted from what it
has, by a predictor that was fitted to as little. No channel's unit matters: what is fitted to several channels has
standardized features. N rows, L rows of history, C channels.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from octavo.model.vectors import NEXT_TO_NOTHING, differences, spread_of

FREEDOMS = (1.1, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 7.0, 10.0, 20.0, 50.0, 200.0)
SETTLED = 1e-6
"""Relative change of a squared spread at which its fit ends."""

MOST_FITTED = 20_000
"""Rows that a distribution is fitted to."""

SOME_ZEROS = 0.01
"""Share of a channel's numbers from which on its zeros have a probability of their own."""

FLOOR = 1e-3
"""Least spread, as a share of the channel's usual step; a model's own default."""

RIDGE = 1e-6
"""Of a linear predictor whose features have a spread of 1."""

PAIRS_PER_WEIGHT = 2
"""Pairs of a history and what came that a linear predictor needs, at least, for each of its weights."""


def fit_t(missed: np.ndarray, least: float) -> tuple[float, float]:
    """Degrees of freedom and spread of a centred Student-t, by likelihood over a grid of freedoms."""
    squares = np.square(missed)
    best = (-math.inf, FREEDOMS[0], least)
    for freedom in FREEDOMS:
        square = max(float(np.median(squares)), least**2)
        for _ in range(100):  # expectation maximization
            before = square
            square = max(float((squares * (freedom + 1) / (freedom + squares / square)).mean()), least**2)
            if abs(square - before) <= SETTLED * before:
                break
        likelihood = float(t_log_density(missed, freedom, math.sqrt(square)).mean())
        best = max(best, (likelihood, freedom, math.sqrt(square)))
    return best[1:]


def t_log_density(missed: np.ndarray, freedom: float, spread: float) -> np.ndarray:
    """Log density of a centred Student-t."""
    constant = math.lgamma((freedom + 1) / 2) - math.lgamma(freedom / 2) - 0.5 * math.log(freedom * math.pi)
    return constant - math.log(spread) - (freedom + 1) / 2 * np.log1p(np.square(missed / spread) / freedom)


@dataclass(frozen=True)
class Noise:
    """What a predictor misses, by channel: Student-t's, and the chance of a zero after another number and after a zero
    (2, C), NaN in channels that have none.
    """

    freedom: np.ndarray
    spread: np.ndarray
    zero: np.ndarray

    @classmethod
    def fit(cls, before: np.ndarray, expected: np.ndarray, truth: np.ndarray, least: np.ndarray) -> Noise:
        """From rows before (N, C), what was expected and what came."""
        freedom, spread, zero = [], [], np.full((2, truth.shape[1]), np.nan)
        for channel in range(truth.shape[1]):
            came, was = truth[:, channel], before[:, channel]
            known = ~(np.isnan(came) | np.isnan(was))
            has_zeros = known.any() and (came[known] == 0).mean() >= SOME_ZEROS
            if has_zeros:
                for state in (0, 1):
                    after = came[known & ((was == 0) == bool(state))]
                    zero[state, channel] = ((after == 0).sum() + 0.5) / (len(after) + 1)
                known &= came != 0
            missed = (came - expected[:, channel])[known]
            if len(missed):
                found = fit_t(missed[:: max(1, len(missed) // MOST_FITTED)], float(least[channel]))
            else:  # there are zeros only, or nothing, and then it is as wide as a usual step
                found = (FREEDOMS[0], float(least[channel]) * (1 if has_zeros else 1 / FLOOR))
            freedom.append(found[0])
            spread.append(found[1])
        return cls(np.array(freedom), np.array(spread), zero)

    def log_density(self, before: np.ndarray, expected: np.ndarray, truth: np.ndarray) -> np.ndarray:
        """Of each number of rows (…, C); 0 where one is missing."""
        total = np.zeros(np.broadcast_shapes(expected.shape, truth.shape))
        for channel in range(truth.shape[-1]):
            came = truth[..., channel]
            densities = t_log_density(
                came - expected[..., channel], self.freedom[channel], self.spread[channel]
            )
            if not np.isnan(self.zero[0, channel]):
                chance = np.where(before[..., channel] == 0, self.zero[1, channel], self.zero[0, channel])
                densities = np.where(came == 0, np.log(chance), np.log1p(-chance) + densities)
            total[..., channel] = np.where(np.isnan(came), 0.0, densities)
        return total

    def draw(self, before: np.ndarray, expected: np.ndarray, random: np.random.Generator) -> np.ndarray:
        """A row (…, C) for each that is expected."""
        drawn = expected + self.spread * random.standard_t(self.freedom, expected.shape)
        chance = np.where(before == 0, self.zero[1], self.zero[0])
        return np.where(random.random(expected.shape) < np.nan_to_num(chance, nan=-1.0), 0.0, drawn)


class Predictor(ABC):
    """Says where the next row is expected.

    Attributes:
        reach: rows of history that it needs.
    """

    reach: int = 1

    @abstractmethod
    def expected(self, history: np.ndarray) -> np.ndarray:
        """Of histories (…, L, C) with L at least `reach`, the next rows (…, C)."""


class LastValue(Predictor):
    """What was seen last."""

    def expected(self, history: np.ndarray) -> np.ndarray:
        return history[..., -1, :]


class Drift(Predictor):
    """The straight line through the first and the last row."""

    def __init__(self, reach: int) -> None:
        self.reach = max(2, reach)

    def expected(self, history: np.ndarray) -> np.ndarray:
        first, last = history[..., -self.reach, :], history[..., -1, :]
        return last + (last - first) / (self.reach - 1)


class SeasonalNaive(Predictor):
    """What was seen a period ago."""

    def __init__(self, period: int) -> None:
        self.reach = period

    def expected(self, history: np.ndarray) -> np.ndarray:
        return history[..., -self.reach, :]


class Linear(Predictor):
    """A linear function of the last rows' differences from the last one, and the last one: all channels of each (a
    vector autoregression), or each channel's own (NLinear, Zeng et al. 2022).

    Args:
        history, truth: (N, L, C) and (N, C), NaN where a number of the truth is missing.
    """

    def __init__(self, history: np.ndarray, truth: np.ndarray, *, own: bool) -> None:
        self.reach, self.own = history.shape[1], own
        x, y = self._features(history), truth - history[:, -1]  # (N, C or 1, F) and (N, C)
        found = []
        for channel in range(y.shape[1]):
            came = ~np.isnan(y[:, channel])
            found.append(self._fit(x[came, channel if own else 0], y[came, channel]))
        self.weights = np.stack([weights for weights, _ in found], axis=1)  # (F, C)
        self.constant = np.array([constant for _, constant in found])

    @classmethod
    def pairs_needed(cls, reach: int, channels: int, *, own: bool) -> int:
        """How many numbers of each channel it takes to fit one that sees `reach` rows."""
        return PAIRS_PER_WEIGHT * (reach if own else reach * channels + 1)

    @staticmethod
    def _fit(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, float]:
        """Weights (F,) and a constant, by ridge regression on features (N, F) that are standardized first."""
        if not x.shape[1]:
            return np.zeros(0), float(y.mean())
        middle, spread = x.mean(axis=0), x.std(axis=0)
        spread = np.where(spread > NEXT_TO_NOTHING * np.abs(x).max(axis=0), spread, np.inf)
        z, missed = (x - middle) / spread, y - y.mean()
        weights = (
            np.linalg.solve(z.T @ z / len(z) + RIDGE * np.eye(z.shape[1]), z.T @ missed / len(z)) / spread
        )
        return weights, float(y.mean() - middle @ weights)

    def _features(self, history: np.ndarray) -> np.ndarray:
        """Of each channel its own (…, C, F), or of every channel the same (…, 1, F)."""
        window = history[..., -self.reach :, :]
        steps = window[..., :-1, :] - window[..., -1:, :]  # (…, reach − 1, C)
        if self.own:
            return np.moveaxis(steps, -1, -2)
        flat = np.concatenate([steps.reshape(*steps.shape[:-2], -1), window[..., -1, :]], axis=-1)
        return flat[..., None, :]

    def expected(self, history: np.ndarray) -> np.ndarray:
        features = self._features(history)
        if self.own:
            change = np.einsum("...cf,fc->...c", features, self.weights)
        else:
            change = features[..., 0, :] @ self.weights
        return history[..., -1, :] + change + self.constant


@dataclass(frozen=True)
class Fitted:
    """A predictor for each length of history, each with what it misses; by rising `reach`, the first of which is 1."""

    rungs: tuple[tuple[Predictor, Noise], ...]

    @property
    def reach(self) -> int:
        """The rows of history that the longest one needs."""
        return self.rungs[-1][0].reach

    def by_length(self, lengths: np.ndarray) -> Iterator[tuple[np.ndarray, Predictor, Noise]]:
        """Which rows (N,) have the history that a predictor needs, and not that of the next one."""
        edges = [predictor.reach for predictor, _ in self.rungs[1:]]
        chosen = np.searchsorted(edges, lengths, side="right")
        for place, (predictor, noise) in enumerate(self.rungs):
            if (here := chosen == place).any():
                yield here, predictor, noise


def period_of(series: Sequence[np.ndarray], longest: int) -> int | None:
    """The lag of the highest peak of the channels' mean autocorrelation, up to `longest`; None if there is no peak."""
    total = np.zeros(longest + 1)
    for rows in series:
        mean = spread_of(rows)[0]
        for held in (filled(rows, mean) - mean).T:  # what is missing, as it last was: gaps have no period
            if len(held) <= longest or not held.any():
                continue
            size = 2 * len(held)
            power = np.abs(np.fft.rfft(held, size)) ** 2
            correlation = np.fft.irfft(power, size)[: longest + 1]
            total += correlation / correlation[0]
    inner = np.arange(2, longest)
    peaks = inner[(total[2:-1] > total[1:-2]) & (total[2:-1] >= total[3:])] if longest > 3 else inner[:0]
    peaks = peaks[total[peaks] > 0]
    return int(peaks[total[peaks].argmax()]) if len(peaks) else None


def filled(rows: np.ndarray, first: np.ndarray | float) -> np.ndarray:
    """Rows (N, C) with what was seen last in place of what is missing, and `first` where nothing was yet."""
    rows_filled = rows.astype(np.float64)
    begins = np.broadcast_to(first, rows_filled.shape[1:])
    for channel in range(rows_filled.shape[1]):
        there = np.flatnonzero(~np.isnan(rows_filled[:, channel]))
        place = np.searchsorted(there, np.arange(len(rows_filled)), side="right")
        rows_filled[:, channel] = np.append(begins[channel], rows_filled[there, channel])[place]
    return rows_filled


def histories(rows: np.ndarray, places: np.ndarray, reach: int) -> np.ndarray:
    """The last `reach` of filled rows (N, C) before each place, (P, reach, C); before the first row, that one."""
    at = places[:, None] - reach + np.arange(reach)
    return rows[np.maximum(at, 0)]


def usual_step(series: Sequence[np.ndarray]) -> np.ndarray:
    """Mean absolute step of each channel, (C,); its spread, where it hardly ever makes one."""
    steps = np.abs(np.concatenate([differences(rows) for rows in series]))
    there = ~np.isnan(steps)
    usual = np.where(there, steps, 0.0).sum(axis=0) / np.maximum(there.sum(axis=0), 1)
    spread = spread_of(np.concatenate(series))[1]
    return np.where(usual > NEXT_TO_NOTHING * spread, usual, spread)


def reaches(most: int) -> list[int]:
    """1, 2, 4 and so on, and `most`."""
    return sorted({most} | {2**power for power in range(most.bit_length()) if 2**power < most})


class Baselines:
    """All simple predictors, fitted.

    Args:
        series: the channels (N, C) of each training series.
        context: rows that the model sees, and these too.
        horizons: steps ahead that NLinear is fitted for, each by itself.

    Attributes:
        step: the usual step of each channel, (C,).
        predictors: by name, those that go on step by step.
        direct: NLinear by steps ahead, where it had enough to learn from.
    """

    def __init__(self, series: Sequence[np.ndarray], *, context: int, horizons: Sequence[int]) -> None:
        self.series, self.context = [rows.astype(np.float64) for rows in series], context
        self.step = usual_step(self.series)
        whole = np.concatenate(self.series)
        self.mean = spread_of(whole)[0]
        level = np.broadcast_to(self.mean, whole.shape)
        self.unseen = Noise.fit(level, level, whole, FLOOR * self.step)
        """What comes in a channel that was not seen yet, around its mean."""
        self.held = [(filled(rows, self.mean), ~np.isnan(rows)) for rows in self.series]
        period = period_of(self.series, min(context, min(map(len, series)) // 2))
        last = LastValue()
        found = {"last value": self._fitted([last])}
        if drifts := [Drift(reach) for reach in reaches(min(context, 64)) if reach > 1]:
            found["drift"] = self._fitted([last, *drifts])
        if period is not None:
            found[f"seasonal ({period})"] = self._fitted([last, SeasonalNaive(period)])
        autoregression = self._fitted_linear(min(16, context), own=False)
        if autoregression is not None:
            found[f"AR({max(1, autoregression.reach - 1)})"] = autoregression
        self.predictors = {name: fitted for name, fitted in found.items() if fitted is not None}
        direct = {
            ahead: self._fitted_linear(min(context, 64), own=True, ahead=ahead)
            for ahead in dict.fromkeys((1, *horizons))
        }
        self.direct = {ahead: fitted for ahead, fitted in direct.items() if fitted is not None}

    def _pairs(self, reach: int, ahead: int) -> tuple[np.ndarray, np.ndarray]:
        """Histories and what came so many steps later, from all training series, evenly chosen. Of a channel that was
        not seen before, nothing is told of what came."""
        every = max(1, sum(map(len, self.series)) // MOST_FITTED)
        channels = self.series[0].shape[1]
        pairs = [(np.empty((0, reach, channels)), np.empty((0, channels)))]
        for rows, (held, there) in zip(self.series, self.held, strict=True):
            places = np.arange(reach, len(rows) - ahead + 1, every)
            if not there.all():  # evenly chosen ones could miss a channel that comes every so often
                places = np.minimum(places + np.arange(len(places)) % every, len(rows) - ahead)
            seen = np.logical_or.accumulate(there)[places - 1]
            pairs.append((histories(held, places, reach), np.where(seen, rows[places + ahead - 1], np.nan)))
        return np.concatenate([pair[0] for pair in pairs]), np.concatenate([pair[1] for pair in pairs])

    def _fitted(self, predictors: Sequence[Predictor]) -> Fitted | None:
        """Each with what it misses, up to the first that nothing can be learned of; None if that is the very first."""
        rungs: list[tuple[Predictor, Noise]] = []
        for predictor in predictors:
            history, truth = self._pairs(predictor.reach, 1)
            if np.isnan(truth).all():
                break
            rungs.append((predictor, self._noise(predictor, history, truth)))
        return Fitted(tuple(rungs)) if rungs else None

    def _fitted_linear(self, most: int, *, own: bool, ahead: int = 1) -> Fitted | None:
        """The same of linear predictors of so many steps ahead, up to the longest that there are pairs enough for."""
        rungs: list[tuple[Predictor, Noise]] = []
        for reach in reaches(most):
            history, truth = self._pairs(reach, ahead)
            least = Linear.pairs_needed(reach, truth.shape[1], own=own)
            if (~np.isnan(truth)).sum(axis=0).min() < least:
                break
            predictor = Linear(history, truth, own=own)
            rungs.append((predictor, self._noise(predictor, history, truth)))
        return Fitted(tuple(rungs)) if rungs else None

    def _noise(self, predictor: Predictor, history: np.ndarray, truth: np.ndarray) -> Noise:
        return Noise.fit(history[:, -1], predictor.expected(history), truth, FLOOR * self.step)

    def losses(self, series: Sequence[np.ndarray]) -> Mapping[str, float]:
        """−ln of the density of every row but the first of each series, a step's mean, by name."""
        sums: dict[str, float] = {}
        count = 0
        named = {"NLinear": self.direct[1]} if 1 in self.direct else {}
        named |= self.predictors
        for rows in series:
            truth, there = rows.astype(np.float64), ~np.isnan(rows)
            held = filled(rows, self.mean)
            places = 1 + np.flatnonzero(there[1:].any(axis=1))
            count += len(places)
            seen = np.logical_or.accumulate(there)[places - 1]
            for name, fitted in named.items():
                for here, predictor, noise in fitted.by_length(places):
                    history = histories(held, places[here], predictor.reach)
                    found = self._density(
                        noise, history[:, -1], predictor.expected(history), truth[places[here]], seen[here]
                    )
                    sums[name] = sums.get(name, 0.0) - float(found.sum())
        return {name: total / count for name, total in sums.items()}

    def _density(
        self, noise: Noise, before: np.ndarray, expected: np.ndarray, truth: np.ndarray, seen: np.ndarray
    ) -> np.ndarray:
        """Log density of each number of rows (…, C); of channels that were not `seen` before, around their mean."""
        found = noise.log_density(before, expected, truth)
        if seen.all():
            return found
        level = np.broadcast_to(self.mean, expected.shape)
        return np.where(seen, found, self.unseen.log_density(level, level, truth))

    def _drawn(
        self,
        noise: Noise,
        before: np.ndarray,
        expected: np.ndarray,
        seen: np.ndarray,
        random: np.random.Generator,
    ) -> np.ndarray:
        """A row (…, C) for each that is expected, in the same way."""
        drawn = noise.draw(before, expected, random)
        if seen.all():
            return drawn
        level = np.broadcast_to(self.mean, expected.shape)
        return np.where(seen, drawn, self.unseen.draw(level, level, random))

    @np.errstate(over="ignore", invalid="ignore")
    def forecast(
        self,
        known: Sequence[np.ndarray],
        truth: np.ndarray,
        horizons: Sequence[int],
        *,
        paths: int,
        seed: int,
    ) -> dict[str, dict[int, tuple[np.ndarray, np.ndarray]]]:
        """By name and horizon: draws (M, W, C), and the log density (W,) of what came.

        Args:
            known: of W places the rows before each, (L, C), at least one; NaN where a number is missing.
            truth: what came, (W, steps, C).
        """
        from octavo.tasks.forecast.scores import mean_density

        lengths = np.array([len(rows) for rows in known])
        seen = np.stack([(~np.isnan(rows)).any(axis=0) for rows in known])
        held = [filled(rows, self.mean) for rows in known]

        def before_all(reach: int) -> np.ndarray:
            return np.stack([histories(rows, np.array([len(rows)]), reach)[0] for rows in held])

        forecasts: dict[str, dict[int, tuple[np.ndarray, np.ndarray]]] = {}
        for ahead in horizons if set(horizons) <= set(self.direct) else ():
            fitted, random = self.direct[ahead], np.random.default_rng([seed, ahead])
            history, came = before_all(fitted.reach), truth[:, ahead - 1]
            drawn, density = np.empty((paths, *came.shape)), np.empty(came.shape)
            for here, predictor, noise in fitted.by_length(lengths):
                before, expected = history[here, -1], predictor.expected(history[here])
                density[here] = self._density(noise, before, expected, came[here], seen[here])
                many = (paths, *expected.shape)
                drawn[:, here] = self._drawn(
                    noise, np.broadcast_to(before, many), np.broadcast_to(expected, many), seen[here], random
                )
            forecasts.setdefault("NLinear", {})[ahead] = (drawn, density.sum(axis=-1))
        for name, fitted in self.predictors.items():
            random, path = np.random.default_rng([seed, 0]), before_all(fitted.reach)
            path = np.broadcast_to(path, (paths, *path.shape))
            forecasts[name] = {}
            for step in range(1, max(horizons) + 1):
                drawn, density = np.empty((2, paths, *seen.shape))
                known_now = seen if step == 1 else np.ones_like(seen)
                for here, predictor, noise in fitted.by_length(lengths + step - 1):
                    before, expected = path[:, here, -1], predictor.expected(path[:, here])
                    drawn[:, here] = self._drawn(noise, before, expected, known_now[here], random)
                    if step in horizons:
                        came = truth[here, step - 1]
                        density[:, here] = self._density(noise, before, expected, came, known_now[here])
                if step in horizons:
                    forecasts[name][step] = (drawn, mean_density(density).sum(axis=-1))
                path = np.concatenate([path[..., 1:, :], drawn[..., None, :]], axis=-2)
        return forecasts
