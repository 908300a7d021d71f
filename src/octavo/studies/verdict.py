"""From a study's numbers to a verdict in words for each change."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from octavo.studies.arms import arm, failure, finished, stopped, text_key, too_many
from octavo.studies.spec import BASELINE
from octavo.studies.statistics import Contrast, Noise, compare

if TYPE_CHECKING:
    from octavo.studies.results import RunResult, StudyResults
    from octavo.studies.spec import Change

Verdict = Literal["better", "worse", "no difference seen", "failed to train", "not judged"]
UNITS = {
    "bits_per_byte": "bits per byte",
    "val_loss": "nats per token",
    "perplexity": "in perplexity",
    "accuracy": "points of accuracy",
}


@dataclass(frozen=True)
class Scale:
    """How a metric is written: its unit, the direction that is better, decimals that the noise allows."""

    metric: str
    decimals: int = 3

    @property
    def unit(self) -> str:
        """The words after a number."""
        return UNITS[self.metric]

    @property
    def lower_is_better(self) -> bool:
        """Whether a smaller value is the better one."""
        return self.metric != "accuracy"

    def text(self, value: float, *, signed: bool = False) -> str:
        """The number; accuracy in points of a hundred, a true minus sign."""
        value = 100 * value if self.metric == "accuracy" else value
        words = f"{value:+.{self.decimals}f}" if signed else f"{value:.{self.decimals}f}"
        return words.replace("-", "−")


@dataclass(frozen=True)
class ChangeVerdict:
    """What a study says about one change. Numbers are in the metric's unit; None if there is none."""

    change: str
    slug: str
    hypothesis: str
    expect: str | None
    verdict: Verdict
    seeds: int
    """Runs that the numbers rest on."""
    failed: tuple[str, ...]
    """Why runs failed, one sentence each."""
    mean: float | None
    difference: float | None
    """This change's mean minus the baseline's."""
    interval: tuple[float, float] | None
    """Of the difference; all intervals of a study hold together with 95 % probability."""
    smallest: float | None
    """The smallest true difference that this study sees with 95 % probability."""
    p: float | None
    p_adjusted: float | None
    noise: float | None
    held: bool | None
    """Whether the hypothesis held; None without a stated expectation, or where it was left open."""
    statement: str
    """The verdict with its numbers."""
    sentence: str
    """The same with what became of the hypothesis."""


@dataclass(frozen=True)
class Analysis:
    """A study's verdicts and what they rest on."""

    scale: Scale
    mean: float | None
    """The baseline's."""
    seeds: int
    """Finished runs of the baseline."""
    noise: float | None
    """Standard deviation between runs that differ in their seed alone."""
    freedom: int
    verdicts: tuple[ChangeVerdict, ...]
    notes: tuple[str, ...]
    """What a reader should know before believing them."""


def analyse_study(results: StudyResults) -> Analysis:
    """The verdict for each change of a study; a study that is not finished gives what it has so far."""
    study = results.study
    base = results.of(BASELINE)
    # A baseline that learned nothing sets no standard of learning; that is said, and the rest is compared all the same.
    trusted = not too_many([run for run in base if failure(results, run)], base)
    good, failures = {}, {}
    for name in (BASELINE, *(change.name for change in study.changes)):
        failures[name] = [
            (run, why) for run in results.of(name) if (why := failure(results, run, learned=trusted))
        ]
        bad = [run for run, _ in failures[name]]
        good[name] = [run for run in results.of(name) if run not in bad and finished(run)]
    compared = [
        change
        for change in study.changes
        if good[change.name]
        and not too_many([run for run, _ in failures[change.name]], results.of(change.name))
        and not stopped(results.of(change.name))
    ]
    baseline = arm(results, good[BASELINE], steady=True)
    noise: Noise | None = None
    contrasts: list[Contrast] = []
    if good[BASELINE] and not too_many([run for run, _ in failures[BASELINE]], base):
        arms = [
            arm(results, good[change.name], steady=not failures[change.name] and len(good[change.name]) > 1)
            for change in compared
        ]
        if baseline.count > 1 or any(arm.steady for arm in arms):
            noise, contrasts = compare(baseline, arms)
    scale = Scale(study.metric, _decimals(noise.sd if noise else None, study.metric))
    found = dict(zip([change.name for change in compared], contrasts, strict=False))
    verdicts = tuple(
        _verdict(results, change, scale, found.get(change.name), good[change.name], failures[change.name])
        for change in study.changes
    )
    return Analysis(
        scale,
        float(baseline.values.mean()) if baseline.count else None,
        baseline.count,
        noise.sd if noise else None,
        noise.freedom if noise else 0,
        verdicts,
        tuple(_notes(results, scale, noise, [change.name for change in compared], failures[BASELINE])),
    )


