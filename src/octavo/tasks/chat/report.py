"""What the page of a run that learned from pairs shows: the likelihood of both answers over the steps, and whether it
is as often right as it claims.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from octavo.report.plots import BASELINE, INK, SOURCE, VALIDATION, inline, new_figure, series, tidy
from octavo.task import Page

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from octavo.report.figure import Plot

SIDES = {"chosen": SOURCE, "rejected": VALIDATION}


def of_preferences(data: Page, wide: float, narrow: float) -> dict[str, Any]:
    """What the page needs; nothing where no pairs were learned."""
    from markupsafe import Markup

    rows = [row for row in data.rows("validation") if "chosen" in row]
    widths = {"wide": wide, "narrow": narrow} if rows else {}
    plots = [
        Markup(inline(sides_plot(data, width).svg(), f"sides-{name}", title="Likelihood of both answers"))  # noqa: S704 — our own
        for name, width in widths.items()
    ]
    sure = (data.evaluation.get("preferences") or {}).get("calibration")
    drawn = (
        Markup(inline(calibration_plot(sure).svg(), "calibration", title="How sure and how often right"))  # noqa: S704 — our own
        if sure
        else None
    )
    return {"sides_plots": plots, "calibration_plot": drawn, "calibration": sure}


def sides_plot(data: Page, width: float) -> Plot:
    """The log-likelihood of held-out answers, chosen and rejected, and their margin over the start's."""
    narrow = width < 6
    figure = new_figure(width, 4.6 if narrow else 2.5)
    first, second = figure.subplots(2, 1) if narrow else figure.subplots(1, 2)
    for name, colour in SIDES.items():
        _curve(first, data, name, colour)
    _curve(second, data, "margin", VALIDATION)
    first.set_title("log-likelihood, nats an answer", loc="left", fontsize=9.5, color=INK)
    first.legend(fontsize=8.5, frameon=False)
    second.set_title("margin over the start", loc="left", fontsize=9.5, color=INK)
    for axes in (first, second):
        tidy(axes)
        axes.set_xlabel("step")
        axes.yaxis.set_major_formatter("{x:g}")
    figure.tight_layout(pad=0.6, w_pad=2.5, h_pad=1.2)
    return figure


def calibration_plot(calibration: Mapping[str, Any]) -> Plot:
    """How often it is right, with intervals, against how sure it is; a perfect model lies on the dashes."""
    figure = new_figure(4.6, 3.2)
    axes = figure.subplots()
    bins = calibration["bins"]
    sure, right = [one["sure"] for one in bins], [one["right"] for one in bins]
    errors = [[one["right"] - one["low"] for one in bins], [one["high"] - one["right"] for one in bins]]
    axes.plot([0.5, 1], [0.5, 1], color=BASELINE, linewidth=1.1, linestyle=(0, (5, 3)))
    axes.errorbar(
        sure, right, yerr=errors, color=VALIDATION, marker="o", markersize=4, linewidth=1.4, capsize=2
    )
    tidy(axes)
    axes.set_xlabel("how sure it is")
    axes.set_ylabel("how often it is right")
    axes.set_xlim(0.48, 1.02)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter("{x:.0%}")
    axes.set_xticks([0.5, 0.6, 0.7, 0.8, 0.9, 1.0])
    figure.tight_layout(pad=0.6)
    return figure


def _curve(axes: Axes, data: Page, key: str, colour: str) -> None:
    steps, values = series(data.rows("validation"), key)
    axes.plot(steps, values, color=colour, linewidth=1.8, marker="o", markersize=3.2, label=key)
