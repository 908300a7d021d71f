"""Lines in, translations out: a few at once, the first at once, none that would wait for the whole input."""

from __future__ import annotations

import codecs
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import BinaryIO

from octavo.errors import InputError
from octavo.generation.beam import Search
from octavo.generation.translator import Translation, Translator
from octavo.tokenizers import UnknownTextError

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


def translated(
    translator: Translator, lines: Iterable[str], search: Search, *, name: str, most: int = MOST
) -> Iterator[tuple[str, list[Translation]]]:
    """Each line and what was found for it, best first; a blank line has nothing. The first line is translated alone, so
    that it is soon there, then ever more together, up to `most`.

    Raises InputError with the line that the model cannot read, after those before it.
    """
    rest, together, number = iter(lines), 1, 0
    while chunk := list(islice(rest, together)):
        sources, wrong = {}, None
        for place, line in enumerate(chunk):
            try:
                if line.strip():
                    sources[place] = translator.ids(line, f"{name}, line {number + place + 1:,}")
            except UnknownTextError as error:
                wrong = InputError(f"{name}, line {number + place + 1:,}: {error.what}", remedy=error.remedy)
            except InputError as error:
                wrong = error
            if wrong is not None:
                chunk = chunk[:place]
                break
        found = dict(zip(sources, translator.translate(list(sources.values()), search), strict=True))
        yield from ((line, found.get(place, [])) for place, line in enumerate(chunk))
        if wrong is not None:
            raise wrong
        number += len(chunk)
        together = min(most, 2 * together)
