"""What a ladder says of each change: the difference on every rung, and its trend over parameters and over steps.

A trend is a slope: how much the difference moves with each doubling, fitted by least squares over the rungs that have
a difference and whose baseline has learned something. Its variance is that of the arms' means, each arm with the spread
of its own runs, since a small model may be several times as noisy as a large one; the degrees of freedom are Welch's
and Satterthwaite's. What another choice of documents would do is added, the same documents on every rung. All slopes
of a ladder hold together with 95 % probability (Bonferroni).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from octavo.studies.arms import arm
from octavo.studies.chance import LEVEL, satterthwaite, student
from octavo.studies.ladder import Ladder, Rung, collected, ladder_of
from octavo.studies.measures import Scale, measure
from octavo.studies.over_training import Trend
from octavo.studies.results import StudyResults
from octavo.studies.spec import BASELINE, Change
from octavo.studies.statistics import Arm, of_documents
from octavo.studies.token_comparison import NOWHERE, Wheres, where_of
from octavo.studies.verdict import Analysis, ChangeVerdict, analyse_study, sorted_out

Axis = Literal["parameters", "steps"]


@dataclass(frozen=True)
class RungVerdict:
    """A rung as far as it is finished."""

    rung: Rung
    folder: str | None
    """Of its study, relative to the ladder's; None before it has begun."""
    parameters: float | None
    """Of the baseline."""
    rates: Mapping[str, float]
    """By variant's name: the learning rate that was best, in multiples of its own."""
    at_edge: tuple[str, ...]
    """Variants whose best rate is the lowest or the highest that was tried; of two rates every one is."""
    analysis: Analysis | None
    to_come: int = 0
    """Planned runs that have not ended yet, of a rung that has begun."""
    where: Wheres = NOWHERE
    """Token by token, as far as that was worked out."""

    def of(self, change: str) -> ChangeVerdict | None:
        """What the rung says of a change."""
        verdicts = self.analysis.verdicts if self.analysis else ()
        return next((verdict for verdict in verdicts if verdict.change == change), None)


@dataclass(frozen=True)
class Slope:
    """How the difference moves with each doubling of the parameters or the steps."""

    axis: Axis
    slope: float
    interval: tuple[float, float]
    ends: tuple[float, float]
    """The fitted difference at the smallest and the largest, at the mean of the other axis."""
    trend: Trend


@dataclass(frozen=True)
class LadderVerdict:
    """What a ladder says of one change."""

    change: str
    hypothesis: str
    flips: bool
    """Whether it is better on one rung and worse on another."""
    slopes: tuple[Slope, ...]
    sentence: str


@dataclass(frozen=True)
class LadderAnalysis:
    """A ladder's verdicts and what they rest on."""

    ladder: Ladder
    scale: Scale
    rungs: tuple[RungVerdict, ...]
    verdicts: tuple[LadderVerdict, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True)
class Step:
    """A rung's part in a trend: where it stands, and the two arms that it compares."""

    parameters: float
    steps: int
    baseline: Arm
    change: Arm


def analyse_ladder(folder: Path) -> LadderAnalysis:
    """The verdicts of a ladder's folder; one that is not finished gives what it has so far."""
    ladder, rungs, found = ladder_of(folder), [], []
    for rung in ladder.rungs:
        results, sweep = collected(folder, "rungs", rung), collected(folder, "sweeps", rung)
        rungs.append(_rung(folder, ladder, rung, results, sweep))
        found.append(results)
    changes = ladder.study.changes
    parts = {change.name: _steps(change, rungs, found) for change in changes}
    count = sum(len(axes_of(steps)) for steps in parts.values())
    noises = [rung.analysis.scale.decimals for rung in rungs if rung.analysis]
    scale = Scale(measure(ladder.study.metric, ladder.study.unit), min(noises, default=3))
    verdicts = tuple(_verdict(change, rungs, slopes(parts[change.name], count), scale) for change in changes)
    return LadderAnalysis(ladder, scale, tuple(rungs), verdicts, tuple(_notes(ladder, rungs)))


