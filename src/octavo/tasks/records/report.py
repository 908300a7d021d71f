"""What a report shows of records: how many are valid, and, where they are images, what the model drew."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from octavo.errors import CheckpointError
from octavo.tasks.records.pixels import Raster, numbers_of, png
from octavo.util.records import Record, read_rows

MOST = 24
"""Pictures on a page."""


class Judged(Record):
    """A line of samples/judged.jsonl."""

    text: str


def pictures(folder: Path, raster: Raster | None) -> list[str]:
    """PNG files as data: addresses; none of a run whose records are no images."""
    path = folder / "samples" / "judged.jsonl"
    if raster is None or not path.is_file():
        return []
    try:
        rows = read_rows(path, Judged)
    except CheckpointError:
        return []
    images = (png(raster.grey(numbers_of(row["text"]))) for row in rows[:MOST])
    return [f"data:image/png;base64,{b64encode(image).decode()}" for image in images]


class Valid(NamedTuple):
    """A row of the table of valid records."""

    name: str
    share: float
    records: str
    interval: str


def valid(validity: Mapping[str, Any]) -> list[Valid]:
    """How many records are valid: the model's, those of n-grams, held-out ones."""
    order = (validity.get("control") or {}).get("order")
    names = {"generated": "this model", "control": f"{order}-grams", "held_out": "held-out records"}
    return [
        Valid(
            name,
            one["valid"] / one["records"],
            f"{one['valid']:,} of {one['records']:,}",
            f"{one['interval'][0]:.1%} to {one['interval'][1]:.1%}",
        )
        for key, name in names.items()
        if (one := validity.get(key))
    ]
