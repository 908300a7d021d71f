"""The report of a ladder: a page with a plot, the same in Markdown, and everything as plain data."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

from octavo import report as run_report
from octavo.evaluation.compare_tokens import Part, Where, cells, difference_text
from octavo.report.page import NARROW, WIDE
from octavo.report.plots import MUTED, Label, new_figure, place, tidy
from octavo.studies import plots
from octavo.studies.ladder import collected, ladder_text
from octavo.studies.ladder_verdict import LadderAnalysis, RungVerdict, analyse_ladder
from octavo.studies.provenance import code_words
from octavo.studies.report import write_study_report
from octavo.studies.table import NONE, computed_by, count_text, markdown
from octavo.studies.verdict import question
from octavo.util.files import replace_text
from octavo.util.html import templates
from octavo.util.terminal import in_markdown

# Where, token by token, the changes of a ladder are better or worse: tables.


class Table(NamedTuple):
    """A head and rows, under a title."""

    title: str
    rows: list[list[str]]


class WhereSection(NamedTuple):
    """What is said of a change."""

    change: str
    tables: list[Table]
    why_not: str


WORDS_HEAD = ["word", "tokens", "n-gram", "baseline", "change", "change − baseline", "of the whole"]


def where_sections(analysis: LadderAnalysis) -> list[WhereSection]:
    """For each change of which anything is known: by what counting predicts and by context on every rung, and the words
    of the last rung."""
    sections = []
    for change in (change.name for change in analysis.ladder.study.changes):
        there = [(one, one.where.found[change]) for one in analysis.rungs if change in one.where.found]
        reasons = dict.fromkeys(why for one in analysis.rungs if (why := one.where.why_not.get(change)))
        tables = _tables(there) if there else []
        if tables or reasons:
            sections.append(WhereSection(change, tables, " ".join(reasons)))
    return sections


def in_brief(analysis: LadderAnalysis) -> list[list[str]]:
    """Head and rows: on the longest rung of each size, each change's difference in each fifth of what counting
    predicts; no rows where nothing is known."""
    head: list[str] = []
    rows: list[list[str]] = []
    for change in (change.name for change in analysis.ladder.study.changes):
        longest = {one.rung.size: one for one in analysis.rungs if change in one.where.found}
        head, *mine = _by_rung([(one, one.where.found[change]) for one in longest.values()], _fifths)
        rows += [[change, *row] for row in mine]
    return [["change", *head], *rows] if rows else []


def _fifths(where: Where) -> list[Part]:
    return [*where.by_ngram, where.whole]


def _tables(there: Sequence[tuple[RungVerdict, Where]]) -> list[Table]:
    last, where = there[-1]
    order = where.order
    place = f"at {last.rung.size} after {last.rung.steps:,} steps"
    tables = [
        Table(
            f"By how well counting {order}-grams predicts a token",
            _by_rung(there, _fifths),
        ),
        Table(
            "By how many tokens stand before it in its window", _by_rung(there, lambda one: one.by_context)
        ),
    ]
    for word, parts in (("worse", where.first_better), ("better", where.second_better)):
        if parts:
            tables.append(Table(f"Words in which it is {word}, {place}", [WORDS_HEAD, *map(cells, parts)]))
    return tables


def _by_rung(
    there: Sequence[tuple[RungVerdict, Where]], parts_of: Callable[[Where], Sequence[Part]]
) -> list[list[str]]:
    names = list(dict.fromkeys(part.name for _, where in there for part in parts_of(where)))
    table = [["size", "steps", *names]]
    for one, where in there:
        by_name = {part.name: difference_text(part, 3) for part in parts_of(where)}
        table.append([one.rung.size, f"{one.rung.steps:,}", *(by_name.get(name, "–") for name in names)])
    return table


TITLES = {
    "ladder": "Difference from the baseline on every rung",
    "where": "Difference from the baseline by how well counting predicts a token",
}
WHERE_NOTE = (
    "Nats per token on the same tokens, change minus baseline, with two standard errors over stretches of the text and "
    "over the seeds: below zero the change is better. No correction for many comparisons: a lead, not a verdict."
)
PANEL = 2.5
"""Inches that the picture of one change is high."""


def write_ladder_report(folder: Path) -> tuple[Path, LadderAnalysis]:
    """Write the page of a ladder, and of each of its studies; returns the page's path and what it says.

    Works on the folder alone, at any time. Raises InputError without a ladder.
    """
    analysis = analyse_ladder(folder)
    for one in analysis.rungs:
        if one.folder is not None:
            write_study_report(folder / one.folder)
    target = folder / "report"
    target.mkdir(parents=True, exist_ok=True)
    drawings = _drawings(analysis)
    for name, draw in drawings.items():
        replace_text(target / f"{name}.svg", draw(analysis, width=WIDE))
    replace_text(target / "report.md", render_markdown(analysis, list(drawings)))
    page = target / "index.html"
    replace_text(page, render_page(analysis, drawings))
    return page, analysis


def _drawings(analysis: LadderAnalysis) -> dict[str, Callable[..., str]]:
    """The pictures that there is something to draw for, by file name."""
    names = [change.name for change in analysis.ladder.study.changes]
    drawn: dict[str, Callable[..., str]] = {}
    if any(_points(one, name) for one in analysis.rungs for name in names):
        drawn["ladder"] = ladder_plot
    if any(one.where.found for one in analysis.rungs):
        drawn["where"] = where_plot
    return drawn


def as_data(analysis: LadderAnalysis) -> dict[str, Any]:
    """Verdicts and rungs for --json."""
    study = analysis.ladder.study
    return {
        "ladder": study.name,
        "metric": study.metric,
        "verdicts": [asdict(verdict) for verdict in analysis.verdicts],
        "rungs": [asdict(one) for one in analysis.rungs],
        "notes": list(analysis.notes),
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


def render_markdown(analysis: LadderAnalysis, drawings: Sequence[str]) -> str:
    """The report as Markdown; pictures are referred to by their file names."""
    study = analysis.ladder.study

    def plot(name: str) -> list[str]:
        return [f"![{TITLES[name]}]({name}.svg)"] if name in drawings else []

    asked, about = question(study)
    finding = f"**What the report says.** {in_markdown(study.finding)}" if study.finding else ""
    parts = [f"# {in_markdown(asked)}", in_markdown(about), finding]
    verdicts = ((in_markdown(one.change), in_markdown(one.sentence)) for one in analysis.verdicts)
    parts.append("\n".join(f"- **{change}:** {sentence}." for change, sentence in verdicts))
    parts += [
        *plot("ladder"),
        markdown(rung_table(analysis)),
        "\n".join(f"- {note}" for note in analysis.notes),
    ]
    if sections := where_sections(analysis):
        parts += ["## Where, token by token", WHERE_NOTE, *plot("where")]
    for one in sections:
        parts += [f"### {in_markdown(one.change)}", in_markdown(one.why_not)]
        parts += [text for table in one.tables for text in (f"{table.title}:", markdown(table.rows))]
    return "\n\n".join(part for part in parts if part) + "\n"


def section(folder: Path) -> str:
    """A ladder in a page of results, as `table.summary` has studies. Raises InputError without a ladder."""
    analysis = analyse_ladder(folder)
    study = analysis.ladder.study
    kept = [collected(folder, kind, rung) for kind in ("sweeps", "rungs") for rung in analysis.ladder.rungs]
    studies = [results for results in kept if results is not None]
    sources = tuple(dict.fromkeys(code for results in studies for code in results.study.sources))
    parts = [f"## {study.name}", study.description]
    parts.append(f"**What the report says:** {study.finding}" if study.finding else "")
    parts.append("\n".join(f"- **{verdict.change}:** {verdict.sentence}." for verdict in analysis.verdicts))
    parts += [markdown(rung_table(analysis)), "\n".join(f"- {note}" for note in analysis.notes)]
    if brief := in_brief(analysis):
        finding = (
            "Change minus baseline by how well counting n-grams predicts a token, nats ± two standard errors:"
        )
        parts += [finding, markdown(brief)]
    parts.append(f"*{code_words(sources)}; {'; '.join(computed_by(studies))}.*")
    return "\n\n".join(part for part in parts if part) + "\n"


def render_page(analysis: LadderAnalysis, drawings: Mapping[str, Callable[..., str]]) -> str:
    """The report as a page."""
    from markupsafe import Markup

    study = analysis.ladder.study
    asked, about = question(study)
    table = rung_table(analysis)
    links = [f"../{one.folder}/report/index.html" if one.folder else None for one in analysis.rungs]
    drawn = {
        name: {
            kind: Markup(plots.inline(draw(analysis, width=width), f"{name}-{kind}", title=TITLES[name]))  # noqa: S704 — our own
            for kind, width in (("wide", WIDE), ("narrow", NARROW))
        }
        for name, draw in drawings.items()
    }
    pages = templates(Path(__file__).parent, Path(run_report.__file__).parent)
    return pages.get_template("ladder.html").render(
        name=study.name,
        question=asked,
        about=about,
        finding=study.finding,
        verdicts=analysis.verdicts,
        lower_is_better=analysis.scale.lower_is_better,
        plots=drawn,
        where=where_sections(analysis),
        where_note=WHERE_NOTE,
        table=table,
        rows=list(zip(table[1:], links, strict=True)),
        notes=analysis.notes,
        file=ladder_text(analysis.ladder),
    )


def _points(one: RungVerdict, change: str) -> tuple[float, float, float] | None:
    """A change's difference on a rung, and the ends of its interval."""
    verdict = one.of(change)
    if verdict is None or verdict.difference is None or verdict.interval is None:
        return None
    return verdict.difference, *verdict.interval


