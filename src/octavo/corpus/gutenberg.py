"""Project Gutenberg's header and licence, cut off while the text streams by.

A book stands between `*** START OF THE PROJECT GUTENBERG EBOOK … ***` and `*** END OF …`, with THIS instead
of THE and ETEXT instead of EBOOK in older ones; a long title wraps the marker over two lines. The oldest have
only a small print that ends in `*END*THE SMALL PRINT! …`. Books pasted one after another are all found, and text
that follows a licence stays.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from itertools import chain

_HEAD = 1 << 17  # characters in which the first header has to end
_MARKER = 1000  # characters that a marker and the line breaks after it can have
_BEFORE = 400  # characters before an END marker that may still be the publisher's
_LICENCE = 1 << 16  # characters in which a licence and the header of the next book have to end

_OPENING = r"\*\*\*\s{{0,4}}(?i:{}\s+OF\s+(?:TH(?:E|IS)\s+)?PROJECT\s+GUTENBERG)"
_TO_CLOSING = r"(?:(?:(?!\n[^\S\n]*\n)[^*]){0,500}\*\*\*)?[^\n]{0,200}\n{0,20}"
_START = re.compile(_OPENING.format("START") + _TO_CLOSING)
_END = re.compile(_OPENING.format("END"))
_END_LINE = re.compile(_OPENING.format("END") + _TO_CLOSING)
_SMALL_PRINT = re.compile(r"\*END[ *]{1,2}THE SMALL PRINT![^\n]{0,200}\n{0,20}")
_LAST_LINE = re.compile(
    r"\s*(?:^End of (?:th(?:e|is) )?Project Gutenberg[^\n]*(?:\n[^\n]+)?)?\s*\Z", re.I | re.M
)
_LICENCE_CLOSING = re.compile(
    r"subscribe\s+to\s+our\s+email\s+newsletter\s+to\s+hear\s+about\s+new\s+eBooks\.\s*"
)


def without_gutenberg(pieces: Iterable[str], said: Callable[[int, int], None]) -> Iterator[str]:
    """A text without Project Gutenberg's header and licence; any other text as it is.

    Args:
        said: called at the end, when something was cut off, with the characters of headers and of licences.
    """
    pieces = iter(pieces)
    held, headers, licences = "", 0, 0
    for piece in pieces:
        held += piece
        if len(held) >= _HEAD:
            break
    start = _START.search(held, 0, _HEAD) or _SMALL_PRINT.search(held, 0, _HEAD)
    if start:
        headers = start.end()
        held = held[headers:]

    in_book = True
    for piece in chain(pieces, [None]):
        held += piece or ""
        while True:
            if in_book:
                # A marker that begins after `sure` may not be here to its end yet.
                sure = len(held) if piece is None else len(held) - _MARKER
                found = _END.search(held)
                if found is None or found.start() > sure:
                    break
                edge = max(0, found.start() - _BEFORE)
                yield held[:edge] + _LAST_LINE.sub("", held[edge : found.start()], count=1) + "\n"
                held = held[found.start() :]
            else:
                if piece is not None and len(held) < _LICENCE + _MARKER:
                    break
                cut = _licence_end(held)
                licences += cut
                held = held[cut:]
            in_book = not in_book
            if not held:
                break
        if in_book:
            done = len(held) if piece is None else max(0, len(held) - _MARKER - _BEFORE)
            if done:
                yield held[:done]
            held = held[done:]
    if headers or licences:
        said(headers, licences)


def _licence_end(held: str) -> int:
    """Characters from an END marker to the next text: a book, or what was pasted after the licence. What is too long
    for a licence is none: the marker alone goes."""
    if (start := _START.search(held)) and start.start() <= _LICENCE:
        return start.end()
    if closing := _LICENCE_CLOSING.search(held, 0, _LICENCE):
        return closing.end()
    if len(held) <= _LICENCE:
        return len(held)
    marker = _END_LINE.match(held)
    assert marker is not None  # `held` begins with one
    return marker.end()
