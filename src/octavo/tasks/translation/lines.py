"""Lines in, translations out: a few at once, the first at once, none that would wait for the whole input."""

from __future__ import annotations

import codecs
from collections.abc import Iterable, Iterator
from concurrent.futures import Future
from functools import partial
from itertools import islice
from queue import Queue
from typing import BinaryIO

from octavo.errors import InputError
from octavo.tasks.translation.beam import Search
from octavo.tasks.translation.translator import Skipped, Translation, Translator
from octavo.util.processes import Meanwhile

MOST = 64
"""Lines that are translated together."""


def lines_of(file: BinaryIO, name: str) -> Iterator[str]:
    """Lines of UTF-8, as they come. Raises InputError with the number of a line that is none."""
    for number, line in enumerate(file, start=1):
        data = line.removeprefix(codecs.BOM_UTF8) if number == 1 else line
        try:
            yield data.decode("utf-8").removesuffix("\n").removesuffix("\r")
        except UnicodeDecodeError as error:
            raise InputError(f"{name}, line {number:,} is not UTF-8 text.") from error


class Arriving:
    """Lines from a program that may wait for each answer before it sends the next: what is there is taken together, and
    nothing else is waited for."""

    def __init__(self, lines: Iterable[str]) -> None:
        self._came: Queue[str | Future[None]] = Queue(maxsize=MOST)
        Meanwhile(partial(self._read, lines))

    def _read(self, lines: Iterable[str]) -> None:
        end: Future[None] = Future()
        try:
            for line in lines:
                self._came.put(line)
            end.set_result(None)
        except BaseException as error:
            end.set_exception(error)
        self._came.put(end)

    def take(self, most: int) -> list[str]:
        """The next lines: one at least, but at the end; up to so many that are there. Raises what reading them raised,
        after the lines before it."""
        taken: list[str] = []
        while len(taken) < most and not (taken and self._came.empty()):
            line = self._came.get()
            if isinstance(line, Future):
                self._came.put(line)  # for the next call
                if not taken:
                    line.result()
                break
            taken.append(line)
        return taken


def translated(
    translator: Translator, lines: Iterable[str] | Arriving, search: Search, *, name: str, most: int = MOST
) -> Iterator[tuple[str, list[Translation] | Skipped]]:
    """Each line and what was found for it, best first, or why it was skipped; a blank line has nothing. The first line
    is translated alone, so that it is soon there, then ever more together, up to `most`."""
    rest, together, number = lines if isinstance(lines, Arriving) else iter(lines), 1, 0
    while chunk := rest.take(together) if isinstance(rest, Arriving) else list(islice(rest, together)):
        read = {
            place: translator.read(line, f"{name}, line {number + place + 1:,}")
            for place, line in enumerate(chunk)
            if line.strip()
        }
        sources = {place: one for place, one in read.items() if not isinstance(one, Skipped)}
        skipped = {place: one for place, one in read.items() if isinstance(one, Skipped)}
        by_source = dict(zip(sources, translator.translate(list(sources.values()), search), strict=True))
        yield from (
            (line, skipped.get(place) or by_source.get(place, [])) for place, line in enumerate(chunk)
        )
        number += len(chunk)
        together = min(most, 2 * together)
