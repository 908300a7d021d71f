"""Encoding a long text in bounded memory: where it may be cut without changing a single id.

The safe place is between a character that is not white space and a space or line break. Words end there;
and no match of GPT-2's pattern spans it: only a *leading* space joins a word, and the look-ahead in
`\\s+(?!\\S)` sees to the end of a run of white space, which stays whole on the right side of the cut.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator

import numpy as np

from octavo.tokenizers.base import Tokenizer, UnknownTextError

WINDOW = 1 << 20  # characters gathered before a cut is looked for

_UP_TO_LAST_CUT = re.compile(r".*\S(?=[ \n])", re.DOTALL)


def encode_pieces(tokenizer: Tokenizer, pieces: Iterable[str]) -> Iterator[np.ndarray]:
    """Ids of one document given in pieces, cut anywhere: put together, exactly `tokenizer.encode(whole)`.

    Memory stays bounded by the pieces' size and about `WINDOW` characters, if the text has white space and the
    tokenizer can be cut there.

    Raises:
        UnknownTextError: after the last piece, so that it counts everything that the vocabulary lacks.
    """
    missing: Counter[str] = Counter()
    unit = ""
    if not tokenizer.cuts_anywhere:
        pieces = whole_words(pieces) if tokenizer.cuts_at_words else ["".join(pieces)]
    for piece in pieces:
        try:
            ids = tokenizer.encode(piece)
        except UnknownTextError as error:
            missing += error.counts
            unit = error.unit
        else:
            if not missing:
                yield ids
    if missing:
        raise UnknownTextError(missing, unit)


def whole_words(pieces: Iterable[str], window: int = WINDOW) -> Iterator[str]:
    """The same text cut in safe places, about every `window` characters, later where no cut is safe."""
    held: list[str] = []  # the text since the last cut; no safe place lies inside it
    for piece in _of_size(pieces, window):
        edge = held[-1][-1] if held else ""
        found = _UP_TO_LAST_CUT.match(edge + piece)
        if found is None:
            held.append(piece)
            continue
        cut = found.end() - len(edge)
        held.append(piece[:cut])
        yield "".join(held)
        held = [piece[cut:]]
    if held:
        yield "".join(held)


def _of_size(pieces: Iterable[str], size: int) -> Iterator[str]:
    """The same text in pieces of exactly `size` characters, and a last one that may be shorter."""
    held: list[str] = []
    length = 0
    for piece in pieces:
        held.append(piece)
        length += len(piece)
        if length < size:
            continue
        text = "".join(held)
        whole = length - length % size
        yield from (text[at : at + size] for at in range(0, whole, size))
        held = [text[whole:]]
        length -= whole
    if length:
        yield "".join(held)
