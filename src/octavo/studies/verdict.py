"""From a study's numbers to a verdict in words for each change."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from octavo.studies import interim_looks
from octavo.studies.arms import (
    arm,
    failure,
    finished,
    learned_nothing,
    nothing_learned,
    stopped,
    text_key,
    too_many,
)
from octavo.studies.expectation import Verdict, held
from octavo.studies.measures import Scale, measure, on_the_way
from octavo.studies.over_training import OverTraining, over_training
from octavo.studies.spec import BASELINE
from octavo.studies.statistics import FEWEST_PAIRS, Contrast, Noise, Pairs, compare

if TYPE_CHECKING:
    from octavo.studies.results import RunResult, StudyResults
    from octavo.studies.spec import Change, Study


@dataclass(frozen=True)
class ChangeVerdict:
    """What a study says about one change. Numbers are in the metric's unit; None if there is none."""

    change: str
    slug: str
    hypothesis: str
    expect: str | Mapping[Any, tuple[float, float]] | None
    verdict: Verdict
    seeds: int
    """Runs that the numbers rest on."""
    failed: tuple[str, ...]
    """Why runs failed, one sentence each."""
    learned_nothing: tuple[str, ...]
    """Why runs that count have learned nothing, one sentence each; none where the baseline's have not either."""
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
    pairs: Pairs | None
    """The difference seed by seed, where seeds are shared."""
    curve: OverTraining | None
    """The difference over training."""
    statement: str
    """The verdict with its numbers."""
    sentence: str
    """The same with what became of the hypothesis."""


@dataclass(frozen=True)
class Analysis:
    """A study's verdicts and what they rest on."""

    nothing_learned: str | None
    """Why the study is no test of any claim yet; None if its baseline is better than counting trigrams or, of a loss
    that is none of text, than the best simple predictor."""
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


FAILED: Literal["failed to train"] = "failed to train"
Failures = Sequence[tuple["RunResult", str]]
"""Runs and why they are lost."""


def sorted_out(
    results: StudyResults,
) -> tuple[dict[str, list[RunResult]], dict[str, list[tuple[RunResult, str]]]]:
    """By variant: the runs that count, and those that failed to train with the reason."""
    good, failures = {}, {}
    for name in (BASELINE, *(change.name for change in results.study.changes)):
        failures[name] = [(run, why) for run in results.of(name) if (why := failure(results, run))]
        bad = [run for run, _ in failures[name]]
        good[name] = [run for run in results.of(name) if run not in bad and finished(run)]
    return good, failures


def _lost(results: StudyResults, name: str, failures: Failures) -> Failures:
    """The runs of a variant that failed or were stopped as hopeless, with the reason: worse than any that ended."""
    hopeless = [run for run in results.of(name) if run.status == "stopped"]
    return [*failures, *((run, run.reason or "stopped early as hopeless") for run in hopeless)]


def _unlearned(results: StudyResults, good: Mapping[str, Sequence[RunResult]]) -> dict[str, Failures]:
    """By variant: the runs that count and have learned nothing, with the reason. A baseline whose runs are such sets no
    standard of learning, so nothing is said of the changes."""
    failures: dict[str, Failures] = {
        name: [(run, why) for run in runs if (why := learned_nothing(results, run))]
        for name, runs in good.items()
    }
    base = failures[BASELINE]
    return {BASELINE: base} if too_many([run for run, _ in base], good[BASELINE]) else failures


