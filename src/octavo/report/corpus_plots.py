"""Pictures of a corpus as SVG. The same numbers give the same bytes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from octavo.report import plots
from octavo.report.plots import BASELINE, INK, MUTED, SOURCE, TRAIN, VALIDATION

if TYPE_CHECKING:
    from matplotlib.axes import Axes

WIDTH, HEIGHT = 5.2, 3.1
"""Inches of one picture."""


def growth_plot(growth: Sequence[tuple[int, int]], heaps: tuple[float, float] | None) -> str:
    """Distinct words against running words, with Heaps' law where it was fitted."""
    figure, style, axes = _panel("running words", "distinct words")
    words, distinct = zip(*growth, strict=True)
    axes.plot(words, distinct, color=TRAIN, linewidth=2, **_dot(words))
    if heaps:
        fitted = [heaps[0] * count ** heaps[1] for count in words]
        axes.plot(words, fitted, color=BASELINE, linewidth=1.1, linestyle=(0, (5, 3)))
        axes.set_title(f"dashed: {heaps[0]:.1f} · words^{heaps[1]:.2f}", loc="right", fontsize=9, color=MUTED)
    axes.set_xscale("log")
    axes.set_yscale("log")
    return _finished(figure, style, axes, logarithmic=True)


def coverage_plot(coverage: Sequence[tuple[int, float]]) -> str:
    """Share of the running words that the most frequent make up, against how many they are."""
    figure, style, axes = _panel("words in the vocabulary", "% of running words")
    sizes, shares = zip(*coverage, strict=True)
    axes.plot(sizes, [100 * share for share in shares], color=TRAIN, linewidth=2, **_dot(sizes))
    axes.set_xscale("log")
    axes.set_ylim(0, 103)
    return _finished(figure, style, axes)


def length_plot(histogram: Sequence[tuple[int, int, int]]) -> str:
    """Documents by their words."""
    figure, style, axes = _panel("words in a document", "documents")
    places = range(len(histogram))
    axes.bar(places, [count for _, _, count in histogram], color=TRAIN, width=0.86)
    plots.tidy(axes)
    step = max(1, -(-len(histogram) // 8))
    axes.set_xticks(list(places)[::step], [f"{low:,}" for low, _, _ in histogram][::step])
    axes.grid(visible=False, axis="x")
    return plots.svg_text(figure, style)


def kept_plot(curve: Sequence[dict[str, Any]], chosen: int) -> str:
    """Documents kept, and running words covered, against the size of the vocabulary."""
    figure, style, axes = _panel("words and marks in the vocabulary", "%")
    sizes = [row["size"] for row in curve]
    for key, colour, label in (
        ("coverage", TRAIN, "running words covered"),
        ("share", VALIDATION, "documents kept"),
    ):
        values = [100 * row[key] for row in curve]
        axes.plot(sizes, values, color=colour, linewidth=2, label=label, **_dot(sizes))
    at = next(row for row in curve if row["size"] == chosen)
    axes.axvline(chosen, color=SOURCE, linewidth=1.1, linestyle=(0, (5, 3)))
    axes.set_title(
        f"{chosen:,} words: {at['share']:.1%} of the documents", loc="right", fontsize=9, color=SOURCE
    )
    axes.set_xscale("log")
    axes.set_ylim(0, 103)
    axes.legend(loc="upper left", fontsize=8.5, frameon=False, labelcolor=INK)
    return _finished(figure, style, axes)


def _panel(across: str, up: str) -> tuple[Any, dict[str, Any], Axes]:
    figure, style = plots.new_figure(WIDTH, HEIGHT)
    axes = figure.add_axes((0.14, 0.17, 0.83, 0.72))
    axes.set_xlabel(across)
    axes.set_ylabel(up)
    return figure, style, axes


def _finished(figure: Any, style: dict[str, Any], axes: Axes, *, logarithmic: bool = False) -> str:
    """The picture, with round numbers on its logarithmic axes."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    plots.tidy(axes)
    numbers = FuncFormatter(lambda value, _: f"{value:,.0f}")
    for axis in (axes.xaxis, axes.yaxis) if logarithmic else (axes.xaxis,):
        low, high = axis.get_view_interval()
        few = high / max(low, 1) > 1000
        axis.set_major_locator(LogLocator(subs=(1.0,) if few else (1.0, 2.0, 5.0)))
        axis.set_major_formatter(numbers)
        axis.set_minor_formatter(NullFormatter())
    axes.tick_params(which="minor", length=0)
    return plots.svg_text(figure, style)


def _dot(points: Sequence[Any]) -> dict[str, Any]:
    return {"marker": "o", "markersize": 4} if len(points) == 1 else {}
