"""What was taken away from here: folders with a certificate."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from octavo.browser.runs import Stamp, stamp
from octavo.util.records import parse_json
from octavo.util.terminal import finite

LISTED = 60


@dataclass(frozen=True)
class ExportCard:
    """An export as the page lists it: what its certificate says. `missed` is empty where it is proven.

    Attributes:
        logits: the largest difference; `greedy`, `ids`: how many texts were equal, of how many.
    """

    id: str
    path: str
    target: str
    run: str
    written: float
    missed: tuple[str, ...] = ()
    logits: float | None = None
    greedy: tuple[int, int] | None = None
    ids: tuple[int, int] | None = None
    loss: float | None = None


class Exports:
    """The exports of a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._known: dict[str, tuple[Stamp, ExportCard | None]] = {}

    def cards(self) -> Iterator[tuple[str, ExportCard]]:
        """All that are whole."""
        try:
            entries = sorted(entry.name for entry in os.scandir(self.folder) if entry.is_dir())
        except OSError:
            return
        for name in entries[:LISTED]:
            now = stamp(self.folder / name / "certificate.json")
            if name not in self._known or self._known[name][0] != now:
                self._known[name] = (now, self._read(name))
            if (card := self._known[name][1]) is not None:
                yield f"export:{name}", card

    def _read(self, name: str) -> ExportCard | None:
        path = self.folder / name / "certificate.json"
        try:
            told = parse_json(path.read_bytes())
            measured: Any = told["measured"]
            first, strings = measured["first_greedy_difference"], measured["strings"]
            return ExportCard(
                id=name,
                path=str(self.folder / name),
                target=str(told["target"]),
                run=str(told.get("run", "")),
                written=path.stat().st_mtime,
                missed=tuple(map(str, told["missed"])),
                logits=finite(measured["largest_logit_difference"]),
                greedy=(sum(one is None for one in first), len(first)),
                ids=(strings["compared"] - strings["other_ids"], strings["compared"]),
                loss=finite(measured["loss"]),
            )
        except (OSError, ValueError, KeyError, TypeError):
            return None
