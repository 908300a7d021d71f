"""Documents as streams of text, and where a text is cut into them."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Any

Report = Callable[[str], None]
"""Takes one sentence that the reader should hear, such as what was converted or left out."""

NAMED, HUB = "corpus:", "hf:"
"""How the name of a text of the catalogue begins, and that of a data set of the Hugging Face hub."""


def is_hub_name(path: str) -> bool:
    """Whether a path names a data set of the hub."""
    return path.startswith(HUB)


_LONGEST_LINE = 1 << 16  # characters; a longer line cannot be a boundary and is passed on before it ends


@dataclass(frozen=True)
class Document:
    """One story, file or page.

    Attributes:
        name: what messages call it.
        pieces: its text in pieces of bounded size, to be read once.
        file: name of the file that it came from; empty if it came from none, or from several.
    """

    name: str
    pieces: Iterator[str]
    file: str = ""


class Source(ABC):
    """Where documents come from."""

    @abstractmethod
    def documents(self) -> Iterator[Document]:
        """A fresh pass over all documents, in an order that never changes; each is read before the next.

        Raises:
            CorpusError: something cannot be read.
        """

    @abstractmethod
    def describe(self) -> dict[str, Any]:
        """What a run's manifest says about the source, as JSON values."""

    def cleaning(self) -> dict[str, Any]:
        """What the last pass did to the documents, step by step, as JSON values; empty if nothing was done."""
        return {}

    def fingerprint(self) -> list[Any] | None:
        """What changes whenever the documents do, found out without reading them, as JSON values; None where only
        reading tells."""
        return None

    def remark(self) -> str | None:
        """What the last pass found of the documents as a whole, in a sentence, if that is worth one."""
        return None

    @property
    def total_bytes(self) -> int | None:
        """About how much there is to read, for progress; None if that is not known beforehand."""
        return None


class Wrapper(Source):
    """A source whose documents are another's, seen or changed on their way."""

    def __init__(self, source: Source) -> None:
        self.source = source

    @property
    def total_bytes(self) -> int | None:
        return self.source.total_bytes

    def describe(self) -> dict[str, Any]:
        return self.source.describe()

    def cleaning(self) -> dict[str, Any]:
        return self.source.cleaning()

    def fingerprint(self) -> list[Any] | None:
        return self.source.fingerprint()


def joined(texts: Iterable[Iterator[str]]) -> Iterator[str]:
    """Several texts as one, a blank line between them, without white space at their ends or empty ones."""
    for number, text in enumerate(filled(texts)):
        if number:
            yield "\n\n"
        yield from text


def filled(texts: Iterable[Iterator[str]]) -> Iterator[Iterator[str]]:
    """Each text without white space at its ends; those with nothing else are left out."""
    for text in texts:
        pieces = trimmed(text)
        first = next(pieces, None)
        if first is not None:
            yield chain([first], pieces)


def trimmed(pieces: Iterable[str]) -> Iterator[str]:
    """A text without the white space at its ends."""
    held: str | None = None  # white space that is inside if more follows; None before the text begins
    for piece in pieces:
        if held is None:
            piece = piece.lstrip()
            if not piece:
                continue
            held = ""
        body = piece.rstrip()
        if body:
            yield held + body
            held = ""
        held += piece[len(body) :]


def separator_line(separator: str) -> re.Pattern[str]:
    """Matches a line with the separator and nothing else but white space, and the line break before it."""
    return re.compile(rf"\n[^\S\n]*{re.escape(separator.strip())}[^\S\n]*(?=\n|\Z)")


BLANK_LINE = re.compile(r"\n[^\S\n]*(?=\n|\Z)")


def cut_at(pieces: Iterable[str], boundary: re.Pattern[str]) -> Iterator[Iterator[str]]:
    """The texts between boundary lines, white space at their ends cut, empty ones left out."""
    return filled(_texts(_events(pieces, boundary)))


def numbered_lines(pieces: Iterable[str]) -> Iterator[tuple[int, str]]:
    """The lines that hold more than white space, without that at their ends, and their numbers from 1 on."""
    held, number = "", 0
    for piece in chain(pieces, ["\n"]):
        *lines, held = (held + piece).split("\n")
        for line in lines:
            number += 1
            if line := line.strip():
                yield number, line


def _texts(events: Iterator[str | None]) -> Iterator[Iterator[str]]:
    more = True

    def until_boundary() -> Iterator[str]:
        nonlocal more
        for event in events:
            if event is None:
                return
            yield event
        more = False

    while more:
        text = until_boundary()
        yield text
        for _ in text:  # what the caller left unread
            pass


def _events(pieces: Iterable[str], boundary: re.Pattern[str]) -> Iterator[str | None]:
    """The text in pieces, and None at each boundary. A boundary pattern begins with the line break before its
    line.
    """
    held = "\n"  # the last line so far, which may not be whole yet, after the line break before it
    for piece in pieces:
        held += piece
        end = held.rfind("\n")
        if end == -1 or len(held) - end > _LONGEST_LINE:
            end = len(held)
        yield from _cut(held[:end], boundary)
        held = held[end:]
    yield from _cut(held, boundary)


def _cut(lines: str, boundary: re.Pattern[str]) -> Iterator[str | None]:
    for number, text in enumerate(boundary.split(lines)):
        if number:
            yield None
        if text:
            yield text
