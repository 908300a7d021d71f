"""A run's curves as SVG. The same numbers give the same bytes."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from octavo.report.data import ReportData
from octavo.util.terminal import finite

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis

    from octavo.report.figure import Plot

# Okabe and Ito's palette, told apart by every kind of colour vision; each name becomes a CSS variable.
PAPER, INK, MUTED, GRID = "#fefefe", "#1d2329", "#66707a", "#e4e7ea"
TRAIN, VALIDATION, BASELINE, SOURCE = "#56b4e9", "#d55e00", "#7a828a", "#009e73"
VARIABLES = {
    PAPER: "paper",
    INK: "ink",
    MUTED: "muted",
    GRID: "grid",
    TRAIN: "train",
    VALIDATION: "model",
    BASELINE: "baseline",
    SOURCE: "source",
}
MOST_TICKS = 7
"""On a logarithmic axis."""

LINE_HEIGHT = 0.052
"""Least distance between two labels, in heights of the loss plot."""

LABEL_SIZE = 9
"""Of the text, in points."""

FAR = 2.5
"""A baseline this many times as far from the lowest loss as the next one is left out of the plot."""


class Label(NamedTuple):
    """Words next to the plot, at the height of what they name."""

    y: float
    text: str
    colour: str


def loss_plot(data: ReportData, *, width: float = 7.6) -> Plot:
    """Training and validation loss over the steps, among the baselines; `width` in inches."""
    figure = new_figure(width, 4.0)
    axes = figure.add_axes((0.5 / width, 0.115, 1 - 2.22 / width, 0.805))
    labels = _curves(axes, data) + _references(axes, data)
    _limits(axes, data)
    axes.set_xlabel("step")
    axes.set_ylabel(data.unit)
    tidy(axes)
    # Labels stand to the right of the axes, in a column that holds the longest, however wide the plot is.
    left = max(0.5, 0.33 + _inches(_ticks(axes.yaxis)))
    right = max(1.72, 0.25 + _inches([label.text for label in labels]))
    axes.set_position((left / width, 0.115, 1 - (left + right) / width, 0.805))
    place(axes, labels)
    return figure


def progress_plot(data: ReportData, *, width: float = 7.6) -> str:
    """Learning rate and gradient norm over the steps: side by side, or stacked if narrow. An SVG document."""
    narrow = width < 6
    figure = new_figure(width, 3.6 if narrow else 1.9)
    panels = figure.subplots(2, 1) if narrow else figure.subplots(1, 2)
    for axes, key, title in zip(
        panels, ("learning_rate", "gradient_norm"), ("learning rate", "gradient norm"), strict=True
    ):
        steps, values = series(data.rows("train"), key)
        axes.plot(steps, values, color=TRAIN, linewidth=1.4, **_dot(steps))
        axes.set_title(title, loc="left", fontsize=9.5, color=INK, y=1.0)
        axes.set_ylim(0, 1.1 * np.quantile(values, 0.995) if len(values) and values.any() else 1)
        tidy(axes)
        axes.yaxis.set_major_formatter("{x:g}")
    _side_by_side(figure, panels, 1 if narrow else 2)
    return figure.svg()


def _side_by_side(figure: Plot, panels: Sequence[Axes], columns: int) -> None:
    """Rows of panels that fill the figure, with room for their titles and the longest label of their ticks. What
    matplotlib's own layout would find, without drawing everything twice."""
    width, height = figure.get_size_inches()
    left, above, below = 0.12 + max(_inches(_ticks(axes.yaxis)) for axes in panels), 0.3, 0.27
    right = max(0.1, *(_inches(_ticks(axes.xaxis)) / 2 for axes in panels))
    wide, high = width / columns, height / -(-len(panels) // columns)
    for number, axes in enumerate(panels):
        row, column = divmod(number, columns)
        x, y = column * wide + left, height - (row + 1) * high + below
        axes.set_position(
            (x / width, y / height, (wide - left - right) / width, (high - above - below) / height)
        )


def series(rows: list[dict[str, Any]], key: str) -> tuple[np.ndarray, np.ndarray]:
    """Steps and values of the rows that have a finite value."""
    pairs = [(row["step"], number) for row in rows if (number := finite(row.get(key))) is not None]
    steps, values = zip(*pairs, strict=True) if pairs else ((), ())
    return np.array(steps, float), np.array(values, float)


def smoothed(values: np.ndarray) -> np.ndarray:
    """A running mean over some twentieth of the values; narrower at the start, where a loss falls steeply."""
    reach = len(values) // 40
    sums = np.concatenate(([0.0], np.cumsum(values)))
    centre = np.arange(len(values))
    first = centre - np.minimum(reach, centre)
    beyond = np.minimum(centre + np.minimum(reach, centre) + 1, len(values))
    return (sums[beyond] - sums[first]) / (beyond - first)


def spread(heights: Sequence[float], distance: float) -> list[float]:
    """The heights, moved apart as little as needed to be `distance` from each other; the order stays.

    None leaves 0 to 1 that fits into it.
    """
    order = np.argsort(heights, kind="stable")
    groups: list[list[float]] = []  # [sum of wished heights less their offsets, count]
    for index in order:
        groups.append([heights[index], 1])
        while len(groups) > 1 and _bottom(groups[-1], distance) < _top(groups[-2], distance) + distance:
            total, count = groups.pop()
            groups[-1][0] += total
            groups[-1][1] += count
    placed = [0.0] * len(heights)
    position = iter(order)
    for group in groups:
        for offset in range(int(group[1])):
            placed[next(position)] = _bottom(group, distance) + offset * distance
    room = 1 - (len(heights) - 1) * distance
    for rank, index in enumerate(order):
        if room > 0:
            placed[index] = min(max(placed[index] - rank * distance, 0.0), room) + rank * distance
    return placed


def _bottom(group: list[float], distance: float) -> float:
    return group[0] / group[1] - distance * (group[1] - 1) / 2


def _top(group: list[float], distance: float) -> float:
    return group[0] / group[1] + distance * (group[1] - 1) / 2


def _curves(axes: Axes, data: ReportData) -> list[Label]:
    labels = []
    steps, losses = training(data)
    if len(steps):
        smooth = smoothed(losses)
        axes.plot(steps, losses, color=TRAIN, alpha=0.28, linewidth=0.8)
        axes.plot(steps, smooth, color=TRAIN, linewidth=1.8, **_dot(steps))
        labels.append(Label(smooth[-1], f"training {smooth[-1]:.3f}", TRAIN))
    steps, losses = series(data.rows("validation"), "loss")
    if len(steps):
        best = int(losses.argmin())
        axes.plot(steps, losses, color=VALIDATION, linewidth=2.0, marker="o", markersize=3.2)
        axes.plot(
            steps[best],
            losses[best],
            marker="o",
            markersize=8.5,
            markerfacecolor=PAPER,
            markeredgecolor=VALIDATION,
            markeredgewidth=2,
            zorder=5,
            clip_on=False,
        )
        labels.append(Label(losses[-1], f"validation {losses[-1]:.3f}", VALIDATION))
        axes.set_title(
            f"○ best validation loss {losses[best]:.4f} at step {steps[best]:,.0f}",
            loc="right",
            fontsize=9,
            color=VALIDATION,
            y=1.0,
        )
    return labels


def training(data: ReportData) -> tuple[np.ndarray, np.ndarray]:
    """Steps and losses of the batches; none where a reward teaches, for then they are no loss of texts."""
    return series([row for row in data.rows("train") if "reward" not in row], "loss")


def _references(axes: Axes, data: ReportData) -> list[Label]:
    """A level line for each predictor that can be compared per token and lies near enough."""
    labels = _near(data)
    for label in labels:
        axes.axhline(label.y, color=label.colour, linewidth=1.1, linestyle=(0, (5, 3)), zorder=1)
    return labels


def _near(data: ReportData) -> list[Label]:
    """The predictors to draw: without uniform, and without those so far up that the rest would be pressed flat."""
    found = [
        Label(row.loss, f"{row.name} {row.loss:.3f}", SOURCE if row.kind == "source" else BASELINE)
        for row in data.standings()
        if row.loss is not None and row.kind != "model" and row.name != "uniform"
    ]
    found.sort()
    curves = np.concatenate([series(data.rows(event), "loss")[1] for event in ("train", "validation")])
    lowest = min([*curves.tolist(), *(label.y for label in found)], default=0.0)
    near = found[:2]
    for label in found[2:]:
        if label.y - lowest > FAR * (near[-1].y - lowest):
            break
        near.append(label)
    return near


def _limits(axes: Axes, data: ReportData) -> None:
    """Show everything from the best to the worst baseline; of the first, steep steps only the end."""
    train = training(data)[1]
    validation = series(data.rows("validation"), "loss")[1]
    lines = [label.y for label in _near(data)]
    seen = np.concatenate([train, validation, lines])
    if not len(seen):
        axes.set_ylim(0, 1)
        return
    start = [] if lines or not len(train) else [float(np.quantile(train, 0.97))]
    low, high = seen.min(), min(max([*lines, *validation.tolist(), *start]), seen.max())
    margin = 0.06 * (high - low) or 0.5
    axes.set_ylim(low - margin, high + margin)


def place(axes: Axes, labels: list[Label]) -> None:
    """Labels in the column on the right, joined to their height by a hairline where they had to move."""
    low, high = axes.get_ylim()
    wished = [min(1.0, max(0.0, (label.y - low) / (high - low))) for label in labels]
    for label, wish, height in zip(labels, wished, spread(wished, LINE_HEIGHT), strict=True):
        axes.annotate(
            label.text,
            xy=(1, wish),
            xytext=(1.0, height),
            xycoords="axes fraction",
            textcoords=_beside(axes),
            va="center",
            fontsize=LABEL_SIZE,
            color=label.colour,
            arrowprops={
                "arrowstyle": "-",
                "color": label.colour,
                "linewidth": 0.7,
                "relpos": (0, 0.5),
                "shrinkA": 1,
                "shrinkB": 1,
            },
        )


def _ticks(axis: Axis) -> list[str]:
    return axis.get_major_formatter().format_ticks(axis.get_majorticklocs().tolist())


def _inches(texts: Sequence[str]) -> float:
    """How wide the longest is."""
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import text_to_path

    font = FontProperties(size=LABEL_SIZE)
    widths = [text_to_path.get_text_width_height_descent(text, font, ismath=False)[0] for text in texts]
    return max(widths, default=0.0) / 72


def _beside(axes: Axes) -> Any:  # matplotlib has no public name for it
    from matplotlib.transforms import ScaledTranslation

    figure = axes.get_figure()
    assert figure is not None
    return axes.transAxes + ScaledTranslation(14 / 72, 0, figure.dpi_scale_trans)


def _dot(points: Sequence[Any] | np.ndarray) -> dict[str, Any]:
    """A single point makes no line, so it is drawn as a dot."""
    return {"marker": "o", "markersize": 4} if len(points) == 1 else {}


def new_figure(width: float, height: float) -> Plot:
    """An empty figure in inches."""
    from octavo.report.figure import Plot  # matplotlib, which takes a second to load

    return Plot(width, height, paper=PAPER)


def tidy(axes: Axes) -> None:
    """The look of all our axes: a pale grid, no frame, whole numbers along the bottom."""
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    axes.set_facecolor(PAPER)
    axes.grid(visible=True, color=GRID, linewidth=0.8)
    axes.set_axisbelow(True)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.spines["bottom"].set_color(MUTED)
    axes.tick_params(colors=MUTED, labelsize=8.5, length=0, pad=5)
    axes.xaxis.label.set_color(MUTED)
    axes.yaxis.label.set_color(MUTED)
    axes.xaxis.set_major_locator(MaxNLocator(5, integer=True))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    axes.yaxis.set_major_locator(MaxNLocator(5))
    axes.margins(x=0.015)


def log_axis(axes: Axes, which: Literal["x", "y"]) -> None:
    """A logarithmic axis with ticks at 1, 2 and 5 × 10^n, or at powers of ten where those are too many; none between.

    Call it last: its limits move outwards where fewer than two ticks would be seen.
    """
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    getattr(axes, f"set_{which}scale")("log")
    low, high = getattr(axes, f"get_{which}lim")()
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    round_numbers = [float(f"{digit}e{power}") for power in powers for digit in (1, 2, 5)]
    if sum(low <= number <= high for number in round_numbers) < 2:
        low = max((number for number in round_numbers if number <= low), default=low)
        high = min((number for number in round_numbers if number >= high), default=high)
        getattr(axes, f"set_{which}lim")(low, high)
    ticks = [number for number in round_numbers if low <= number <= high]
    if len(ticks) > MOST_TICKS:
        ticks = [number for number in ticks if f"{number:e}"[0] == "1"]
        ticks = ticks[:: -(-len(ticks) // MOST_TICKS)]
    axis = getattr(axes, f"{which}axis")
    axis.set_major_locator(FixedLocator(ticks))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(FuncFormatter(lambda value, _: _counted(value)))


def _counted(value: float) -> str:
    for size, word in ((1e9, " G"), (1e6, " M")):
        if value >= size:
            return f"{value / size:,g}{word}"
    return f"{value:,.0f}" if value >= 1 else f"{value:g}"


def inline(svg: str, name: str, *, title: str, variables: Mapping[str, str] = VARIABLES) -> str:
    """An SVG document as part of a page: colours follow the page's, ids are its own (`name` in front).

    `variables`: by colour, the name of the CSS variable that takes its place.
    """
    svg = svg[svg.index("<svg") :]
    for colour, variable in variables.items():
        svg = svg.replace(colour, f"var(--{variable})")
    svg = re.sub(r'\bid="', f'id="{name}-', svg)
    svg = (
        re.sub(r'href="#', f'href="#{name}-', svg)
        .replace("url(#", f"url(#{name}-")
        .replace("xlink:href", "href")
    )
    svg = svg.replace(' xmlns:xlink="http://www.w3.org/1999/xlink"', "")
    # Width and height in points would fix the size; the viewBox alone lets the page choose.
    svg = re.sub(r'(<svg[^>]*?) width="[^"]*"', r"\1", svg, count=1)
    svg = re.sub(r'(<svg[^>]*?) height="[^"]*"', r"\1", svg, count=1)
    return svg.replace("<svg", f'<svg class="{name}" role="img" aria-label="{title}"', 1)


# Pictures of a corpus as SVG. The same numbers give the same bytes.

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
    """Histogram of documents by their number of words."""
    figure, axes = _panel("words in a document", "documents")
    places = range(len(histogram))
    axes.bar(places, [count for _, _, count in histogram], color=TRAIN, width=0.86)
    tidy(axes)
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
    figure = new_figure(WIDTH, HEIGHT)
    axes = figure.add_axes((0.17, 0.17, 0.78, 0.72))
    axes.set_xlabel(across)
    axes.set_ylabel(up)
    return figure, axes


def _finished(figure: Plot, axes: Axes, logarithmic: Literal["x", "xy"]) -> str:
    tidy(axes)
    log_axis(axes, "x")
    if logarithmic == "xy":
        log_axis(axes, "y")
    return figure.svg()
