"""The page of a comparison: one HTML file without scripts or requests."""

from __future__ import annotations

from pathlib import Path

import octavo.report
from octavo.evaluation.where import HEAD, Where, cells
from octavo.ground.pages import templates
from octavo.report.page import NARROW, WIDE
from octavo.report.plots import (
    BASELINE,
    LINE_HEIGHT,
    SOURCE,
    TRAIN,
    VALIDATION,
    Label,
    inline,
    new_figure,
    place,
    tidy,
)
from octavo.runs.comparison import Comparison

COLOURS = (VALIDATION, TRAIN, SOURCE, "#cc79a7", "#b58900", BASELINE)
DRAWN = int(0.8 / LINE_HEIGHT)  # curves whose names still fit next to the plot


def render(found: Comparison, places: Where | None = None) -> str:
    """The page as text; `places`: where one of two is better."""
    from markupsafe import Markup

    drawn = []
    if any(run.curve for run in found.runs):
        drawn = [
            Markup(inline(curves(found, width), f"loss-{name}", title="Bits per byte by step"))  # noqa: S704 — our own
            for width, name in ((WIDE, "wide"), (NARROW, "narrow"))
        ]
    pages = templates(Path(octavo.report.__file__).parent)
    return pages.get_template("comparison.html").render(
        names=found.names,
        notes=found.notes,
        figures=found.figures,
        best=found.best,
        plots=drawn,
        differences=found.differences,
        samples=found.samples,
        head=HEAD,
        places=[(title, [cells(part) for part in parts]) for title, parts in places.tables() if parts]
        if places
        else [],
        prompt=found.prompt,
    )


def curves(found: Comparison, width: float) -> str:
    """Validation bits per byte over the steps, a line for each run; `width` in inches. An SVG document."""
    figure = new_figure(width, 3.6)
    axes = figure.add_axes((0.5 / width, 0.13, 1 - 2.22 / width, 0.82))
    labels = []
    for number, (name, run) in enumerate(zip(found.names, found.runs, strict=True)):
        if not run.curve or len(labels) == DRAWN:
            continue
        colour = COLOURS[number % len(COLOURS)]
        steps, bits = zip(*run.curve, strict=True)
        axes.plot(steps, bits, color=colour, linewidth=1.8, marker="o", markersize=3)
        short = name if len(name) <= 16 else name[:15] + "…"
        labels.append(Label(bits[-1], f"{short} {bits[-1]:.3f}", colour))
    axes.set_xlabel("step")
    axes.set_ylabel("bits per byte")
    tidy(axes)
    place(axes, labels)
    return figure.svg()