def analyse_study(results: StudyResults) -> Analysis:
    """The verdict for each change of a study; a study that is not finished gives what it has so far."""
    study, base = results.study, results.of(BASELINE)
    good, failures = sorted_out(results)
    unlearned = _unlearned(results, good)
    compared = [
        change
        for change in study.changes
        if good[change.name]
        and not too_many(
            [run for run, _ in _lost(results, change.name, failures[change.name])], results.of(change.name)
        )
    ]
    baseline = arm(results, good[BASELINE], steady=True)
    noise: Noise | None = None
    contrasts: list[Contrast] = []
    curves: list[OverTraining | None] = []
    if good[BASELINE] and not too_many([run for run, _ in failures[BASELINE]], base):
        arms = [
            arm(
                results,
                good[change.name],
                steady=len(good[change.name]) > 1
                and not _lost(results, change.name, failures[change.name])
                and not unlearned.get(change.name),
            )
            for change in compared
        ]
        if baseline.count > 1 or any(arm.steady for arm in arms):
            noise, contrasts = compare(baseline, arms)
            runs = [good[change.name] for change in compared]
            shown = on_the_way(study.metric, study.unit)
            curves = over_training(good[BASELINE], runs, contrasts, shown=shown, judge=study.judge)
    scale = Scale(measure(study.metric, study.unit), _decimals(noise.sd if noise else None, study.metric))
    names = [change.name for change in compared]
    by_name = dict(zip(names, zip(contrasts, curves, strict=True), strict=False))
    gate = nothing_learned(results, good[BASELINE])
    verdicts = tuple(
        _verdict(
            results,
            change,
            scale,
            by_name.get(change.name),
            good,
            failures[change.name],
            failures[BASELINE],
            unlearned.get(change.name, ()),
            gate,
        )
        for change in study.changes
    )
    return Analysis(
        gate,
        scale,
        float(baseline.values.mean()) if baseline.count else None,
        baseline.count,
        noise.sd if noise else None,
        noise.freedom if noise else 0,
        verdicts,
        tuple(_notes(results, scale, noise, names, failures[BASELINE], unlearned[BASELINE])),
    )


def _verdict(
    results: StudyResults,
    change: Change,
    scale: Scale,
    found: tuple[Contrast, OverTraining | None] | None,
    good: Mapping[str, Sequence[RunResult]],
    failures: Failures,
    baseline_failures: Failures,
    unlearned: Failures,
    gate: str | None,
) -> ChangeVerdict:
    """One change's verdict from its contrast, or from why there is none."""
    runs, finished_runs = results.of(change.name), good[change.name]
    contrast, curve = found or (None, None)
    reasons = tuple(f"seed {run.seed}: {why}" for run, why in failures)
    lost = _lost(results, change.name, failures)
    verdict: Verdict = "not judged"
    if mostly := _mostly_lost(runs, len(failures), lost):
        contrast, (verdict, statement) = None, mostly
    elif contrast is None:
        statement = "not judged: " + (
            "its runs are not finished"
            if not finished_runs
            else "the baseline's runs do not give a level and a noise to compare with"
        )
    else:
        verdict, statement = _seen(contrast, scale, results.study.smallest_interesting)
        if lost:
            run, why = lost[0]
            shares = (len(lost), len(runs)), (len(baseline_failures), len(results.of(BASELINE)))
            what = FAILED if len(lost) == len(failures) else f"{FAILED} or were stopped as hopeless"
            verdict, statement = _with_lost(verdict, statement, *shares, f"seed {run.seed}: {why}", what)
        if unlearned:
            run, why = unlearned[0]
            share = f"{len(unlearned)} of {len(finished_runs)} runs learned nothing"
            statement = f"{statement}; {share} (seed {run.seed}: {why})"
    curve = None if contrast is None else curve
    nothing = too_many([run for run, _ in unlearned], finished_runs)
    outcome = None if gate else _held(results, change, verdict, contrast, nothing)
    return ChangeVerdict(
        change=change.name,
        slug=change.slug,
        hypothesis=change.hypothesis,
        expect=change.expect,
        verdict=verdict,
        seeds=len(finished_runs),
        failed=reasons,
        learned_nothing=tuple(f"seed {run.seed}: {why}" for run, why in unlearned),
        mean=float(np.mean([run.metric or 0.0 for run in finished_runs])) if finished_runs else None,
        difference=contrast.difference if contrast else None,
        interval=(contrast.low, contrast.high) if contrast else None,
        smallest=contrast.smallest if contrast else None,
        p=contrast.p if contrast else None,
        p_adjusted=contrast.p_adjusted if contrast else None,
        noise=contrast.noise if contrast else None,
        held=outcome,
        pairs=contrast.pairs if contrast else None,
        curve=curve,
        statement=statement,
        sentence=_with_hypothesis(statement, curve, change, verdict, outcome),
    )


