"""A study as tables: one row for each variant, and Markdown that also reads well in a terminal."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from octavo.studies.arms import controls, other_measure
from octavo.studies.measures import usual
from octavo.studies.provenance import code_words
from octavo.studies.spec import BASELINE
from octavo.studies.verdict import Analysis, ChangeVerdict, analyse_study
from octavo.util.records import read_record
from octavo.util.terminal import exact_duration

if TYPE_CHECKING:
    from octavo.studies.results import RunResult, StudyResults
    from octavo.training.objective import Unit

NONE = "–"


@dataclass(frozen=True)
class Row:
    """One variant: means over its finished runs; None if there is no figure."""

    name: str
    slug: str
    runs: list[RunResult]
    verdict: ChangeVerdict | None
    """None for the baseline."""
    metric: float | None
    reached: float | None
    """As `measures.usual` has it."""
    val_loss: float | None
    initial_loss: float | None
    improvement: float | None
    """Share of its initial loss that a model lost: report E's measure; 1 = a loss of zero."""
    seconds: float | None
    flops: float | None
    parameters: float | None
    tokens: float | None
    steps: float | None

    @property
    def kind(self) -> str:
        """The verdict as a word for style sheets and colours."""
        words = {
            "no difference seen": "same",
            "no difference that matters": "same",
            "failed to train": "failed",
            "unreliable": "failed",
            "too few seeds for this noise": "open",
            "not judged": "open",
        }
        return "baseline" if self.verdict is None else words.get(self.verdict.verdict, self.verdict.verdict)


def variant_rows(results: StudyResults, analysis: Analysis) -> list[Row]:
    """The baseline, then the changes."""
    verdicts = {verdict.change: verdict for verdict in analysis.verdicts}
    names = {BASELINE: BASELINE} | {change.name: change.slug for change in results.study.changes}
    unit = results.study.unit
    return [_row(name, slug, results.of(name), verdicts.get(name), unit) for name, slug in names.items()]


def _row(name: str, slug: str, runs: list[RunResult], verdict: ChangeVerdict | None, unit: Unit) -> Row:
    improvements = [
        1 - run.val_loss / run.initial_loss
        for run in runs
        if run.val_loss is not None and run.initial_loss and not unit.density
    ]
    return Row(
        name=name,
        slug=slug,
        runs=runs,
        verdict=verdict,
        metric=_mean(run.metric for run in runs),
        reached=_mean(map(usual(unit).of, runs)),
        val_loss=_mean(run.val_loss for run in runs),
        initial_loss=_mean(run.initial_loss for run in runs),
        improvement=_mean(improvements),
        seconds=_mean(run.seconds for run in runs),
        flops=_mean(run.flops for run in runs),
        parameters=_mean(run.parameters for run in runs),
        tokens=_mean(run.tokens for run in runs),
        steps=_mean(run.step for run in runs),
    )


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None and math.isfinite(value)]
    return float(np.mean(known)) if known else None


def verdict_table(results: StudyResults, analysis: Analysis) -> list[list[str]]:
    """Head and rows: the baseline, then each change with its verdict and the numbers behind it."""
    scale = analysis.scale
    head = [
        "change",
        "verdict",
        "runs",
        scale.unit.removeprefix("in "),
        "difference",
        "seed by seed",
        "95 % interval",
        "p",
        "could see",
        "hypothesis",
    ]
    level = NONE if analysis.mean is None else scale.text(analysis.mean)
    table = [head, [BASELINE, "", str(analysis.seeds), level, *[""] * 6]]
    for verdict in analysis.verdicts:
        interval, begun = verdict.interval, len(results.of(verdict.change))
        table.append(
            [
                verdict.change,
                verdict.verdict,
                str(begun) if verdict.seeds == begun else f"{verdict.seeds} of {begun}",
                NONE if verdict.mean is None else scale.text(verdict.mean),
                NONE if verdict.difference is None else scale.text(verdict.difference, signed=True),
                NONE if verdict.pairs is None else scale.text(verdict.pairs.difference, signed=True),
                NONE if interval is None else " to ".join(scale.text(end, signed=True) for end in interval),
                p_text(verdict.p_adjusted),
                NONE if verdict.smallest is None else scale.text(verdict.smallest),
                held_text(verdict),
            ]
        )
    return table


