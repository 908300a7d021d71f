"""Project Gutenberg's header and licence, cut off while the text streams by.

A book stands between `*** START OF THE PROJECT GUTENBERG EBOOK … ***` and `*** END OF …`, with THIS instead
of THE and ETEXT instead of EBOOK in older ones; a long title wraps the marker over two lines. The oldest have
only a small print that ends in `*END*THE SMALL PRINT! …`. Books pasted one after another are all found.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from itertools import chain

_HEAD = 1 << 17  # characters in which the first header has to end
_MARKER = 1000  # characters that a marker and the line breaks after it can have
_BEFORE = 400  # characters before an END marker that may still be the publisher's

_OPENING = r"\*\*\*\s{{0,4}}(?i:{}\s+OF\s+(?:TH(?:E|IS)\s+)?PROJECT\s+GUTENBERG)"
_TO_CLOSING = r"(?:(?:(?!\n[^\S\n]*\n)[^*]){0,500}\*\*\*)?[^\n]{0,200}\n{0,20}"
_START = re.compile(_OPENING.format("START") + _TO_CLOSING)
_END = re.compile(_OPENING.format("END"))
_SMALL_PRINT = re.compile(r"\*END[ *]{1,2}THE SMALL PRINT![^\n]{0,200}\n{0,20}")
_LAST_LINE = re.compile(
    r"\s*(?:^End of (?:th(?:e|is) )?Project Gutenberg[^\n]*(?:\n[^\n]+)?)?\s*\Z", re.I | re.M
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
        # A marker that begins after `sure` may not be here to its end yet.
        sure = len(held) if piece is None else len(held) - _MARKER
        while (found := (_END if in_book else _START).search(held)) and found.start() <= sure:
            cut = found.start() if in_book else found.end()
            if in_book:
                edge = max(0, cut - _BEFORE)
                yield held[:edge] + _LAST_LINE.sub("", held[edge:cut], count=1) + "\n"
            else:
                licences += cut
            held, sure, in_book = held[cut:], sure - cut, not in_book
        keep = 0 if piece is None else _MARKER + (_BEFORE if in_book else 0)
        done = max(0, len(held) - keep)
        if in_book and done:
            yield held[:done]
        licences += 0 if in_book else done
        held = held[done:]
    if headers or licences:
        said(headers, licences)
