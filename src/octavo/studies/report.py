"""The report of a study: one page without scripts or requests, the same in Markdown, and the plots as files."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from octavo import report as run_report
from octavo.config.parts import command
from octavo.report.data import Headline
from octavo.report.page import NARROW, WIDE, flat
from octavo.studies import plots
from octavo.studies.measures import on_the_way, usual
from octavo.studies.results import by_improvement
from octavo.studies.spec import BASELINE
from octavo.studies.table import (
    NONE,
    Row,
    control_table,
    cost_table,
    held_text,
    improvement_table,
    markdown,
    outcome,
    variant_rows,
    verdict_table,
)
from octavo.studies.verdict import Analysis, analyse_study, answer, question, terms
from octavo.util.files import replace_text
from octavo.util.html import templates
from octavo.util.records import read_record
from octavo.util.terminal import exact_duration, fenced, in_markdown

if TYPE_CHECKING:
    from octavo.studies.results import StudyResults
    from octavo.studies.spec import Study

LONGEST_SAMPLE = 2000
TOKEN_LENGTH = 0.01
"""Tokenizers count as different where a token's mean length in bytes differs by more than this share."""


def write_study_report(folder: Path) -> Path:
    """Write `report/index.html`, `report/report.md` and the plots into a study folder; returns the page's path.

    Works on the folder alone, at any time; runs that are not finished are left out. Raises InputError without a study.
    """
    from octavo.studies.results import collect

    results = collect(Path(folder))
    analysis = analyse_study(results)
    rows = variant_rows(results, analysis)
    target = results.folder / "report"
    target.mkdir(parents=True, exist_ok=True)
    drawings = _drawings(rows, analysis, results.study)
    for name, draw in drawings.items():
        replace_text(target / f"{name}.svg", draw(WIDE))
    replace_text(target / "report.md", render_markdown(results, analysis, rows, list(drawings)))
    page = target / "index.html"
    replace_text(page, render_page(results, analysis, rows, drawings))
    return page


def _drawings(rows: list[Row], analysis: Analysis, study: Study) -> dict[str, Callable[[float], str]]:
    """The plots that there is something to draw for, by file name; each is drawn for a width in inches."""
    drawings: dict[str, Callable[[float], str]] = {
        "verdicts": lambda width: plots.forest_plot(rows, analysis, width=width)
    }
    if any(run.curve.steps for row in rows for run in row.runs):
        drawings["curves"] = lambda width: plots.curve_plot(rows, usual(study.unit), width=width)
    if any(row.verdict is not None and row.verdict.curve is not None for row in rows):
        unit = on_the_way(study.metric, study.unit).unit
        drawings["difference"] = lambda width: plots.difference_plot(rows, unit=unit, width=width)
    if any(row.improvement is not None and plots.improvement_curve(run) for row in rows for run in row.runs):
        drawings["improvement"] = lambda width: plots.curve_plot(rows, None, width=width)
    for cost in plots.costs_that_differ(rows):
        drawings[f"cost-{cost}"] = lambda width, cost=cost: plots.cost_plot(
            rows, analysis.scale, cost, width=width
        )
    return drawings


TITLES = {
    "verdicts": "Difference from the baseline, with intervals",
    "curves": "Validation curves",
    "difference": "Difference from the baseline over the steps",
    "improvement": "Relative improvement over the steps",
    "cost-seconds": "Quality against training time",
    "cost-flops": "Quality against FLOPs",
    "cost-parameters": "Quality against parameters",
}


def render_page(
    results: StudyResults, analysis: Analysis, rows: list[Row], drawings: dict[str, Callable[[float], str]]
) -> str:
    """study.html of an analysis."""
    from markupsafe import Markup

    pages = templates(Path(__file__).parent, Path(run_report.__file__).parent)
    drawn = {
        name: {
            kind: Markup(plots.inline(draw(width), f"{name}-{kind}", title=TITLES[name]))  # noqa: S704 — our own
            for kind, width in (("wide", WIDE), ("narrow", NARROW))
        }
        for name, draw in drawings.items()
    }
    asked, about = question(results.study)
    return pages.get_template("study.html").render(
        study=results.study,
        question=asked,
        answer=answer(results, analysis),
        about=about,
        terms=terms(analysis),
        analysis=analysis,
        changes=rows[1:],
        outcome=outcome(analysis),
        headlines=_headlines(results, analysis, rows),
        plots={
            "forest": drawn["verdicts"],
            "curves": drawn.get("curves"),
            "difference": drawn.get("difference"),
            "improvement": drawn.get("improvement"),
            "costs": [plot for name, plot in drawn.items() if name.startswith("cost-")],
        },
        verdicts=verdict_table(results, analysis),
        controls=control_table(results),
        improvement=improvement_table(rows, _by_improvement(results), results.study.unit),
        disagreement=disagreement(rows) if results.study.unit.has_bits_per_byte else "",
        part_evaluated=part_evaluated(rows),
        cost=cost_table(rows, results.study.unit),
        samples=_samples(rows),
        failures=_failures(rows),
        commands=_commands(results.folder),
        settings=_settings(results),
        study_file=_study_file(results.folder),
        machine=_machine(results),
        runs=_run_table(results, analysis),
        rows_of=lambda table: list(zip(table[1:], rows, strict=True)),
        held=held_text,
        capital=lambda text: text[:1].upper() + text[1:],
        key=lambda position: f"s{(position - 1) % len(plots.SERIES) + 1}" if position else "base",
    )


