"""Forecasts as files: CSV, JSON, Parquet, and a plot with fans."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from octavo.errors import InputError, MissingExtra
from octavo.ground.files import exists, replace_text, storage_errors
from octavo.runs.forecasts import QUANTILES, summary

KINDS = {"--out": (".csv", ".json", ".parquet"), "--plot": (".svg", ".png")}
HEAD = ("series", "step", "channel", "what", "value")
HISTORY = 150


def check_targets(out: Path | None, plot: Path | None, *, force: bool) -> None:
    """Raise InputError for a file of an unknown kind, or one that exists; MissingExtra where pyarrow is needed."""
    for option, path in (("--out", out), ("--plot", plot)):
        if path is None:
            continue
        if path.suffix.lower() not in KINDS[option]:
            raise InputError(f"{option} {path}: of what kind? The name ends with {', '.join(KINDS[option])}.")
        if exists(path) and not force:
            raise InputError(f"{path} exists already.", remedy="another name, or --force to write over it")
        if path.suffix.lower() == ".parquet":
            try:
                import pyarrow.parquet  # noqa: F401
            except ImportError as error:
                raise MissingExtra("pyarrow", "data", "Writing Parquet") from error


def long_rows(found: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, int, str, str, float]]:
    """A row for each number: its series, its step from 1 on, its channel, whether it is of `path 1` or `quantile 2.5`,
    and the number itself."""
    for one in found:
        paths: np.ndarray = one["paths"]
        for place, name in enumerate(one["channels"]):
            for step in range(paths.shape[1]):
                drawn = paths[:, step, place]
                for level, value in zip(QUANTILES, np.percentile(drawn, QUANTILES), strict=True):
                    yield one["name"], step + 1, name, f"quantile {level:g}", float(value)
                for number, value in enumerate(drawn.tolist(), 1):
                    yield one["name"], step + 1, name, f"path {number}", value


def write_forecast(found: Sequence[Mapping[str, Any]], path: Path) -> None:
    """All quantiles and paths as a file of the kind that its name says, whole or not at all. Raises StorageError."""
    with storage_errors(path.parent):
        if path.suffix.lower() == ".json":
            replace_text(path, json.dumps([summary(one) for one in found]))
        elif path.suffix.lower() == ".csv":
            text = io.StringIO()
            writer = csv.writer(text, lineterminator="\n")
            writer.writerow(HEAD)
            writer.writerows(long_rows(found))
            replace_text(path, text.getvalue())
        else:
            import pyarrow as pa
            import pyarrow.parquet as pq

            table = zip(*long_rows(found), strict=True)
            pq.write_table(pa.table(dict(zip(HEAD, map(list, table), strict=True))), path)


def plot_forecast(one: Mapping[str, Any], path: Path) -> None:
    """A series' forecast as fans. Raises StorageError."""
    from octavo.report.forecasts import fan_plot, save_plot

    paths: np.ndarray = one["paths"]
    quantiles = {f"{level:g}": np.percentile(paths, level, axis=0) for level in QUANTILES}
    figure = fan_plot(one["history"][-HISTORY:], quantiles, one["channels"], paths=paths[:5])
    with storage_errors(path.parent):
        save_plot(figure, path)