def _verdict(
    results: StudyResults,
    change: Change,
    scale: Scale,
    contrast: Contrast | None,
    good: Sequence[RunResult],
    failures: Sequence[tuple[RunResult, str]],
) -> ChangeVerdict:
    """One change's verdict from its contrast, or from why there is none."""
    runs, reasons = results.of(change.name), tuple(f"seed {run.seed}: {why}" for run, why in failures)
    verdict: Verdict = "not judged"
    if too_many([run for run, _ in failures], runs):
        contrast, verdict = None, "failed to train"
        statement = f"failed to train: {len(failures)} of {len(runs)} runs; {reasons[0]}"
    elif stopped(runs):
        contrast, verdict = None, "worse"
        statement = (
            "worse: stopped early as hopeless; " + next(run.reason or "" for run in runs if run.reason)
            if any(run.reason for run in runs)
            else "worse: stopped early as hopeless"
        )
    elif contrast is None:
        statement = "not judged: " + (
            "its runs are not finished"
            if not good
            else "the baseline's runs do not give a level and a noise to compare with"
        )
    else:
        verdict, statement = _seen(contrast, scale, results.study.smallest_interesting)
        if failures:
            are = "is" if len(failures) == 1 else "are"
            statement += (
                f"; {len(failures)} of {len(runs)} runs failed to train and {are} left out ({reasons[0]})"
            )
    held = _held(change.expect, verdict)
    return ChangeVerdict(
        change=change.name,
        slug=change.slug,
        hypothesis=change.hypothesis,
        expect=change.expect,
        verdict=verdict,
        seeds=len(good),
        failed=reasons,
        mean=float(np.mean([run.metric or 0.0 for run in good])) if good else None,
        difference=contrast.difference if contrast else None,
        interval=(contrast.low, contrast.high) if contrast else None,
        smallest=contrast.smallest if contrast else None,
        p=contrast.p if contrast else None,
        p_adjusted=contrast.p_adjusted if contrast else None,
        noise=contrast.noise if contrast else None,
        held=held,
        statement=statement,
        sentence=_with_hypothesis(statement, change.hypothesis, change.expect, verdict, held),
    )


def _seen(contrast: Contrast, scale: Scale, interesting: float | None) -> tuple[Verdict, str]:
    difference, ends = contrast.difference, (contrast.low, contrast.high)
    noise = f"noise between seeds {scale.text(contrast.noise)}"
    if interesting is not None and (
        max(map(abs, ends)) < interesting or (contrast.seen and abs(difference) < interesting)
    ):
        return "no difference seen", (
            f"no difference that matters: {scale.text(difference, signed=True)} {scale.unit} (95 % interval "
            f"{_range(ends, scale, signed=True)}; {noise}), below the {scale.text(interesting)} that would"
        )
    if not contrast.seen:
        return "no difference seen", (
            f"no difference that this study could see: {scale.text(difference, signed=True)} {scale.unit} "
            f"(95 % interval {_range(ends, scale, signed=True)}; {noise}); "
            f"a true one of {scale.text(contrast.smallest)} would have been seen 19 times out of 20"
        )
    verdict: Verdict = "better" if (difference < 0) == scale.lower_is_better else "worse"
    ends = (min(map(abs, ends)), max(map(abs, ends)))
    return verdict, (
        f"{verdict} by {scale.text(abs(difference))} {scale.unit} "
        f"(95 % interval {_range(ends, scale)}; {noise})"
    )