def render_markdown(results: StudyResults, analysis: Analysis, rows: list[Row], drawings: list[str]) -> str:
    """The same report as Markdown; plots are referred to by their file names."""
    study = results.study

    def plot(name: str) -> list[str]:
        return [f"![{TITLES[name]}]({name}.svg)"] if name in drawings else []

    asked, about = question(study)
    parts = [f"# {in_markdown(asked)}", f"**{in_markdown(answer(results, analysis))}**", in_markdown(about)]
    if study.finding:
        parts.append(f"**What the report says.** {in_markdown(study.finding)}")
    parts.append(outcome(analysis))
    verdicts = ((in_markdown(one.change), in_markdown(one.sentence)) for one in analysis.verdicts)
    parts.append("\n".join(f"- **{change}:** {sentence}." for change, sentence in verdicts))
    parts.append("\n".join(f"- {term}: {meaning}." for term, meaning in terms(analysis)))
    parts += ["## Verdicts", *plot("verdicts"), markdown(verdict_table(results, analysis))]
    parts += [markdown(table)] if (table := control_table(results)) else []
    parts.append("\n".join(f"- {in_markdown(note)}" for note in analysis.notes))
    failures = _failures(rows)
    if failures:
        parts.append("## Runs that failed or were stopped")
        parts.append(
            "\n".join(f"- {in_markdown(one['name'])}: {in_markdown(one['reason'])}" for one in failures)
        )
    if "curves" in drawings:
        parts += ["## How they learned", part_evaluated(rows), *plot("curves"), *plot("difference")]
    if "improvement" in drawings:
        parts += ["## Relative improvement", disagreement(rows) if study.unit.has_bits_per_byte else ""]
        parts += [
            *plot("improvement"),
            markdown(improvement_table(rows, _by_improvement(results), study.unit)),
        ]
    parts.append("## Cost against quality")
    parts += [text for name in drawings if name.startswith("cost-") for text in plot(name)]
    parts.append(markdown(cost_table(rows, study.unit)))
    samples = _samples(rows)
    if samples:
        parts.append("## What they write")
        parts += [f"**{in_markdown(name)}**, seed {seed}\n\n{fenced(text)}" for name, seed, text in samples]
    parts += [
        "## To repeat it",
        "\n".join(f"- {what}: `{command}`" for what, command in _commands(results.folder)),
    ]
    parts.append(markdown([["change", "settings"], *map(list, _settings(results))]))
    parts.append(f"The study as it ran:\n\n{fenced(_study_file(results.folder), 'yaml')}")
    parts.append(markdown(_run_table(results, analysis)))
    machine = [[name, value] for name, value in _machine(results)]
    if machine:
        parts.append(markdown([["of the baseline's first run", "value"], *machine]))
    return "\n\n".join(part for part in parts if part) + "\n"


def part_evaluated(rows: list[Row]) -> str:
    """A sentence on how much of the validation split the curves are of, where that is not all; else nothing."""
    run = next((run for row in rows for run in row.runs if run.curve.of_a_part(run)), None)
    if run is None:
        return ""
    return (
        f"The curves are of {run.curve.evaluated:,} of the {sum(run.tokens_scored):,} tokens of the validation split, "
        "the verdicts of all of them, so their levels differ."
    )


def _by_improvement(results: StudyResults) -> Analysis | None:
    """The same runs, judged by relative improvement; None where no share of the loss means anything."""
    return None if results.study.unit.density else analyse_study(by_improvement(results))