def _mostly_lost(runs: Sequence[RunResult], failed: int, lost: Failures) -> tuple[Verdict, str] | None:
    """The verdict where more than half of the runs were lost, the `failed` ones first; else None."""
    if stopped(runs):
        why = next((f"; {run.reason}" for run in runs if run.reason), "")
        return "worse", f"worse: stopped early as hopeless{why}"
    if not too_many([run for run, _ in lost], runs):
        return None
    run, why = lost[0]
    hopeless = f", and {len(lost) - failed} stopped as hopeless" if len(lost) > failed else ""
    return FAILED, f"{FAILED}: {failed} of {len(runs)} runs{hopeless}; seed {run.seed}: {why}"


def _held(
    results: StudyResults, change: Change, verdict: Verdict, contrast: Contrast | None, nothing: bool
) -> bool | None:
    return held(
        change.expect,
        verdict,
        contrast,
        learned_nothing=nothing,
        metric=results.study.metric,
        matters=results.study.smallest_interesting,
        token_bytes=[
            sum(run.bytes) / sum(run.tokens_scored)
            for run in results.runs
            if sum(run.tokens_scored) and results.study.unit.has_bits_per_byte
        ],
    )


def _with_lost(
    verdict: Verdict, statement: str, own: tuple[int, int], baseline: tuple[int, int], reason: str, what: str
) -> tuple[Verdict, str]:
    """Runs that were lost are worse than any that ended, so what lost a larger share than the baseline is not better
    and not the same, whatever the others reached.
    """
    shares = f"{own[0]} of {own[1]} runs {what} ({reason}), of the baseline {baseline[0]} of {baseline[1]}"
    left_out = "what failed is left out" if what == FAILED else "these are left out"
    if own[0] * baseline[1] <= baseline[0] * own[1] or verdict == "worse":
        return verdict, f"{statement}; {shares}, and {left_out}"
    return "unreliable", f"unreliable: {shares}; the runs that ended, taken alone: {statement}"


def _seen(contrast: Contrast, scale: Scale, interesting: float | None) -> tuple[Verdict, str]:
    difference, ends = contrast.difference, (contrast.low, contrast.high)
    noise, beside = f"noise between seeds {scale.text(contrast.noise)}", ""
    if contrast.pairs is not None and contrast.pairs.decide:
        noise = f"seed by seed, with a correlation of {contrast.pairs.correlation:.2f}"
    elif (
        contrast.pairs is not None
        and contrast.pairs.count >= FEWEST_PAIRS
        and contrast.pairs.correlation > 0.5
    ):
        paired = scale.text(contrast.pairs.difference, signed=True)
        beside = f"; seed by seed {paired}, with a correlation of {contrast.pairs.correlation:.2f}"
    signed = f"{scale.text(difference, signed=True)} {scale.unit}"
    figures = f"{signed} (95 % interval {_range(ends, scale, signed=True)}; {noise})"
    if interesting is not None and max(map(abs, ends)) < interesting:
        return "no difference that matters", (
            f"no difference that matters: {figures}, all of it within the {scale.text(interesting)} that would{beside}"
        )
    if contrast.too_few:
        return "too few seeds for this noise", (
            f"too few seeds for this noise: {figures}; if all variants were known to be equally noisy, this would be a "
            f"difference, but so few runs cannot tell{beside}"
        )
    if not contrast.seen:
        matter = (
            ""
            if interesting is None
            else f", and one that matters ({scale.text(interesting)}) is not ruled out"
        )
        return "no difference seen", (
            f"no difference that this study could see: {figures}; "
            f"a true one of {scale.text(contrast.smallest)} would have been seen 19 times out of 20{matter}{beside}"
        )
    verdict: Verdict = "better" if (difference < 0) == scale.lower_is_better else "worse"
    ends = (min(map(abs, ends)), max(map(abs, ends)))
    matter = ""
    if interesting is not None and ends[0] < interesting:
        matter = f"; it may be less than the {scale.text(interesting)} that matter"
    return verdict, (
        f"{verdict} by {scale.text(abs(difference))} {scale.unit} "
        f"(95 % interval {_range(ends, scale)}; {noise}){matter}{beside}"
    )