def ladder_plot(analysis: LadderAnalysis, *, width: float) -> str:
    """A panel for each change: its difference over the steps, a line for each size. An SVG document."""
    factor, steps = analysis.scale.factor, sorted(analysis.ladder.steps)

    def lines(change: str) -> list[Line]:
        drawn = []
        for number, size in enumerate(analysis.ladder.sizes):
            there = [
                (one, point)
                for one in analysis.rungs
                if one.rung.size == size and (point := _points(one, change))
            ]
            places = [steps.index(one.rung.steps) + SHIFT * number for one, _ in there]
            drawn.append(Line(size, places, [tuple(factor * value for value in point) for _, point in there]))
        return drawn

    ticks = [f"{step:,}" for step in steps]
    unit = analysis.scale.unit.removeprefix("in ")
    return _picture(analysis, lines, ticks, ("steps of a run", f"change − baseline,\n{unit}"), width=width)


def where_plot(analysis: LadderAnalysis, *, width: float) -> str:
    """A panel for each change: its difference in each fifth of what counting predicts, on the longest rung of each
    size, with two standard errors. An SVG document."""

    def lines(change: str) -> list[Line]:
        drawn = []
        for number, size in enumerate(analysis.ladder.sizes):
            there = [
                one.where.found[change]
                for one in analysis.rungs
                if one.rung.size == size and change in one.where.found
            ]
            parts = there[-1].by_ngram if there else ()
            halves = [2 * (part.error or 0.0) for part in parts]
            points = [
                (part.difference, part.difference - half, part.difference + half)
                for part, half in zip(parts, halves, strict=True)
            ]
            drawn.append(Line(size, [place + SHIFT * number for place in range(len(parts))], points))
        return drawn

    names = ("what counting predicts: best", "", "", "", "worst")
    return _picture(
        analysis,
        lines,
        names,
        ("a fifth of the tokens each", "change − baseline,\nnats per token"),
        width=width,
    )