def disagreement(rows: list[Row]) -> str:
    """One sentence on why relative improvement and bits per byte may not rank alike."""
    lengths = [
        sum(run.bytes) / sum(run.tokens_scored) for row in rows for run in row.runs if sum(run.tokens_scored)
    ]
    sentence = (
        "A larger vocabulary begins at a higher loss (the logarithm of its size) and spreads a text over fewer tokens, "
        "so relative improvement depends on how text is cut and can rank models otherwise than bits per byte, which "
        "does not"
    )
    if lengths and max(lengths) > (1 + TOKEN_LENGTH) * min(lengths):
        return f"{sentence}; the tokenizers here differ, so compare bits per byte."
    return f"{sentence}; here all variants cut the text alike, so the two agree but for differences in the beginning."


def _headlines(results: StudyResults, analysis: Analysis, rows: list[Row]) -> list[Headline]:
    scale, study = analysis.scale, results.study
    seconds = [run.seconds for run in results.runs if run.seconds is not None]
    headlines = []
    if analysis.mean is not None:
        why = f"{scale.unit.removeprefix('in ')}; {'lower' if scale.lower_is_better else 'higher'} is better"
        headlines.append(Headline("baseline", scale.text(analysis.mean), why))
    if analysis.noise is not None:
        headlines.append(
            Headline(
                "noise between seeds", scale.text(analysis.noise), f"{analysis.freedom} degrees of freedom"
            )
        )
    extra = f" and {len(study.noise_seeds)} more of the baseline" if study.noise_seeds else ""
    headlines.append(
        Headline("runs", f"{len(results.runs)}", f"{len(study.seeds)} seeds for each variant{extra}")
    )
    if seconds:
        headlines.append(Headline("training time", exact_duration(sum(seconds)), "of all runs together"))
    return headlines


def _samples(rows: list[Row]) -> list[tuple[str, int, str]]:
    """Name, seed and text of each variant's first run that wrote something."""
    samples = []
    for row in rows:
        run = next((run for run in row.runs if run.sample), None)
        if run is not None:
            text = run.sample
            cut = text if len(text) <= LONGEST_SAMPLE else f"{text[:LONGEST_SAMPLE].rstrip()} …"
            samples.append((row.name, run.seed, cut))
    return samples


def _failures(rows: list[Row]) -> list[dict[str, str]]:
    """Every run that did not count, and why."""
    failures = []
    for row in rows:
        reasons = list(row.verdict.failed) if row.verdict else []
        reasons += [
            f"seed {run.seed}: {run.reason or run.status}"
            for run in row.runs
            if run.status == "stopped" or (row.verdict is None and run.status == "failed")
        ]
        failures += [{"name": row.name, "reason": reason} for reason in reasons]
    return failures


def _commands(folder: Path) -> list[tuple[str, str]]:
    commands: list[tuple[str, tuple[str | Path, ...]]] = [
        ("The whole study again", ("study", "run", folder / "study.yaml", "--out", "AGAIN")),
        ("This report again", ("study", "report", folder)),
        ("Look at one run", ("info", folder / "runs" / BASELINE / "seed-1")),
    ]
    return [(what, command("octavo", *words)) for what, words in commands]


def _settings(results: StudyResults) -> list[tuple[str, str]]:
    """Each variant's settings as key=value words."""
    study = results.study
    return [
        (f"{BASELINE} ({study.baseline})", _words(study.settings) or "as it is"),
        *(
            (change.name, " ".join([_words(change.settings), *(change.text or ())]).strip() or NONE)
            for change in study.changes
        ),
    ]


def _words(settings: Any) -> str:
    return " ".join(
        f"{key}={value if isinstance(value, str) else json.dumps(value)}" for key, value in settings.items()
    )


def _study_file(folder: Path) -> str:
    path = folder / "study.yaml"
    return path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""


def _machine(results: StudyResults) -> list[tuple[str, str]]:
    """Leaves of the baseline's first manifest."""
    for run in results.of(BASELINE):
        path = results.folder / run.folder / "manifest.json"
        if path.is_file():
            return list(flat(read_record(path, of="the run")))
    return []


def _run_table(results: StudyResults, analysis: Analysis) -> list[list[str]]:
    scale = analysis.scale
    table = [["run", "status", scale.unit.removeprefix("in "), str(results.study.unit), "accuracy", "time"]]
    return table + [
        [
            run.folder,
            run.status,
            NONE if run.metric is None else scale.text(run.metric),
            NONE if run.val_loss is None else f"{run.val_loss:.4f}",
            NONE if run.accuracy is None else f"{run.accuracy:.1%}",
            NONE if run.seconds is None else exact_duration(run.seconds),
        ]
        for run in results.runs
    ]