def control_table(results: StudyResults) -> list[list[str]]:
    """Head and rows: what counting and packing reach on the same text, next to the baseline; no rows where the runs do
    not say.
    """
    study = results.study
    shown, other = usual(study.unit), other_measure(study)
    rows = [(one.name, one.reached, one.other) for one in controls(results)]
    level, beside = (
        None if each is None else _mean(map(each.of, results.of(BASELINE))) for each in (shown, other)
    )
    if not rows or level is None:
        return []
    ranked = sorted([*rows, (BASELINE, level, beside)], key=lambda row: -row[1])
    head = ["on the same text" if study.unit.has_bits_per_byte else "on the same data", shown.unit]
    table = [[*head, "" if other is None else other.unit]]
    table += [[name, *(NONE if value is None else f"{value:.3f}" for value in row)] for name, *row in ranked]
    return table if other is not None else [row[:2] for row in table]


def cost_table(rows: Sequence[Row], unit: Unit) -> list[list[str]]:
    """Head and rows: what each variant took."""
    head = ["variant", "parameters", "steps", "tokens", "FLOPs", "training time", usual(unit).unit]
    return [
        head,
        *(
            [
                row.name,
                count_text(row.parameters),
                count_text(row.steps),
                count_text(row.tokens),
                NONE if row.flops is None else f"{row.flops:.2e}",
                NONE if row.seconds is None else exact_duration(row.seconds),
                NONE if row.reached is None else f"{row.reached:.3f}",
            ]
            for row in rows
        ),
    ]


def improvement_table(rows: Sequence[Row], by_improvement: Analysis | None, unit: Unit) -> list[list[str]]:
    """Head and rows: relative improvement, the same runs' verdict by it and, of a text, bits per byte."""
    verdicts = {verdict.change: verdict for verdict in by_improvement.verdicts} if by_improvement else {}
    head = ["variant", "loss before", "loss after", "relative improvement", "verdict by it", "bits per byte"]
    columns = len(head) if unit.has_bits_per_byte else len(head) - 1
    return [
        head[:columns],
        *(
            [
                row.name,
                NONE if row.initial_loss is None else f"{row.initial_loss:.3f}",
                NONE if row.val_loss is None else f"{row.val_loss:.3f}",
                NONE if row.improvement is None else f"{row.improvement:.1%}",
                _by_points(verdicts.get(row.name), by_improvement),
                NONE if row.reached is None else f"{row.reached:.3f}",
            ][:columns]
            for row in rows
        ),
    ]


def _by_points(verdict: ChangeVerdict | None, analysis: Analysis | None) -> str:
    """A verdict and its interval, in a cell."""
    if verdict is None or analysis is None:
        return ""
    if verdict.interval is None:
        return verdict.verdict
    low, high = (analysis.scale.text(end, signed=True) for end in verdict.interval)
    return f"{verdict.verdict} ({low} to {high} points)"


def p_text(p: float | None) -> str:
    """A p-value as people write it."""
    return NONE if p is None else "< 0.001" if p < 0.001 else f"{p:.3f}"


def count_text(count: float | None) -> str:
    """A count with thousands apart."""
    return NONE if count is None else f"{round(count):,}"


def held_text(verdict: ChangeVerdict) -> str:
    """What became of the hypothesis, in two words."""
    if verdict.held is None:
        return "left open" if verdict.expect == "any" else "not decided" if verdict.expect else NONE
    if verdict.held:
        return "held"
    return "not confirmed" if verdict.verdict == "no difference seen" else "did not hold"


