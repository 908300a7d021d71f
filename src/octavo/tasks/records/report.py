"""What a model drew, as a report shows it: the samples of its evaluation, where its records are images."""

from __future__ import annotations

from base64 import b64encode
from pathlib import Path

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
