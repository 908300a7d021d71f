"""The report of a ladder: a page with a plot, the same in Markdown, and everything as plain data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from octavo import report as run_report
from octavo.ground.files import replace_text
from octavo.ground.pages import templates
from octavo.report.page import NARROW, WIDE
from octavo.report.plots import MUTED, Label, new_figure, place, tidy
from octavo.studies import plots
from octavo.studies.answer import question
from octavo.studies.ladder import collected, ladder_text
from octavo.studies.ladder_verdict import LadderAnalysis, RungVerdict, analyse_ladder
from octavo.studies.report import write_study_report
from octavo.studies.sources import code_words
from octavo.studies.table import NONE, computed_by, count_text, markdown

TITLE = "Difference from the baseline on every rung"
PANEL = 2.5
"""Inches that the picture of one change is high."""


def write_ladder_report(folder: Path) -> tuple[Path, LadderAnalysis]:
    """Write the page of a ladder, and of each of its studies; returns the page's path and what it says.

    Works on the folder alone, at any time. Raises InputError without a ladder.
    """
    found = analyse_ladder(folder)
    for one in found.rungs:
        if one.folder is not None:
            write_study_report(folder / one.folder)
    target = folder / "report"
    target.mkdir(parents=True, exist_ok=True)
    drawn = any(_points(one, change.name) for one in found.rungs for change in found.ladder.study.changes)
    if drawn:
        replace_text(target / "ladder.svg", ladder_plot(found, width=WIDE))
    replace_text(target / "report.md", render_markdown(found, plotted=drawn))
    page = target / "index.html"
    replace_text(page, render_page(found, plotted=drawn))
    return page, found


def as_data(found: LadderAnalysis) -> dict[str, Any]:
    """For --json."""
    study = found.ladder.study
    return {
        "ladder": study.name,
        "metric": study.metric,
        "verdicts": [asdict(verdict) for verdict in found.verdicts],
        "rungs": [asdict(one) for one in found.rungs],
        "notes": list(found.notes),
    }


def rung_table(found: LadderAnalysis) -> list[list[str]]:
    """Head and rows: size and length, the baseline, each change's difference and verdict, the rates."""
    scale, changes = found.scale, found.ladder.study.changes
    head = ["size", "parameters", "steps", "baseline", *(change.name for change in changes), "learning rates"]
    table = [head]
    for one in found.rungs:
        analysis = one.analysis
        level = NONE if analysis is None or analysis.mean is None else scale.text(analysis.mean)
        cells = [_cell(found, one, change.name) for change in changes]
        rates = ", ".join(f"{name} × {rate:g}" for name, rate in one.rates.items()) or NONE
        table.append([one.rung.size, count_text(one.parameters), f"{one.rung.steps:,}", level, *cells, rates])
    return table


def _cell(found: LadderAnalysis, one: RungVerdict, change: str) -> str:
    verdict = one.of(change)
    if verdict is None:
        return NONE
    if one.analysis is not None and one.analysis.nothing_learned:
        return "nothing learned yet"
    if verdict.difference is None or verdict.interval is None:
        return verdict.verdict
    low, high = (found.scale.text(end, signed=True) for end in verdict.interval)
    return f"{found.scale.text(verdict.difference, signed=True)} ({low} to {high}): {verdict.verdict}"


def render_markdown(found: LadderAnalysis, *, plotted: bool) -> str:
    """The report as Markdown."""
    study = found.ladder.study
    asked, about = question(study)
    parts = [f"# {asked}", about, f"**What the report says.** {study.finding}" if study.finding else ""]
    parts.append("\n".join(f"- **{verdict.change}:** {verdict.sentence}." for verdict in found.verdicts))
    parts += [f"![{TITLE}](ladder.svg)"] if plotted else []
    parts += [markdown(rung_table(found)), "\n".join(f"- {note}" for note in found.notes)]
    return "\n\n".join(part for part in parts if part) + "\n"


