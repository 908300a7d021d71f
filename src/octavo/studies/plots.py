"""A study's pictures as SVG: differences with their intervals, curves with bands, cost against quality."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from octavo.report import plots
from octavo.report.plots import GRID, INK, MUTED, PAPER, Label, new_figure, place, tidy
from octavo.studies.arms import finished

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from octavo.studies.measures import Measure, Scale
    from octavo.studies.results import RunResult
    from octavo.studies.table import Row
    from octavo.studies.verdict import Analysis

# Told apart by every kind of colour vision in this order; more variants than colours take dashes.
SERIES = ("#0b72b0", "#d45f0b", "#12946f", "#b85c9e", "#b98d0a", "#5b6fd6", "#8a5a33", "#3aa6c9")
BASE, BAND = "#59636e", "#eceef0"
KINDS = {"better": "#0f8a5e", "worse": "#c2480c", "same": "#6c7681", "failed": "#9d174e", "open": "#8b949d"}
VARIABLES = {
    PAPER: "paper",
    INK: "ink",
    MUTED: "muted",
    GRID: "grid",
    BASE: "base",
    BAND: "band",
    **{colour: kind for kind, colour in KINDS.items()},
    **{colour: f"s{number}" for number, colour in enumerate(SERIES, 1)},
}
DASHES = ("solid", (0, (5, 2)), (0, (1.5, 1.5)))
FAR = 6.0
"""A change this many times as far off as the middle one leaves the forest plot's frame, with an arrow."""

BEGINNING = 0.25
"""The share of a run whose steep fall may leave the frame, so that the end can be told apart."""

LABELS = 2.0
"""Inches next to the plots for the variants' names."""


def inline(svg: str, name: str, *, title: str) -> str:
    """A study's plot as part of a page that defines its colours."""
    return plots.inline(svg, name, title=title, variables=VARIABLES)


def style_of(position: int) -> dict[str, Any]:
    """Colour and dashes of a variant; 0 is the baseline."""
    if position == 0:
        return {"color": BASE, "linestyle": "solid"}
    turn, colour = divmod(position - 1, len(SERIES))
    return {"color": SERIES[colour], "linestyle": DASHES[turn % len(DASHES)]}


def forest_plot(rows: Sequence[Row], analysis: Analysis, *, width: float = 7.6) -> str:
    """Each change's difference from the baseline with its interval, its runs as dots. An SVG document."""
    narrow = width < 6
    height = 0.62 + (0.62 if narrow else 0.46) * len(rows)
    figure = new_figure(width, height)
    left, right = (0.12, 0.12) if narrow else (2.05, 1.5)
    axes = figure.add_axes(
        (left / width, 0.56 / height, 1 - (left + right) / width, 1 - 0.62 / height),
    )
    reach = _reach(rows, analysis)
    if analysis.noise is not None:
        axes.axvspan(-analysis.noise, analysis.noise, color=BAND, linewidth=0, zorder=0)
    axes.axvline(0, color=MUTED, linewidth=1.1, zorder=1)
    for position, row in enumerate(rows):
        _forest_row(axes, row, analysis, -position, reach, narrow)
    axes.set_ylim(-len(rows) + 0.45, 0.72 if narrow else 0.55)
    axes.set_xlim(-reach, reach)
    tidy(axes)
    axes.grid(visible=False, axis="y")
    axes.set_yticks([])
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    axes.xaxis.set_major_locator(MaxNLocator(5 if narrow else 7))
    factor = analysis.scale.factor
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: _signed(value * factor)))
    ends = ("← better", "worse →") if analysis.scale.lower_is_better else ("← worse", "better →")
    unit = "" if narrow else f"difference from the baseline, {analysis.scale.unit.removeprefix('in ')}"
    axes.set_xlabel(f"{ends[0]}      {unit}      {ends[1]}", fontsize=8.5)
    return figure.svg()


def _signed(value: float) -> str:
    return "0" if abs(value) < 1e-12 else f"{value:+.4g}".replace("-", "−")