class Line(NamedTuple):
    """Of one size: where its points stand, and each with the ends of its interval."""

    size: str
    places: Sequence[float]
    points: Sequence[tuple[float, ...]]


SHIFT = 0.06
"""By how much the points of one size stand beside those of another."""


def _picture(
    found: LadderAnalysis,
    lines: Callable[[str], list[Line]],
    ticks: Sequence[str],
    labels: tuple[str, str],
    *,
    width: float,
) -> str:
    """A panel for each change of which there are lines."""
    panels = [(change.name, lines(change.name)) for change in found.ladder.study.changes]
    panels = [(name, drawn) for name, drawn in panels if any(line.points for line in drawn)]
    height = PANEL * len(panels)
    figure = new_figure(width, height)
    labels_width = plots.LABELS if width >= 6 else 1.35
    for position, (name, drawn) in enumerate(panels):
        bottom = (PANEL * (len(panels) - 1 - position) + 0.5) / height
        box = (0.88 / width, bottom, 1 - (0.88 + labels_width) / width, (PANEL - 0.85) / height)
        axes = figure.add_axes(box)
        _panel(axes, drawn)
        axes.set_xticks(range(len(ticks)), ticks)
        axes.set_xlim(-0.25, len(ticks) - 1 + 0.4)
        axes.set_xlabel(labels[0], fontsize=9)
        axes.set_ylabel(labels[1], fontsize=8.5)
        axes.set_title(name if len(name) < 60 else f"{name[:59]}…", loc="left", fontsize=9.5)
    return figure.svg()


def _panel(axes: Any, lines: Sequence[Line]) -> None:
    axes.axhline(0, color=MUTED, linewidth=1.1, zorder=1)
    labels = []
    for number, line in enumerate(lines):
        if not line.points:
            continue
        colour = plots.SERIES[number % len(plots.SERIES)]
        middle, low, high = zip(*line.points, strict=True)
        axes.plot(line.places, middle, color=colour, linewidth=1.7, marker="o", markersize=4.5)
        axes.vlines(line.places, low, high, color=colour, linewidth=1.7, alpha=0.6)
        labels.append(Label(middle[-1], line.size, colour))
    tidy(axes)
    place(axes, labels)