def _rung(
    folder: Path, ladder: Ladder, rung: Rung, results: StudyResults | None, sweep: StudyResults | None
) -> RungVerdict:
    names = {variant.slug: variant.name for variant in ladder.study.variants}
    best = ladder.best(sweep) if sweep is not None else {}
    ends = (min(ladder.rates), max(ladder.rates))
    runs = [run.parameters for run in results.of(BASELINE) if run.parameters] if results else []
    return RungVerdict(
        rung,
        results.folder.relative_to(folder).as_posix() if results else None,
        float(np.mean(runs)) if runs else None,
        {names[slug]: rate for slug, rate in best.items()},
        tuple(names[slug] for slug, rate in best.items() if rate in ends) if len(ladder.rates) > 2 else (),
        analyse_study(results) if results else None,
        results.to_come if results else 0,
        where_of(results.folder) if results else NOWHERE,
    )


def _steps(change: Change, rungs: Sequence[RungVerdict], found: Sequence[StudyResults | None]) -> list[Step]:
    """The rungs that a trend of this change rests on."""
    steps = []
    for rung, results in zip(rungs, found, strict=True):
        verdict = rung.of(change.name)
        if results is None or rung.analysis is None or rung.analysis.nothing_learned or not rung.parameters:
            continue
        if verdict is None or verdict.difference is None or verdict.verdict == "unreliable":
            continue
        good, _ = sorted_out(results)
        mine, base = good[change.name], good[BASELINE]
        if min(len(mine), len(base)) > 1:
            arms = [arm(results, runs, steady=True) for runs in (base, mine)]
            steps.append(Step(rung.parameters, rung.rung.steps, *arms))
    return steps


def axes_of(steps: Sequence[Step]) -> list[Axis]:
    """The axes that a trend can be fitted over: those with two levels, if they do not always change together."""
    axes: list[Axis] = [
        axis
        for axis, level in (("parameters", lambda s: s.parameters), ("steps", lambda s: s.steps))
        if len({round(math.log2(level(step)), 6) for step in steps}) > 1
    ]
    return axes if axes and np.linalg.matrix_rank(_design(steps, axes)) > len(axes) else []


def _design(steps: Sequence[Step], axes: Sequence[Axis]) -> np.ndarray:
    """(R, 1 + axes): ones, and the logarithms to base two, centred."""
    logs = [np.log2([float(getattr(step, axis)) for step in steps]) for axis in axes]
    return np.stack([np.ones(len(steps)), *(log - log.mean() for log in logs)], axis=1)


def slopes(steps: Sequence[Step], count: int) -> tuple[Slope, ...]:
    """The slope over each axis, where `count` of them are to hold together."""
    axes = axes_of(steps)
    if not axes:
        return ()
    design = _design(steps, axes)
    weights = np.linalg.pinv(design)  # (1 + axes, R)
    differences = np.array([float(step.change.values.mean() - step.baseline.values.mean()) for step in steps])
    fitted = weights @ differences
    found = []
    for position, axis in enumerate(axes, 1):
        half = _half(steps, weights[position], (1 - LEVEL) / count)
        slope, reach = float(fitted[position]), design[:, position]
        ends = tuple(float(fitted[0] + slope * end) for end in (reach.min(), reach.max()))
        trend: Trend = "no trend seen"
        if abs(slope) > half:
            trend = "shrinks" if abs(ends[1]) < abs(ends[0]) else "grows"
        found.append(Slope(axis, slope, (slope - half, slope + half), (ends[0], ends[1]), trend))
    return tuple(found)


def _half(steps: Sequence[Step], weights: np.ndarray, risk: float) -> float:
    """Half of the interval of a weighted sum of the rungs' differences."""
    parts, freedoms, documents = [], [], np.zeros(1)
    for step, weight in zip(steps, weights, strict=True):
        for one in (step.baseline, step.change):
            parts.append(weight**2 * one.variance / one.count)
            freedoms.append(one.count - 1)
        if step.change.resampled is not None and step.baseline.resampled is not None:
            documents = documents + weight * of_documents(step.change.resampled, step.baseline.resampled)
    seeds = sum(parts)
    return student(satterthwaite(parts, freedoms), risk) * math.sqrt(seeds + float(documents.var()))