_TAG = re.compile(r"<(?=[A-Za-z/!?])")


def markdown(table: Sequence[Sequence[str]]) -> str:
    """A Markdown table whose columns stand under each other; the first to the left, the others by their content."""
    cells = [[_TAG.sub("&lt;", cell.replace("|", "\\|").replace("\n", " ")) for cell in row] for row in table]
    widths = [max(3, *(len(row[column]) for row in cells)) for column in range(len(cells[0]))]
    right = [
        column > 0 and all(not row[column][:1].isalpha() for row in cells[1:])
        for column in range(len(widths))
    ]

    def line(row: Sequence[str]) -> str:
        padded = (
            cell.rjust(width) if r else cell.ljust(width)
            for cell, width, r in zip(row, widths, right, strict=True)
        )
        return f"| {' | '.join(padded)} |"

    rule = [f"{'-' * (width - 1)}{':' if r else '-'}" for width, r in zip(widths, right, strict=True)]
    return "\n".join([line(cells[0]), f"| {' | '.join(rule)} |", *map(line, cells[1:])])


def outcome(analysis: Analysis) -> str:
    """How many hypotheses held, in a sentence; empty if none was stated for a machine."""
    decided = [verdict.held for verdict in analysis.verdicts if verdict.held is not None]
    if not decided:
        return ""
    return f"{sum(decided)} of {len(decided)} {'hypothesis' if len(decided) == 1 else 'hypotheses'} held."


def summary(folders: Iterable[Path]) -> str:
    """One Markdown section for each study folder: what the report says, the verdicts, where they differ from it.

    Raises InputError for a folder that holds no study.
    """
    from octavo.studies.results import collect

    return "\n".join(_section(collect(Path(folder))) for folder in folders)


def of_code(results: StudyResults) -> str:
    """Of which code, precision, processors and torch the figures are."""
    return f"*{code_words(results.study.sources)}; {'; '.join(computed_by([results]))}.*"


def computed_by(studies: Iterable[StudyResults]) -> list[str]:
    """How and on which processors all runs were computed, and by which torch; more than one where they differ."""
    paths = [results.folder / run.folder / "manifest.json" for results in studies for run in results.runs]
    manifests = [read_record(path, of="the run") for path in paths if path.is_file()] or [{}]
    runtimes = [manifest.get("runtime", {}) for manifest in manifests]
    facts = [
        [
            f"{one.get('device', '?')}, {one.get('precision', '?')}, threads: {one.get('threads', '?')}"
            for one in runtimes
        ],
        [str(manifest.get("machine", {}).get("processor", "?")) for manifest in manifests],
        [f"torch {manifest.get('versions', {}).get('torch', '?')}" for manifest in manifests],
    ]
    return [" and ".join(dict.fromkeys(each)) for each in facts]


def _section(results: StudyResults) -> str:
    analysis, study = analyse_study(results), results.study
    gate = analysis.nothing_learned
    parts = [f"## {study.name}", f"**{gate}**" if gate else "", study.description]
    if study.finding:
        parts.append(f"**What the report says:** {study.finding}")
    parts.append(markdown(verdict_table(results, analysis)))
    parts.append(markdown(table) if (table := control_table(results)) else "")
    parts.append("\n".join(f"- **{verdict.change}:** {verdict.sentence}." for verdict in analysis.verdicts))
    different = [verdict for verdict in analysis.verdicts if verdict.held is False]
    if different:
        names = ", ".join(f"“{verdict.change}” ({held_text(verdict)})" for verdict in different)
        parts.append(f"**What differs from what was expected:** {names}.")
    elif outcome(analysis):
        parts.append("**What differs from what was expected:** nothing.")
    parts.append(" ".join(analysis.notes))
    parts.append(of_code(results))
    return "\n\n".join(part for part in parts if part) + "\n"