def section(folder: Path) -> str:
    """A ladder in a page of results, as `table.summary` has studies. Raises InputError without a ladder."""
    found = analyse_ladder(folder)
    study = found.ladder.study
    kept = [collected(folder, kind, rung) for kind in ("sweeps", "rungs") for rung in found.ladder.rungs]
    studies = [results for results in kept if results is not None]
    sources = tuple(dict.fromkeys(code for results in studies for code in results.study.sources))
    parts = [f"## {study.name}", study.description]
    parts.append(f"**What the report says:** {study.finding}" if study.finding else "")
    parts.append("\n".join(f"- **{verdict.change}:** {verdict.sentence}." for verdict in found.verdicts))
    parts += [markdown(rung_table(found)), "\n".join(f"- {note}" for note in found.notes)]
    parts.append(f"*{code_words(sources)}; {'; '.join(computed_by(studies))}.*")
    return "\n\n".join(part for part in parts if part) + "\n"


def render_page(found: LadderAnalysis, *, plotted: bool) -> str:
    """The report as a page."""
    from markupsafe import Markup

    study = found.ladder.study
    asked, about = question(study)
    table = rung_table(found)
    links = [f"../{one.folder}/report/index.html" if one.folder else None for one in found.rungs]
    plot = {
        kind: Markup(plots.inline(ladder_plot(found, width=width), f"ladder-{kind}", title=TITLE))  # noqa: S704 — our own
        for kind, width in (("wide", WIDE), ("narrow", NARROW))
        if plotted
    }
    pages = templates(Path(__file__).parent, Path(run_report.__file__).parent)
    return pages.get_template("ladder.html").render(
        name=study.name,
        question=asked,
        about=about,
        finding=study.finding,
        verdicts=found.verdicts,
        lower_is_better=found.scale.lower_is_better,
        plot=plot,
        table=table,
        rows=list(zip(table[1:], links, strict=True)),
        notes=found.notes,
        file=ladder_text(found.ladder),
    )


def _points(one: RungVerdict, change: str) -> tuple[float, float, float] | None:
    """A change's difference on a rung, and the ends of its interval."""
    verdict = one.of(change)
    if verdict is None or verdict.difference is None or verdict.interval is None:
        return None
    return verdict.difference, *verdict.interval


def ladder_plot(found: LadderAnalysis, *, width: float) -> str:
    """A panel for each change: its difference over the steps, a line for each size. An SVG document."""
    changes = found.ladder.study.changes
    figure = new_figure(width, PANEL * len(changes))
    labels_width = plots.LABELS if width >= 6 else 1.35
    height = PANEL * len(changes)
    for position, change in enumerate(changes):
        bottom = (PANEL * (len(changes) - 1 - position) + 0.5) / height
        box = (0.88 / width, bottom, 1 - (0.88 + labels_width) / width, (PANEL - 0.85) / height)
        axes = figure.add_axes(box)
        _panel(axes, found, change.name)
        axes.set_title(
            change.name if len(change.name) < 60 else f"{change.name[:59]}…", loc="left", fontsize=9.5
        )
    return figure.svg()


def _panel(axes: Any, found: LadderAnalysis, change: str) -> None:
    factor = found.scale.factor
    axes.axhline(0, color=MUTED, linewidth=1.1, zorder=1)
    labels, steps = [], sorted(found.ladder.steps)
    for number, size in enumerate(found.ladder.sizes):
        rungs = [one for one in found.rungs if one.rung.size == size and _points(one, change)]
        if not rungs:
            continue
        colour = plots.SERIES[number % len(plots.SERIES)]
        places = [steps.index(one.rung.steps) + 0.06 * number for one in rungs]
        points = [point for one in rungs if (point := _points(one, change))]
        middle, low, high = ([factor * value for value in column] for column in zip(*points, strict=True))
        axes.plot(places, middle, color=colour, linewidth=1.7, marker="o", markersize=4.5)
        axes.vlines(places, low, high, color=colour, linewidth=1.7, alpha=0.6)
        labels.append(Label(middle[-1], size, colour))
    tidy(axes)
    _ticks(axes, steps)
    axes.set_ylabel(f"change − baseline,\n{found.scale.unit.removeprefix('in ')}", fontsize=8.5)
    place(axes, labels)


def _ticks(axes: Any, steps: Sequence[int]) -> None:
    axes.set_xticks(range(len(steps)), [f"{step:,}" for step in steps])
    axes.set_xlim(-0.25, len(steps) - 1 + 0.4)
    axes.set_xlabel("steps of a run", fontsize=9)