def _range(ends: tuple[float, float], scale: Scale, *, signed: bool = False) -> str:
    return " to ".join(scale.text(end, signed=signed) for end in ends)


def _held(expect: str | None, verdict: Verdict) -> bool | None:
    """A change that fails to train is worse too. A worse change need not fail."""
    fulfilled: dict[str, tuple[Verdict, ...]] = {
        "better": ("better",),
        "worse": ("worse", "failed to train"),
        "same": ("no difference seen",),
        "fails": ("failed to train",),
    }
    return None if expect not in fulfilled or verdict == "not judged" else verdict in fulfilled[expect]


def _with_hypothesis(
    statement: str, hypothesis: str, expect: str | None, verdict: Verdict, held: bool | None
) -> str:
    if not hypothesis:
        return statement
    words = f"the hypothesis “{hypothesis.rstrip('.')}”"
    if held is None:
        outcome = "was left open" if expect == "any" and verdict != "not judged" else "is not decided by it"
    elif verdict == "no difference seen":
        outcome = "held, as far as this study can see" if held else "was not confirmed"
    else:
        outcome = "held" if held else "did not hold"
    return f"{statement}; {words} {outcome}"


def _decimals(noise: float | None, metric: str) -> int:
    """Two digits of the noise."""
    if not noise:
        return 3
    noise = 100 * noise if metric == "accuracy" else noise
    return min(6, max(1, 1 - math.floor(math.log10(noise))))


def _notes(
    results: StudyResults,
    scale: Scale,
    noise: Noise | None,
    compared: Sequence[str],
    failures: Sequence[tuple[RunResult, str]],
) -> list[str]:
    """What the verdicts are based on, and where to be careful."""
    notes = []
    if noise is None:
        notes.append("There is no verdict yet: the baseline and one more seed must have finished.")
    else:
        count = len(noise.pooled)
        changes = f"{count} {'change' if count == 1 else 'changes'}"
        who = ["the baseline", *([changes] if count else [])]
        notes.append(
            f"Noise between seeds: {scale.text(noise.sd)} {scale.unit} (standard deviation), measured over "
            f"{listed(who)} with {noise.freedom} degrees of freedom."
        )
        notes += [
            f"“{compared[position]}” is visibly noisier than the rest and is compared with its own noise."
            for position in noise.noisier
        ]
    if failures:
        run, why = failures[0]
        notes.append(f"Of the baseline, {len(failures)} runs failed to train (seed {run.seed}: {why}).")
    done = [run for run in results.runs if finished(run)]
    nothing = [why for run in done if run.change == BASELINE and (why := failure(results, run))]
    if noise is not None and not failures and nothing:
        notes.append(f"The baseline itself learned nothing ({nothing[0]}); differences from it mean little.")
    if count := results.to_come:
        notes.append(
            f"{count} {'run is' if count == 1 else 'runs are'} still to come; what is shown is of the others."
        )
    base = next((run for run in done if run.change == BASELINE), None)
    lengths = {run.change: sum(run.bytes) / sum(run.tokens_scored) for run in done if sum(run.tokens_scored)}
    text = {run.change: text_key(results, run) for run in done if run.nats}
    if base is not None and base.change in text:
        other = [name for name, key in text.items() if key != text[BASELINE]]
        if other:
            notes.append(
                f"{listed(other)}: evaluated on another text than the baseline, so the difference is also one of texts."
            )
        odd = [name for name, length in lengths.items() if abs(length / lengths[BASELINE] - 1) > 0.01]
        if odd and scale.metric != "bits_per_byte" and not other:
            notes.append(
                f"{listed(odd)}: tokens of another length than the baseline's, so a figure per token does not "
                "compare; bits_per_byte does."
            )
    return notes


def listed(names: Sequence[str]) -> str:
    """Words as a list in a sentence: a, b and c."""
    return ", ".join(names[:-1]) + (" and " if len(names) > 1 else "") + names[-1]