def _range(ends: tuple[float, float], scale: Scale, *, signed: bool = False) -> str:
    return " to ".join(scale.text(end, signed=signed) for end in ends)


def _with_hypothesis(
    statement: str, curve: OverTraining | None, change: Change, verdict: Verdict, outcome: bool | None
) -> str:
    statement += f"; {curve.sentence}" if curve is not None else ""
    if not change.hypothesis:
        return statement
    words = f"the hypothesis “{change.hypothesis.rstrip('.')}”"
    if outcome is None:
        became = (
            "was left open" if change.expect == "any" and verdict != "not judged" else "is not decided by it"
        )
    elif verdict == "no difference seen" and not outcome:
        became = "was not confirmed"
    else:
        became = "held" if outcome else "did not hold"
    return f"{statement}; {words} {became}"


def _decimals(noise: float | None, metric: str) -> int:
    """Two digits of the noise."""
    if not noise:
        return 3
    noise = measure(metric).factor * noise
    return min(6, max(1, 1 - math.floor(math.log10(noise))))


def _notes(
    results: StudyResults,
    scale: Scale,
    noise: Noise | None,
    compared: Sequence[str],
    failures: Failures,
    unlearned: Failures,
) -> list[str]:
    """What the verdicts are based on, and where to be careful."""
    notes = interim_looks.notes(interim_looks.looks_at(results.folder), results.study.sources)
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
            f"“{compared[position]}” is visibly noisier than the rest, and does not count for the noise between seeds."
            for position in noise.noisier
        ]
    if failures:
        run, why = failures[0]
        notes.append(f"Of the baseline, {len(failures)} runs failed to train (seed {run.seed}: {why}).")
    done = [run for run in results.runs if finished(run)]
    if noise is not None and not failures and unlearned:
        notes.append(
            f"The baseline itself learned nothing ({unlearned[0][1]}); differences from it mean little."
        )
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
                f"{listed(odd)}: tokens of another length than the baseline's, so a figure per token does not compare"
                f"{'; bits_per_byte does' if results.study.unit.has_bits_per_byte else ''}."
            )
    return notes


def listed(names: Sequence[str]) -> str:
    """Words as a list in a sentence: a, b and c."""
    return ", ".join(names[:-1]) + (" and " if len(names) > 1 else "") + names[-1]


# A study's question, its answer in one sentence, and one line on each statistic.

CORRECTION = {
    True: "{count} changes have {count} chances to look good by luck; p-values and intervals allow for it",
    False: "none: there is a single comparison",
}
MOST_NAMED = 6
"""Changes with the same verdict that the answer names; it counts the rest."""


def question(study: Study) -> tuple[str, str]:
    """The study's question, and what else its description says.

    The first sentence of the description if it is a question; otherwise one made of the name and the changes.
    """
    first, *rest = re.split(r"(?<=[.?!])\s+", study.description.strip(), maxsplit=1)
    if first.endswith("?"):
        return first, " ".join(rest)
    name = study.name.strip()
    if name.endswith("?"):
        return name, study.description
    if len(study.changes) == 1:
        made = f"{name}: is “{study.changes[0].name}” better or worse than the baseline?"
    else:
        made = f"{name}: which of {len(study.changes)} changes are better or worse than the baseline?"
    return made[:1].upper() + made[1:], study.description


def answer(results: StudyResults, analysis: Analysis) -> str:
    """All verdicts in one sentence, which says so if the data are too few; before it, if the baseline has learned
    nothing, that.
    """
    verdicts = _verdicts(results, analysis)
    return f"{analysis.nothing_learned} {verdicts}" if analysis.nothing_learned else verdicts


