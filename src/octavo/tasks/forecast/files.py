"""Forecasts as files: CSV, JSON, Parquet, and a plot with fans."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from octavo.errors import InputError, MissingExtra
from octavo.tasks.forecast.evaluate import QUANTILES, summary
from octavo.tasks.forecast.scores import quantiles
from octavo.util.output import Output
from octavo.util.records import json_text

KINDS = {"--out": (".csv", ".json", ".parquet"), "--plot": (".svg", ".png")}
HEAD = ("series", "step", "channel", "what", "value")
HISTORY = 150


def target(option: str, path: Path | None, *, inputs: Iterable[str | Path], force: bool) -> Output | None:
    """The file that `--out` or `--plot` names, if it does. Raises InputError for one of an unknown kind, or that may
    not be written; MissingExtra where pyarrow is needed."""
    if path is None:
        return None
    if path.suffix.lower() not in KINDS[option]:
        raise InputError(f"{option} {path}: of what kind? The name ends with {', '.join(KINDS[option])}.")
    if path.suffix.lower() == ".parquet":
        try:
            import pyarrow.parquet  # noqa: F401
        except ImportError as error:
            raise MissingExtra("pyarrow", "data", "Writing Parquet") from error
    return Output(path, inputs=inputs, force=force)


def long_rows(forecast: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, int, str, str, float]]:
    """A row for each number: its series, its step from 1 on, its channel, whether it is of `path 1` or `quantile 2.5`,
    and the number itself."""
    for one in forecast:
        paths: np.ndarray = one["paths"]
        for place, name in enumerate(one["channels"]):
            for step in range(paths.shape[1]):
                drawn = paths[:, step, place]
                for level, value in zip(QUANTILES, quantiles(drawn, QUANTILES), strict=True):
                    yield one["name"], step + 1, name, f"quantile {level:g}", float(value)
                for number, value in enumerate(drawn.tolist(), 1):
                    yield one["name"], step + 1, name, f"path {number}", value


def write_forecast(forecasts: Sequence[Mapping[str, Any]], output: Output) -> None:
    """All quantiles and paths as a file of the kind that its name says. Raises StorageError."""
    kind = output.path.suffix.lower()
    if kind == ".parquet":
        import pyarrow as pa
        import pyarrow.parquet as pq

        table = zip(*long_rows(forecasts), strict=True)
        with output.filling() as aside:
            pq.write_table(pa.table(dict(zip(HEAD, map(list, table), strict=True))), aside)
        return
    with output.writing() as file:
        if kind == ".json":
            file.write(json_text([summary(one) for one in forecasts]))
        else:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(HEAD)
            writer.writerows(long_rows(forecasts))


def plot_forecast(one: Mapping[str, Any], output: Output) -> None:
    """A series' forecast as fans. Raises StorageError."""
    from octavo.tasks.forecast.report import fan_plot, save_plot

    paths: np.ndarray = one["paths"]
    fans = {f"{level:g}": quantiles(paths, level) for level in QUANTILES}
    save_plot(fan_plot(one["history"][-HISTORY:], fans, one["channels"], paths=paths[:5]), output)
