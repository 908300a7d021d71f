"""What is said before a training of what will come out of it, and what came of such promises before."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import NormalDist, median

import numpy as np

from octavo.auto.choose import Choice
from octavo.auto.law import LIKELY
from octavo.ground.cache import default_cache
from octavo.ground.files import storage_errors
from octavo.ground.records import Number, Record, read_rows
from octavo.report.promised import interval

PRIOR = [sign * NormalDist().inv_cdf(0.55 + each / 10) for each in range(5) for sign in (-1, 1)]
"""How far ten promises are off for which the law is right, in standard deviations: what it is worth beside a user's own
when these calibrate the next."""
NARROWEST = 0.5
"""Of what the law says."""
KEPT = 200
"""The newest promises that count."""


@dataclass(frozen=True)
class Promise:
    """Bits per byte on held-out text: the middle, and how far to both sides 80 of 100 promises hold.

    Attributes:
        law_bits, law_error: what the law says alone, before earlier promises, and the standard deviation of that.
    """

    minutes: float
    bits: float
    within: float
    parameters: int
    steps: int
    law_bits: float
    law_error: float

    def holds(self, bits: float) -> bool:
        """Whether what came out is in the interval."""
        return abs(bits - self.bits) <= self.within

    def __str__(self) -> str:
        return f"{interval(self.bits, self.within)} bits per byte (80 %)"

    def as_plain(self) -> dict[str, float]:
        """For the manifest, and for --json."""
        return asdict(self)


class Kept(Record):
    """A promise that was audited, in standard deviations: (came out − promised) / error. `of`: hashes that tell its
    text from others."""

    missed: Number
    of: tuple[str, ...] = ()


def promise(minutes: float, choice: Choice, earlier: Sequence[float] = ()) -> Promise:
    """The promise of a choice, calibrated by how far `earlier` ones were off."""
    shift, scale = calibration(earlier)
    return Promise(
        minutes=minutes,
        bits=max(0.0, choice.bits + shift * choice.error),
        within=LIKELY * scale * choice.error,
        parameters=choice.parameters,
        steps=choice.steps,
        law_bits=choice.bits,
        law_error=choice.error,
    )


def calibration(earlier: Sequence[float]) -> tuple[float, float]:
    """(shift, factor) in standard deviations, from how far earlier promises were off; (0, 1) without any.

    The median, and where 80 % lie around it: a text like no other does not spoil the promises that follow.
    """
    known = np.array([*PRIOR, *earlier])
    shift = float(np.median(known))
    usual, found = (float(np.quantile(np.abs(each), 0.8)) for each in (np.array(PRIOR), known - shift))
    return shift, max(NARROWEST, found / usual)


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
        with path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")


def _mark(name: str) -> str:
    return hashlib.sha256(name.encode("utf-8", "surrogateescape")).hexdigest()[:16]
