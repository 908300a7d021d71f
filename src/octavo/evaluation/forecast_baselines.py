"""Simple predictors of rows of numbers, with distributions: what a model has to beat. All learn from the training split
alone.

Each says where the next row is expected, from the rows before it; around that a Student-t is fitted to what it missed,
channel by channel. Where a channel is exactly zero at times, the chance of a zero, given whether it was zero before, is
counted too: else a density would be compared with a probability. N rows, L rows of history, C channels.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from octavo.model.vectors import differences

FREEDOMS = (1.1, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 7.0, 10.0, 20.0, 50.0, 200.0)
MOST_FITTED = 20_000
"""Rows that a distribution is fitted to."""

SOME_ZEROS = 0.01
"""Share of a channel's numbers from which on its zeros have a probability of their own."""

FLOOR = 1e-3
"""Least spread, as a share of the channel's usual step; a model's own default."""

RIDGE = 1e-6


def fit_t(missed: np.ndarray, least: float) -> tuple[float, float]:
    """Degrees of freedom and spread of a centred Student-t, by likelihood over a grid of freedoms."""
    squares = np.square(missed)
    best = (-math.inf, FREEDOMS[0], least)
    for freedom in FREEDOMS:
        square = max(float(np.median(squares)), least**2)
        for _ in range(100):  # expectation maximization
            square = max(float((squares * (freedom + 1) / (freedom + squares / square)).mean()), least**2)
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
            found = t_log_density(came - expected[..., channel], self.freedom[channel], self.spread[channel])
            if not np.isnan(self.zero[0, channel]):
                chance = np.where(before[..., channel] == 0, self.zero[1, channel], self.zero[0, channel])
                found = np.where(came == 0, np.log(chance), np.log1p(-chance) + found)
            total[..., channel] = np.where(np.isnan(came), 0.0, found)
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
    vector autoregression), or each channel's own (NLinear, Zeng et al. 2022). `ahead`: how many steps."""

    def __init__(self, history: np.ndarray, truth: np.ndarray, *, reach: int, own: bool) -> None:
        self.reach, self.own = reach, own
        x, y = self._features(history), truth - history[:, -1]  # (N, C, F) and (N, C)
        came = ~np.isnan(y)
        self.weights = np.stack(
            [
                self._solve(x[came[:, channel], channel if own else 0], y[came[:, channel], channel])
                for channel in range(y.shape[1])
            ],
            axis=1,
        )

    @staticmethod
    def _solve(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        square = x.T @ x
        return np.linalg.solve(
            square + RIDGE * (np.trace(square) / len(square) + 1e-12) * np.eye(len(square)), x.T @ y
        )

    def _features(self, history: np.ndarray) -> np.ndarray:
        """(…, C, F): of every channel the same, or each channel's own."""
        window = history[..., -self.reach :, :]
        steps = window[..., :-1, :] - window[..., -1:, :]  # (…, reach − 1, C)
        ones = np.ones((*steps.shape[:-2], steps.shape[-1], 1))
        if self.own:
            return np.concatenate([np.moveaxis(steps, -1, -2), ones], axis=-1)
        level = window[..., -1, :]
        flat = np.concatenate([steps.reshape(*steps.shape[:-2], -1), level], axis=-1)
        wide = np.broadcast_to(flat[..., None, :], (*flat.shape[:-1], steps.shape[-1], flat.shape[-1]))
        return np.concatenate([wide, ones], axis=-1)

    def expected(self, history: np.ndarray) -> np.ndarray:
        features = self._features(history)
        if not self.own:
            return history[..., -1, :] + features[..., 0, :] @ self.weights
        return history[..., -1, :] + np.einsum("...cf,fc->...c", features, self.weights)


def period_of(series: Sequence[np.ndarray], longest: int) -> int | None:
    """The lag of the highest peak of the channels' mean autocorrelation, up to `longest`; None if there is no peak."""
    total = np.zeros(longest + 1)
    for rows in series:
        for channel in rows.T:
            known = channel[~np.isnan(channel)]
            held = np.nan_to_num(channel - (known.mean() if len(known) else 0.0))
            if len(held) <= longest or not held.any():
                continue
            size = 2 * len(held)
            power = np.abs(np.fft.rfft(held, size)) ** 2
            found = np.fft.irfft(power, size)[: longest + 1]
            total += found / found[0]
    inner = np.arange(2, longest)
    peaks = inner[(total[2:-1] > total[1:-2]) & (total[2:-1] >= total[3:])] if longest > 3 else inner[:0]
    peaks = peaks[total[peaks] > 0]
    return int(peaks[total[peaks].argmax()]) if len(peaks) else None


def filled(rows: np.ndarray) -> np.ndarray:
    """Rows (N, C) with what was seen last in place of what is missing; what is missing first is what comes."""
    found = rows.astype(np.float64)
    for channel in range(found.shape[1]):
        there = np.flatnonzero(~np.isnan(found[:, channel]))
        place = np.searchsorted(there, np.arange(len(found)), side="right") - 1
        found[:, channel] = found[there[np.maximum(place, 0)], channel] if len(there) else 0.0
    return found


def histories(rows: np.ndarray, places: np.ndarray, reach: int) -> np.ndarray:
    """The last `reach` of filled rows (N, C) before each place, (P, reach, C); before the first row, that one."""
    at = places[:, None] - reach + np.arange(reach)
    return rows[np.maximum(at, 0)]


def usual_step(series: Sequence[np.ndarray]) -> np.ndarray:
    """Mean absolute step of each channel, (C,)."""
    steps = np.concatenate([differences(rows) for rows in series])
    return np.maximum(np.nanmean(np.abs(steps), axis=0), 1e-12)


class Baselines:
    """All simple predictors, fitted.

    Args:
        series: the channels (N, C) of each training series.
        context: rows that the model sees, and these too.
        horizons: steps ahead that NLinear is fitted for, each by itself.
    """

    def __init__(self, series: Sequence[np.ndarray], *, context: int, horizons: Sequence[int]) -> None:
        self.series, self.context = [rows.astype(np.float64) for rows in series], context
        self.step = usual_step(self.series)
        order = min(16, context)
        period = period_of(self.series, min(context, min(map(len, series)) // 2))
        found: dict[str, Predictor] = {"last value": LastValue(), "drift": Drift(min(context, 64))}
        if period is not None:
            found[f"seasonal ({period})"] = SeasonalNaive(period)
        found[f"AR({order - 1})"] = self._linear(order, own=False)
        noise = {name: self._noise(predictor, 1) for name, predictor in found.items()}
        self.noise = {name: fitted for name, fitted in noise.items() if fitted is not None}
        self.predictors = {name: found[name] for name in self.noise}
        self.direct: dict[int, tuple[Predictor, Noise]] = {}
        for ahead in dict.fromkeys((1, *horizons)):
            predictor = self._linear(min(context, 64), own=True, ahead=ahead)
            if (fitted := self._noise(predictor, ahead)) is not None:
                self.direct[ahead] = (predictor, fitted)

    def _pairs(self, reach: int, ahead: int) -> tuple[np.ndarray, np.ndarray]:
        """Histories and what came so many steps later, from all training series, evenly chosen."""
        total = sum(map(len, self.series))
        every = max(1, total // MOST_FITTED)
        first = reach if any(len(rows) >= reach + ahead for rows in self.series) else 1
        pairs = []
        for rows in self.series:
            places = np.arange(first, len(rows) - ahead + 1, every)
            if np.isnan(rows).any():  # evenly chosen ones could miss a channel that comes every so often
                places = np.minimum(places + np.arange(len(places)) % every, len(rows) - ahead)
            pairs.append((histories(filled(rows), places, reach), rows[places + ahead - 1]))
        return np.concatenate([pair[0] for pair in pairs]), np.concatenate([pair[1] for pair in pairs])

    def _linear(self, reach: int, *, own: bool, ahead: int = 1) -> Linear:
        return Linear(*self._pairs(reach, ahead), reach=reach, own=own)

    def _noise(self, predictor: Predictor, ahead: int) -> Noise | None:
        """What it misses; None where there is no pair to learn that from."""
        history, truth = self._pairs(predictor.reach, ahead)
        if np.isnan(truth).all():
            return None
        return Noise.fit(history[:, -1], predictor.expected(history), truth, FLOOR * self.step)

    def losses(self, series: Sequence[np.ndarray]) -> Mapping[str, float]:
        """−ln of the density of every row but the first of each series, a step's mean, by name."""
        sums: dict[str, float] = {}
        count = 0
        for rows in series:
            held = filled(rows)
            places = 1 + np.flatnonzero(~np.isnan(rows[1:]).all(axis=1))
            count += len(places)
            one = {"NLinear": self.direct[1]} if 1 in self.direct else {}
            one |= {name: (predictor, self.noise[name]) for name, predictor in self.predictors.items()}
            for name, (predictor, noise) in one.items():
                history = histories(held, places, predictor.reach)
                found = noise.log_density(
                    history[:, -1], predictor.expected(history), rows[places].astype(np.float64)
                )
                sums[name] = sums.get(name, 0.0) - float(found.sum())
        return {name: total / count for name, total in sums.items()}

    def forecast(
        self, history: np.ndarray, truth: np.ndarray, horizons: Sequence[int], *, paths: int, seed: int
    ) -> dict[str, dict[int, tuple[np.ndarray, np.ndarray]]]:
        """By name and horizon: draws (M, W, C), and the log density (W,) of what came.

        Args:
            history: filled rows (W, L, C).
            truth: what came, (W, steps, C).
        """
        from octavo.evaluation.forecast_scores import mean_density

        found: dict[str, dict[int, tuple[np.ndarray, np.ndarray]]] = {}
        for ahead in horizons if set(horizons) <= set(self.direct) else ():
            predictor, noise = self.direct[ahead]
            random = np.random.default_rng([seed, ahead])
            before, expected = history[:, -1], predictor.expected(history)
            many = (paths, *expected.shape)
            drawn = noise.draw(np.broadcast_to(before, many), np.broadcast_to(expected, many), random)
            density = noise.log_density(before, expected, truth[:, ahead - 1])
            found.setdefault("NLinear", {})[ahead] = (drawn, density.sum(axis=-1))
        for name, predictor in self.predictors.items():
            random, noise = np.random.default_rng([seed, 0]), self.noise[name]
            path = np.broadcast_to(
                history[None, :, -predictor.reach :], (paths, *history[:, -predictor.reach :].shape)
            )
            found[name] = {}
            for step in range(1, max(horizons) + 1):
                before, expected = path[..., -1, :], predictor.expected(path)
                drawn = noise.draw(before, expected, random)
                if step in horizons:
                    density = noise.log_density(before, expected, truth[:, step - 1])
                    found[name][step] = (drawn, mean_density(density).sum(axis=-1))
                path = np.concatenate([path[..., 1:, :], drawn[..., None, :]], axis=-2)
        return found