def _verdict(
    change: Change, rungs: Sequence[RungVerdict], found: Sequence[Slope], scale: Scale
) -> LadderVerdict:
    seen = [(rung, verdict) for rung in rungs if (verdict := _counts(rung, change.name)) is not None]
    words = {kind: [rung for rung, one in seen if one.verdict == kind] for kind in ("better", "worse")}
    flips = bool(words["better"] and words["worse"])
    parts = (
        [f"flips: better at {_places(words['better'])}, worse at {_places(words['worse'])}"] if flips else []
    )
    parts += [] if flips else [text for text in [_sizes(rungs, seen, scale)] if text]
    parts += [_slope_words(slope, scale) for slope in found]
    early = any(one.analysis is not None and one.analysis.nothing_learned for one in rungs)
    nothing = (
        "nothing has been learned yet: not a test of the claim" if early else "there is not enough to say yet"
    )
    sentence = "; ".join(parts) or nothing
    return LadderVerdict(change.name, change.hypothesis, flips, tuple(found), sentence)


def _counts(rung: RungVerdict, change: str) -> ChangeVerdict | None:
    """The verdict of a rung whose baseline has learned something."""
    if rung.analysis is None or rung.analysis.nothing_learned:
        return None
    verdict = rung.of(change)
    return None if verdict is None or verdict.verdict == "not judged" else verdict


def _places(rungs: Sequence[RungVerdict]) -> str:
    return ", ".join(f"{one.rung.size} after {one.rung.steps:,} steps" for one in rungs)


def _sizes(
    rungs: Sequence[RungVerdict], seen: Sequence[tuple[RungVerdict, ChangeVerdict]], scale: Scale
) -> str:
    """What each size says at its longest."""
    longest: dict[str, tuple[RungVerdict, ChangeVerdict]] = {}
    for rung, verdict in seen:
        longest[rung.rung.size] = (rung, verdict)
    words = []
    for rung, verdict in longest.values():
        by = ""
        if verdict.verdict in ("better", "worse") and verdict.difference is not None:
            by = f" by {scale.text(abs(verdict.difference))}"
        words.append(f"{verdict.verdict}{by} at {rung.rung.size} ({rung.rung.steps:,} steps)")
    return ", ".join(words)


def _slope_words(slope: Slope, scale: Scale) -> str:
    low, high = (scale.text(end, signed=True) for end in slope.interval)
    if slope.trend == "no trend seen":
        return f"over the {slope.axis} no trend is seen ({low} to {high} with each doubling)"
    start, end = (scale.text(end, signed=True) for end in slope.ends)
    return (
        f"over the {slope.axis} the difference {slope.trend}, by {scale.text(abs(slope.slope))} {scale.unit} with each "
        f"doubling (95 % interval of its slope {low} to {high}; fitted {start} at the smallest, {end} at the largest)"
    )


def _notes(ladder: Ladder, rungs: Sequence[RungVerdict]) -> list[str]:
    notes = []
    open_rungs = [one for one in rungs if one.analysis is None or one.folder is None]
    if open_rungs:
        notes.append(f"{len(open_rungs)} of {len(rungs)} rungs have not begun.")
    if halfway := [one for one in rungs if one.to_come]:
        notes.append(f"Runs are still to come at {_places(halfway)}; what is shown is of the others.")
    early = [one for one in rungs if one.analysis is not None and one.analysis.nothing_learned]
    if early:
        notes.append(
            f"Nothing has been learned at {_places(early)}: the baseline is not better than counting trigrams, so that "
            "is left out."
        )
    edges = [one for one in rungs if one.at_edge]
    if edges:
        names = dict.fromkeys(name for one in edges for name in one.at_edge)
        notes.append(
            f"On {len(edges)} of {len(rungs)} rungs the best learning rate is the lowest or the highest that was tried "
            f"({', '.join(names)}); others may be better still."
        )
    notes.append(
        "The interval of each rung holds for that rung; those of the trends hold together. Seconds are no part of it."
    )
    return notes
