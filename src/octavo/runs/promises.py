"""The account of a user's promises: how far each was off, which calibrates the next ones."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from statistics import median

from octavo.ground.cache import default_cache
from octavo.ground.files import storage_errors
from octavo.ground.records import Number, Record, json_text, read_rows

KEPT = 200
"""The newest promises that count."""


class Kept(Record):
    """A promise that was audited, in standard deviations: (came out − promised) / error. `of`: hashes that tell its
    text from others."""

    missed: Number
    of: tuple[str, ...] = ()


def promises_file() -> Path:
    """Where a user's audited promises stand: no text, no name, only how far each was off, and hashes of its text."""
    return default_cache() / "promises.jsonl"


def earlier_promises() -> list[float]:
    """How far the newest audited promises were off, in standard deviations: the median of each text, for many trainings
    of one text are all alike, and say little of the next. Those of which the text is not known count as one's."""
    try:
        rows = read_rows(promises_file(), Kept)[-KEPT:]
    except OSError:
        return []
    texts: dict[str, str] = {}
    missed: dict[str, list[float]] = {}
    for row in rows:
        marks = row.get("of") or [""]
        text = next((texts[mark] for mark in marks if mark in texts), marks[0])
        texts |= dict.fromkeys(marks, text)
        missed.setdefault(text, []).append(row["missed"])
    return [median(each) for each in missed.values()]


def keep(*, law_bits: float, law_error: float, came_out: float, of: Sequence[str]) -> None:
    """Note how far a promise was off, for the next ones; `of` tells its text from others: what it holds, and where it
    stands. Raises StorageError."""
    row = {"missed": round((came_out - law_bits) / law_error, 3), "of": [_mark(each) for each in of]}
    path = promises_file()
    with storage_errors(path.parent):
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("ab+") as file:
            file.seek(max(0, file.tell() - 1))
            cut = file.read(1) not in (b"", b"\n")  # by a process that was killed while it wrote
            file.write(b"\n" * cut + json_text(row).encode() + b"\n")


def _mark(name: str) -> str:
    return hashlib.sha256(name.encode("utf-8", "surrogateescape")).hexdigest()[:16]
