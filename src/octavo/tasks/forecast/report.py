"""What a forecaster's page shows: a fan of one forecast, how wide its intervals really are, and its scores beside those
of simple predictors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from octavo.report.plots import BASELINE, INK, SOURCE, TRAIN, VALIDATION, new_figure, tidy
from octavo.tasks.forecast.stored import OWN, ahead, main_horizon
from octavo.util.output import Output
from octavo.util.terminal import significant

if TYPE_CHECKING:
    from octavo.report.figure import Plot

FANS = (("2.5", "97.5", 0.18), ("10", "90", 0.26), ("25", "75", 0.36))
"""The central 95, 80 and 50 %, and how dark they are."""

COLUMNS = (
    ("nll", "NLL"),
    ("scaled_crps", "CRPS"),
    ("scaled_energy", "energy score"),
    ("mase", "MASE"),
)
"""Scores of all channels together; those that an evaluation has."""


def fan_plot(
    history: np.ndarray,
    quantiles: Mapping[str, np.ndarray],
    channels: Sequence[str],
    *,
    paths: np.ndarray | None = None,
    truth: np.ndarray | None = None,
    width: float = 7.6,
) -> Plot:
    """History (L, C), then quantiles (steps, C) as fans, some paths (M, steps, C) and what came (steps, C)."""
    shown = len(channels)
    figure = new_figure(width, 0.6 + 1.5 * shown)
    panels = np.atleast_1d(figure.subplots(shown, 1, sharex=True))
    past = np.arange(-len(history) + 1, 1)
    for place, (axes, name) in enumerate(zip(panels, channels, strict=True)):
        last = history[-1:, place]
        after = np.arange(len(quantiles["50"]) + 1)
        for low, high, shade in FANS:
            edges = [np.concatenate([last, quantiles[level][:, place]]) for level in (low, high)]
            axes.fill_between(after, *edges, color=VALIDATION, alpha=shade, linewidth=0)
        for path in () if paths is None else paths:
            axes.plot(
                after, np.concatenate([last, path[:, place]]), color=VALIDATION, alpha=0.35, linewidth=0.6
            )
        middle = np.concatenate([last, quantiles["50"][:, place]])
        axes.plot(after, middle, color=VALIDATION, linewidth=1.4, label="median")
        axes.plot(past, history[:, place], color=INK, linewidth=1.1)
        if truth is not None:
            axes.plot(
                after[1:], truth[:, place], color=SOURCE, linewidth=1.2, linestyle="--", label="what came"
            )
        axes.set_title(name, loc="left", fontsize=9.5, color=INK)
        tidy(axes)
        axes.xaxis.get_major_locator().set_params(integer=True)
    if truth is not None:
        panels[0].legend(fontsize=8, frameon=False, loc="upper left")
    panels[-1].set_xlabel("steps from where the forecast begins", fontsize=9)
    figure.tight_layout(pad=0.6)
    return figure


def example_plot(forecast: Mapping[str, Any], *, width: float = 7.6) -> Plot:
    """One forecast as fans, and what came."""
    one = forecast["example"]

    def numbers(values: Any) -> np.ndarray:
        return np.array(values, float)  # None becomes NaN

    quantiles = {level: numbers(values) for level, values in one["quantiles"].items()}
    parts = {"paths": numbers(one["paths"]), "truth": numbers(one["truth"])}
    return fan_plot(numbers(one["history"]), quantiles, forecast["channels"], **parts, width=width)


def honesty_plot(forecast: Mapping[str, Any], *, width: float = 7.6) -> Plot:
    """Where what came stood among the draws, in tenths, for each horizon: even bars, if the distributions are right."""
    own = forecast["predictors"][OWN]
    figure = new_figure(width, 1.9)
    panels = np.atleast_1d(figure.subplots(1, len(own), sharey=True))
    for axes, each in zip(panels, own, strict=True):
        axes.bar(np.arange(10) / 10 + 0.05, each["pit"], width=0.09, color=TRAIN)
        axes.axhline(0.1, color=BASELINE, linewidth=1, linestyle="--")
        axes.set_title(ahead(each["horizon"], forecast.get("rate")), loc="left", fontsize=9.5, color=INK)
        tidy(axes)
    figure.tight_layout(pad=0.6)
    return figure


def tables(forecast: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Of each horizon, that which counts first: a table of all channels together and one by channel, as cells of text;
    rows from the best CRPS to the worst, each with whether it is the model's."""
    main = main_horizon(forecast)
    result = []
    for horizon in sorted(forecast["horizons"], key=lambda one: one != main):
        place = forecast["horizons"].index(horizon)
        each = {name: rows[place] for name, rows in forecast["predictors"].items()}
        ordered = sorted(each.items(), key=lambda item: _order(item[1]))
        shown = [(key, label) for key, label in COLUMNS if any(key in row for row in each.values())]
        together = [
            [_cell(row.get(key), key) for key, _ in shown]
            + [f"{100 * row['coverage'][level]:.0f} %" for level in ("50", "80", "95")]
            for _, row in ordered
        ]
        apart = [[_cell(score, "crps") for score in row["crps_by_channel"]] for _, row in ordered]
        kinds = [(name, "model" if name == OWN else "baseline") for name, _ in ordered]
        labels = [*(label for _, label in shown), "in 50 %", "in 80 %", "in 95 %"]
        parts = ((labels, together), ([f"CRPS of {name}" for name in forecast["channels"]], apart))
        result.append(
            {
                "title": ahead(horizon, forecast.get("rate"))
                + ", the horizon that counts" * (horizon == main),
                "parts": [
                    {
                        "head": head,
                        "rows": [
                            {"name": name, "kind": kind, "cells": cells}
                            for (name, kind), cells in zip(kinds, rows, strict=True)
                        ],
                    }
                    for head, rows in parts
                ],
            }
        )
    return result


def _order(row: Mapping[str, Any]) -> float:
    """CRPS of all channels together; earlier versions had MASE alone that no unit matters to."""
    score = row.get("scaled_crps", row.get("mase"))
    return float("inf") if score is None else score


def _cell(score: float | None, key: str) -> str:
    """A score as text: of the log of a density three places, of all else as many digits as say something."""
    if score is None:
        return "—"
    return f"{score:.3f}" if key == "nll" else significant(score)


def of_forecast(evaluation: Mapping[str, Any], wide: float, narrow: float) -> dict[str, Any]:
    """What the page's template needs of an evaluation, which may hold no forecast."""
    from markupsafe import Markup

    from octavo.report.plots import inline

    forecast = evaluation.get("forecast")
    if not forecast:
        return {"forecast_tables": [], "why_no_forecast": evaluation.get("why_no_forecast")}

    def both(draw: Any, name: str, title: str) -> list[Any]:
        sizes = ((wide, "wide"), (narrow, "narrow"))
        return [
            Markup(inline(draw(forecast, width=width).svg(), f"{name}-{size}", title=title))  # noqa: S704 — our own
            for width, size in sizes
        ]

    return {
        "forecast_plots": both(example_plot, "fan", "A forecast as fans, and what came"),
        "honesty_plots": both(honesty_plot, "pit", "Where what came stood among the draws"),
        "forecast_tables": tables(forecast),
        "forecast_facts": f"{forecast['paths']} paths from each of {forecast['origins']} places",
    }


def save_plot(figure: Plot, output: Output) -> None:
    """As SVG or PNG, by the ending of the name. Raises StorageError."""
    if output.path.suffix.lower() == ".svg":
        with output.writing() as file:
            file.write(figure.svg())
        return
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    with output.filling() as aside, aside.open("wb") as file:
        FigureCanvasAgg(figure).print_png(file)