def _verdicts(results: StudyResults, analysis: Analysis) -> str:
    groups: dict[str, list[ChangeVerdict]] = {}
    for verdict in analysis.verdicts:
        kind = str(verdict.verdict)
        kind = "no difference that this study could see" if kind == "no difference seen" else kind
        groups.setdefault(kind, []).append(verdict)
    if not groups.keys() - {"not judged"}:
        return "There is not enough to say yet."
    parts = [_ranked(groups[kind], analysis.scale) for kind in ("better", "worse") if kind in groups]
    for kind in sorted(kind for kind in groups if kind.startswith("no ")):
        parts.append(f"{_named(groups[kind])} {'makes' if len(groups[kind]) == 1 else 'make'} {kind}")
    if "too few seeds for this noise" in groups:
        parts.append(
            f"of {_named(groups['too few seeds for this noise'])} there are too few seeds for this noise"
        )
    if "unreliable" in groups:
        one = len(groups["unreliable"]) == 1
        parts.append(f"{_named(groups['unreliable'])} {'trains' if one else 'train'} unreliably")
    if "failed to train" in groups:
        parts.append(f"{_named(groups['failed to train'])} failed to train")
    if nothing := [one for one in analysis.verdicts if 2 * len(one.learned_nothing) > one.seeds]:
        parts.append(f"{_named(nothing)} learned nothing")
    if "not judged" in groups:
        parts.append(f"of {_named(groups['not judged'])} there is not enough to say yet")
    sentence = f"{'so far, ' if results.to_come else ''}{'; '.join(parts)}."
    return sentence[:1].upper() + sentence[1:]


def _ranked(verdicts: list[ChangeVerdict], scale: Scale) -> str:
    """Changes that are better, or worse: by how much, the largest difference first."""
    kind = verdicts[0].verdict
    sized = [(abs(verdict.difference), verdict) for verdict in verdicts if verdict.difference is not None]
    words = [
        f"“{verdict.change}” {'by' if position else f'is {kind} by'} {scale.text(size)}"
        for position, (size, verdict) in enumerate(sorted(sized, key=lambda pair: -pair[0])[:MOST_NAMED])
    ]
    parts = [f"{listed(words)} {scale.unit}"] if words else []
    if stopped := [verdict for verdict in verdicts if verdict.difference is None]:
        parts.append(f"{_named(stopped)} {'is' if len(stopped) == 1 else 'are'} {kind}, stopped early")
    if len(sized) > MOST_NAMED:
        parts.append(f"{len(sized) - MOST_NAMED} more are {kind}")
    return "; ".join(parts)


def _named(verdicts: list[ChangeVerdict]) -> str:
    names = [f"“{verdict.change}”" for verdict in verdicts]
    return listed(
        names if len(names) <= MOST_NAMED else [*names[:MOST_NAMED], f"{len(names) - MOST_NAMED} more"]
    )


def terms(analysis: Analysis) -> list[tuple[str, str]]:
    """Each statistic of the verdicts and one line on what it is; none before there are results."""
    words = (
        [(analysis.scale.unit.removeprefix("in "), analysis.scale.measure.meaning)]
        if analysis.mean is not None
        else []
    )
    if analysis.noise is not None:
        words.append(
            (
                "noise between seeds",
                "the noise floor, a standard deviation of runs that differ in their seed alone",
            )
        )
    if any(verdict.p is not None for verdict in analysis.verdicts):
        count = sum(verdict.p is not None for verdict in analysis.verdicts)
        words += [
            ("difference", "the mean of a change's runs less the mean of the baseline's"),
            ("seed by seed", "the same difference over the seeds that both have"),
            (
                "95 % interval",
                "where the true difference may well lie; a difference counts where this leaves out zero",
            ),
            ("p", "the chance of a difference at least this large if the change did nothing"),
            ("correction", CORRECTION[count > 1].format(count=count)),
            ("could see", "the smallest true difference that this study would find 19 times out of 20"),
        ]
    return words