def _reach(rows: Sequence[Row], analysis: Analysis) -> float:
    """How far the axis goes to either side."""
    extents = sorted(
        max(map(abs, row.verdict.interval)) for row in rows if row.verdict and row.verdict.interval
    )
    own = [abs((run.metric or 0) - analysis.mean) for run in rows[0].runs if finished(run) and analysis.mean]
    least = max([3 * (analysis.noise or 0), *own])
    if not extents:
        return 1.15 * least or 1.0
    limit = FAR * max(extents[(len(extents) - 1) // 2], least)
    return 1.12 * max([least, *(extent for extent in extents if extent <= limit)])


def _forest_row(axes: Axes, row: Row, analysis: Analysis, y: float, reach: float, narrow: bool) -> None:
    colour = KINDS.get(row.kind, BASE)
    verdict = row.verdict
    runs = [
        run.metric - analysis.mean for run in row.runs if run.metric is not None and analysis.mean is not None
    ]
    shown = [value for value in runs if abs(value) < reach]
    axes.plot(shown, [y] * len(shown), "o", color=colour, markersize=4.5, alpha=0.42, markeredgewidth=0)
    words = f"{len(runs)} runs" if verdict is None else verdict.verdict
    if verdict is not None and verdict.interval is not None and verdict.difference is not None:
        words = _words(row, analysis.scale)
        low, high = (float(np.clip(end, -reach, reach)) for end in verdict.interval)
        if abs(verdict.difference) < reach:
            axes.plot([low, high], [y, y], color=colour, linewidth=2.4, solid_capstyle="round")
            axes.plot(verdict.difference, y, "D", color=colour, markersize=6.5, markeredgecolor=PAPER)
        else:
            tip = float(np.sign(verdict.difference)) * reach * 0.97
            axes.annotate(
                "",
                xy=(tip, y),
                xytext=(tip * 0.86, y),
                arrowprops={"arrowstyle": "-|>", "color": colour, "linewidth": 2},
            )
    elif verdict is not None and row.kind == "failed":
        axes.plot(reach * 0.94, y, "X", color=colour, markersize=8, markeredgecolor=PAPER)
    if narrow:
        axes.text(-reach, y + 0.42, _short(row.name, 30), fontsize=9, color=INK, va="center")
        axes.text(reach, y + 0.42, words, fontsize=8.5, color=colour, va="center", ha="right")
        return
    beside = axes.get_yaxis_transform()
    axes.text(
        -0.025, y, _wrapped(row.name, 26), transform=beside, fontsize=9, color=INK, va="center", ha="right"
    )
    axes.text(1.025, y, words, transform=beside, fontsize=9, color=colour, va="center")


def _words(row: Row, scale: Scale) -> str:
    assert row.verdict is not None and row.verdict.difference is not None
    if row.verdict.verdict not in ("better", "worse"):
        return row.verdict.verdict
    return f"{row.verdict.verdict} by {scale.text(abs(row.verdict.difference))}"


def curve_plot(rows: Sequence[Row], shown: Measure | None, *, width: float = 7.6) -> str:
    """The mean curve of each variant's validation with a band from its lowest to its highest run. An SVG document.

    Without what is `shown`, the share of the initial loss that is gone, in percent.
    """
    value = shown.curve if shown else improvement_curve
    figure = new_figure(width, 3.7)
    labels_width = LABELS if width >= 6 else 1.35
    axes = figure.add_axes((0.56 / width, 0.125, 1 - (0.56 + labels_width) / width, 0.845))
    labels, settled = [], []
    for position, row in enumerate(rows):
        steps, low, mean, high = _band(row.runs, value)
        if not len(steps):
            continue
        look = style_of(position)
        if len(row.runs) > 1:
            axes.fill_between(steps, low, high, color=look["color"], alpha=0.16, linewidth=0)
        axes.plot(steps, mean, linewidth=2.2 if position == 0 else 1.7, zorder=3 - (position > 0), **look)
        if len(steps) == 1:
            axes.plot(steps, mean, "o", color=look["color"], markersize=4)
        labels.append(Label(float(mean[-1]), _short(row.name, 25 if width >= 6 else 16), look["color"]))
        late = steps >= BEGINNING * steps[-1]
        settled += [*low[late], *high[late]]
    tidy(axes)
    axes.set_xlabel("step", fontsize=9)
    axes.set_ylabel(shown.unit if shown else "loss lost, % of its initial value", fontsize=9)
    if settled:
        margin = 0.05 * (max(settled) - min(settled)) or 0.1
        axes.set_ylim(min(settled) - margin, max(settled) + margin)
    place(axes, labels)
    return figure.svg()


def difference_plot(rows: Sequence[Row], *, unit: str, width: float = 7.6) -> str:
    """Change minus baseline at each evaluation, with the verdict's interval there as a band. An SVG document."""
    figure = new_figure(width, 3.4)
    labels_width = LABELS if width >= 6 else 1.35
    axes = figure.add_axes((0.88 / width, 0.135, 1 - (0.88 + labels_width) / width, 0.83))
    axes.axhline(0, color=MUTED, linewidth=1.1, zorder=1)
    labels, settled = [], [0.0]
    for position, row in enumerate(rows):
        curve = row.verdict.curve if row.verdict is not None else None
        if curve is None:
            continue
        look = style_of(position)
        axes.fill_between(curve.steps, curve.low, curve.high, color=look["color"], alpha=0.14, linewidth=0)
        axes.plot(curve.steps, curve.difference, linewidth=1.7, **look)
        labels.append(Label(curve.difference[-1], _short(row.name, 25 if width >= 6 else 16), look["color"]))
        late = [at for at, step in enumerate(curve.steps) if step >= BEGINNING * curve.steps[-1]]
        settled += [curve.low[at] for at in late] + [curve.high[at] for at in late]
    tidy(axes)
    axes.set_xlabel("step", fontsize=9)
    axes.set_ylabel(f"change − baseline, {unit}", fontsize=9)
    margin = 0.05 * (max(settled) - min(settled)) or 0.1
    axes.set_ylim(min(settled) - margin, max(settled) + margin)
    place(axes, labels)
    return figure.svg()


def improvement_curve(run: RunResult) -> Sequence[float]:
    """Percent of the untrained model's loss that are gone at each evaluation, both on the same tokens; nothing where
    the untrained model was not evaluated on those."""
    curve = run.curve
    if run.initial_loss is None or not curve.losses:  # a tuning starts from no untrained model
        return []
    initial = curve.losses[0] if curve.steps[0] == 0 else None if curve.of_a_part(run) else run.initial_loss
    return [100 * (1 - loss / initial) for loss in curve.losses] if initial else []


def _band(
    runs: Sequence[RunResult], value: Callable[[RunResult], Sequence[float]]
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Steps, lowest, mean and highest of the runs that have got there."""
    by_step: dict[int, list[float]] = {}
    for run in runs:
        for step, number in zip(run.curve.steps, value(run), strict=False):
            if np.isfinite(number):
                by_step.setdefault(step, []).append(number)
    steps = sorted(by_step)
    columns = [[low(by_step[step]) for step in steps] for low in (min, np.mean, max)]
    return np.array(steps, float), *(np.array(column, float) for column in columns)  # type: ignore[return-value]


COSTS = {"seconds": "training seconds", "flops": "FLOPs", "parameters": "parameters"}


def costs_that_differ(rows: Sequence[Row]) -> list[str]:
    """The costs in which variants differ by more than a hundredth; the time, which is always measured, first."""
    differing = []
    for name in COSTS:
        values = [getattr(row, name) for row in rows if getattr(row, name) is not None]
        if len(values) > 1 and max(values) > (1 if name == "seconds" else 1.01) * min(values):
            differing.append(name)
    return differing


def cost_plot(rows: Sequence[Row], scale: Scale, cost: str, *, width: float = 7.6) -> str:
    """Quality over what it cost: a dot for each variant, a line from its lowest to its highest run. An SVG document."""
    figure = new_figure(width, 3.7)
    labels_width = LABELS if width >= 6 else 1.35
    axes = figure.add_axes((0.66 / width, 0.135, 1 - (0.66 + labels_width) / width, 0.835))
    factor = scale.factor
    labels, heights = [], []
    for position, row in enumerate(rows):
        pairs = [(getattr(run, cost), run.metric) for run in row.runs]
        pairs = [(x, factor * y) for x, y in pairs if x is not None and y is not None and np.isfinite(y)]
        flat = row.verdict is not None and row.verdict.learned_nothing
        if not pairs or row.kind == "failed" or flat:  # what learned nothing would press the others flat
            continue
        xs, ys = np.array(pairs, float).T
        colour = style_of(position)["color"]
        axes.plot([xs.mean()] * 2, [ys.min(), ys.max()], color=colour, linewidth=1.6, alpha=0.5)
        axes.plot([xs.min(), xs.max()], [ys.mean()] * 2, color=colour, linewidth=1.6, alpha=0.5)
        axes.plot(
            xs.mean(),
            ys.mean(),
            "s" if position == 0 else "o",
            color=colour,
            markersize=8,
            markeredgecolor=PAPER,
        )
        labels.append(Label(float(ys.mean()), _short(row.name, 25 if width >= 6 else 16), colour))
        heights += [ys.min(), ys.max()]
    tidy(axes)
    axes.margins(x=0.09)
    _cost_ticks(axes, cost)
    axes.set_xlabel(COSTS[cost], fontsize=9)
    axes.set_ylabel(scale.unit.removeprefix("in "), fontsize=9)
    if heights:
        margin = 0.1 * (max(heights) - min(heights)) or 0.1
        axes.set_ylim(min(heights) - margin, max(heights) + margin)
    place(axes, labels)
    return figure.svg()


def _cost_ticks(axes: Axes, cost: str) -> None:
    from matplotlib.ticker import EngFormatter, FuncFormatter, MaxNLocator

    axes.xaxis.set_major_locator(MaxNLocator(4))
    if cost == "seconds":
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.4g}"))
    elif cost == "parameters":
        axes.xaxis.set_major_formatter(EngFormatter(sep=" "))
    else:
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.3g}"))


def _short(name: str, most: int) -> str:
    return name if len(name) <= most else name[: most - 1].rstrip() + "…"


def _wrapped(name: str, most: int) -> str:
    import textwrap

    return "\n".join(textwrap.wrap(name, most, max_lines=2, placeholder="…"))
