"""octavo forecast: sample paths of the rows that follow, and their quantiles."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter, validators

from octavo.cli.common import (
    Force,
    Json,
    RunPath,
    Which,
    Whole,
    WholeSeed,
    complain,
    print_json,
    print_table,
    show,
    the_run,
)

Positive = validators.Number(gte=1)
Tables = Annotated[
    list[str] | None,
    Parameter(
        help="Tables, or folders of them: CSV, TSV, columns parted by white space, Parquet, NPZ.",
        consume_multiple=True,
        negative="",
    ),
]


def forecast_command(
    run: RunPath = None,
    *,
    text: Tables = None,
    steps: Annotated[
        Whole | None,
        Parameter(
            help="Rows to forecast; default: those at the file's end that have no channels.",
            validator=Positive,
        ),
    ] = None,
    samples: Annotated[
        Whole, Parameter(help="Paths that are drawn.", validator=validators.Number(gte=2))
    ] = 200,
    seed: WholeSeed = 0,
    out: Annotated[
        Path | None, Parameter(help="A file for all paths and quantiles: .csv, .json or .parquet.")
    ] = None,
    plot: Annotated[Path | None, Parameter(help="A file for a plot with fans: .svg or .png.")] = None,
    force: Force = False,
    checkpoint: Which = "best",
    json: Json = False,
) -> int:
    """Forecast what follows each series of a table.

    Rows at a file's end without channels are those to come: they say the covariates, and how many steps.

    For example:

    octavo forecast runs/forces --text runner.txt --steps 60 --samples 500 --out paths.csv --plot fan.svg
    """
    from octavo.errors import InputError
    from octavo.run.run import Run
    from octavo.tasks.forecast.evaluate import summary
    from octavo.tasks.forecast.files import plot_forecast, target, write_forecast
    from octavo.util.output import all_or_none
    from octavo.util.terminal import Console

    run = the_run(run, text=True)
    inputs = (run, *(text or ()))
    table, picture = (target(*one, inputs=inputs, force=force) for one in (("--out", out), ("--plot", plot)))
    loaded = Run.open(run, checkpoint=checkpoint)
    if not text and loaded.config.model.takes_vectors:
        raise InputError(
            "Forecast what?", remedy="--text FILE, a table with the columns that the run learned from"
        )
    forecasts = loaded.forecast(
        text or (), steps=steps, samples=samples, seed=seed, console=Console(quiet=json)
    )
    complain(f"seed {seed}")
    with all_or_none(table, picture):
        if table:
            write_forecast(forecasts, table)
        if picture:
            plot_forecast(forecasts[0], picture)
    if picture and len(forecasts) > 1:
        complain(f"{plot} shows the first of {len(forecasts)} series")
    if json:
        print_json([summary(one) for one in forecasts])
        return 0
    show_quantiles([summary(one) for one in forecasts])
    for path in (out, plot):
        if path is not None:
            show(f"wrote {path}")
    return 0


def told_apart(numbers: Sequence[float]) -> list[str]:
    """Numbers with as many digits as tell them apart, four at least: 1013.24 and 1013.27, 3.1e-06 and 4.25e-06."""
    spread, largest = max(numbers) - min(numbers), max(map(abs, numbers))
    digits = 4
    if spread > 0 and math.isfinite(largest):
        digits = min(max(4, math.floor(math.log10(largest)) - math.floor(math.log10(spread)) + 2), 9)
    return [f"{number:.{digits}g}" for number in numbers]


def show_quantiles(forecasts: Sequence[Mapping[str, Any]]) -> None:
    """Of each series and channel, the quantiles of some steps."""
    for one in forecasts:
        show(one["name"])
        for name, channel in one["channels"].items():
            levels = channel["quantiles"]
            last = len(levels["50"])
            places = sorted({1, max(1, last // 4), max(1, last // 2), last})
            rows = [[f"+{step}", *told_apart([levels[q][step - 1] for q in levels])] for step in places]
            print_table(rows, head=[name, *(f"{q} %" for q in levels)])
        show()
