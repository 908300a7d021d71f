"""A difference on its way: how far apart a change and the baseline were at each evaluation, and where that leads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from octavo.studies.measures import Measure
from octavo.studies.statistics import Arm, Contrast, interval, noise_floor

if TYPE_CHECKING:
    from octavo.studies.results import RunResult

Trend = Literal["grows", "shrinks", "flips", "no trend seen"]


@dataclass(frozen=True)
class OverTraining:
    """Change minus baseline at each evaluation that all runs have, in bits per byte or in the loss, on the tokens that
    are evaluated on the way (`EvaluationCurve.evaluated`), which may be a part of the validation split. The bands are
    those of the verdict's test, for the seeds alone; they hold step by step, not for all steps together.
    """

    steps: tuple[int, ...]
    baseline: tuple[float, ...]
    difference: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]
    trend: Trend
    sentence: str
    """At which step and loss the verdict is, the loss on the whole validation split, and what the difference did
    before."""


def over_training(
    baseline: Sequence[RunResult],
    changes: Sequence[Sequence[RunResult]],
    contrasts: Sequence[Contrast],
    *,
    shown: Measure,
    judge: str = "last",
) -> list[OverTraining | None]:
    """Each change's curve of what is `shown`, given its verdict's contrast, which is of the last weights or the best
    ones (`judge`); None where fewer than two evaluations are shared."""
    everybody = [_Curves.of(runs, shown) for runs in (baseline, *changes)]
    levels = [value for run in baseline if (value := shown.of(run)) is not None]
    reached = f"{np.mean(levels):.3f} {shown.unit}" if levels else None
    pairs = zip(everybody[1:], contrasts, strict=True)
    return [_one(everybody, change, like, shown.unit, judge, reached) for change, like in pairs]


class _Curves(NamedTuple):
    """The evaluations of a variant's runs: seeds (n,), values (n,) by step, and the steps (n,) that were judged."""

    seeds: tuple[int, ...]
    values: dict[int, np.ndarray]
    judged: tuple[int, ...]

    @classmethod
    def of(cls, runs: Sequence[RunResult], shown: Measure) -> _Curves:
        by_step = [dict(zip(run.curve.steps, shown.curve(run), strict=True)) for run in runs]
        shared = set.intersection(*map(set, by_step)) - {0} if by_step else set()
        values = {step: np.array([one[step] for one in by_step]) for step in sorted(shared)}
        judged = tuple(run.step for run in runs if run.step is not None)
        return cls(tuple(run.seed for run in runs), values, judged)

    def arm(self, step: int, since: int | None = None) -> Arm:
        """At a step, or what it has gained since another."""
        return Arm(self.values[step] - (0.0 if since is None else self.values[since]), seeds=self.seeds)


def _one(
    everybody: Sequence[_Curves], change: _Curves, like: Contrast, unit: str, judge: str, reached: str | None
) -> OverTraining | None:
    baseline = everybody[0]
    steps = [step for step in change.values if step in baseline.values]
    if len(steps) < 2:
        return None

    def band(step: int, since: int | None = None) -> tuple[float, float, float]:
        # The noise is that of all arms that were evaluated there.
        there = [one for one in everybody if {step, since or step} <= one.values.keys()]
        first, *others = (one.arm(step, since) for one in there)
        return interval(first, change.arm(step, since), noise_floor(first, others), like)

    bands = [band(step) for step in steps]
    half = min(steps[:-1], key=lambda step: abs(step - steps[-1] / 2))
    level = [float(baseline.values[step].mean()) for step in steps]
    trend, words = _trend(steps, bands, half, band(steps[-1], half), unit)
    at = _judged(baseline, change, judge, reached)
    difference, low, high = (tuple(column) for column in zip(*bands, strict=True))
    return OverTraining(tuple(steps), tuple(level), difference, low, high, trend, f"{at}; {words}")


def _judged(baseline: _Curves, change: _Curves, judge: str, reached: str | None) -> str:
    """At which steps the verdict is, and what the baseline has there on the whole validation split."""
    if judge == "best":
        at, who = f"each run's best step ({_steps(baseline.judged + change.judged)})", "the baseline"
    elif _steps(change.judged) == _steps(baseline.judged):
        at, who = f"step {_steps(change.judged)}", "the baseline"
    else:
        at, who = f"step {_steps(change.judged)}, and the baseline at step {_steps(baseline.judged)}", "it"
    return f"judged at {at}" + (f", where {who} has {reached}" if reached else "")


def _steps(judged: Sequence[int]) -> str:
    first, last = min(judged), max(judged)
    return f"{first:,}" if first == last else f"{first:,} to {last:,}"


def _trend(
    steps: Sequence[int],
    bands: Sequence[tuple[float, float, float]],
    half: int,
    since: tuple[float, float, float],
    unit: str,
) -> tuple[Trend, str]:
    end, low, high = bands[-1]
    for step, (early, below, above) in zip(steps, bands, strict=True):
        if (below > 0 and high < 0) or (above < 0 and low > 0):
            return (
                "flips",
                f"the difference flips: {_signed(early)} {unit} at step {step:,}, {_signed(end)} now",
            )
    grown, below, above = since
    if below <= 0 <= above:
        return "no trend seen", f"since step {half:,} no trend of the difference is seen"
    trend: Trend = "grows" if grown * end > 0 else "shrinks"
    return trend, f"since step {half:,} the difference {trend}, by {abs(grown):.3f} {unit}"


def _signed(value: float) -> str:
    return f"{value:+.3f}".replace("-", "−")
