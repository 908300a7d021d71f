"""Pictures of a corpus as SVG. The same numbers give the same bytes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

from octavo.report import plots
from octavo.report.plots import BASELINE, INK, MUTED, SOURCE, TRAIN, VALIDATION

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from octavo.report.figure import Plot

WIDTH, HEIGHT = 5.2, 3.1
"""Inches of one picture."""


def growth_plot(growth: Sequence[tuple[int, int]], heaps: tuple[float, float] | None) -> str:
    """Distinct words against running words, with Heaps' law where it was fitted."""
    figure, axes = _panel("running words", "distinct words")
    words, distinct = zip(*growth, strict=True)
    axes.plot(words, distinct, color=TRAIN, linewidth=2, **_dot(words))
    if heaps:
        fitted = [heaps[0] * count ** heaps[1] for count in words]
        axes.plot(words, fitted, color=BASELINE, linewidth=1.1, linestyle=(0, (5, 3)))
        axes.set_title(f"dashed: {heaps[0]:.1f} · words^{heaps[1]:.2f}", loc="right", fontsize=9, color=MUTED)
    return _finished(figure, axes, "xy")


def coverage_plot(coverage: Sequence[tuple[int, float]]) -> str:
    """Share of the running words that the most frequent make up, against how many they are."""
    figure, axes = _panel("words in the vocabulary", "% of running words")
    sizes, shares = zip(*coverage, strict=True)
    axes.plot(sizes, [100 * share for share in shares], color=TRAIN, linewidth=2, **_dot(sizes))
    axes.set_ylim(0, 103)
    return _finished(figure, axes, "x")


def length_plot(histogram: Sequence[tuple[int, int, int]]) -> str:
    """Documents by their words."""
    figure, axes = _panel("words in a document", "documents")
    places = range(len(histogram))
    axes.bar(places, [count for _, _, count in histogram], color=TRAIN, width=0.86)
    plots.tidy(axes)
    step = max(1, -(-len(histogram) // 8))
    axes.set_xticks(list(places)[::step], [f"{low:,}" for low, _, _ in histogram][::step])
    axes.grid(visible=False, axis="x")
    return figure.svg()


def kept_plot(curve: Sequence[dict[str, Any]], chosen: int) -> str:
    """Documents kept, and running words covered, against the size of the vocabulary."""
    figure, axes = _panel("words and marks in the vocabulary", "%")
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
    axes.set_ylim(0, 103)
    axes.legend(loc="upper left", fontsize=8.5, frameon=False, labelcolor=INK)
    return _finished(figure, axes, "x")


def _panel(across: str, up: str) -> tuple[Plot, Axes]:
    figure = plots.new_figure(WIDTH, HEIGHT)
    axes = figure.add_axes((0.17, 0.17, 0.78, 0.72))
    axes.set_xlabel(across)
    axes.set_ylabel(up)
    return figure, axes


def _finished(figure: Plot, axes: Axes, logarithmic: Literal["x", "xy"]) -> str:
    plots.tidy(axes)
    plots.log_axis(axes, "x")
    if logarithmic == "xy":
        plots.log_axis(axes, "y")
    return figure.svg()


def _dot(points: Sequence[Any]) -> dict[str, Any]:
    return {"marker": "o", "markersize": 4} if len(points) == 1 else {}
