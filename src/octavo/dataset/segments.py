"""A text in segments that are encoded each by itself, whoever does it and in whatever order: put together, their
ids are those of the whole.
"""

from __future__ import annotations

import re
from array import array
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, NamedTuple

import numpy as np

from octavo.dataset.text import PIECE, Text, read_range
from octavo.errors import TokenizerError
from octavo.tokenizers import Tokenizer, UnknownTextError, encode_pieces

SEGMENT = 1 << 20  # bytes of text in a segment, at least, but for the last
_WINDOW = 1 << 12  # bytes in which a place to cut is looked for at a time
_INSIDE = bytes(range(0x80, 0xC0))  # every byte of a character but its first
_CUT = re.compile(r"\S(?=[ \n])")  # see `octavo.tokenizers.pieces`


class Span(NamedTuple):
    """Bytes of a text that are one document or lie in one, and whether special tokens stand before and after them."""

    start: int
    stop: int
    opens: bool
    closes: bool


@dataclass(frozen=True)
class Encoded:
    """A segment's ids as they are stored, and where in them the documents begin that begin in it, uint64."""

    ids: np.ndarray
    starts: np.ndarray


def token_dtype(vocab_size: int) -> np.dtype:
    """The type that token ids are stored in. Raises TokenizerError when none is wide enough."""
    for name in ("<u1", "<u2", "<u4"):
        if vocab_size <= 1 << 8 * np.dtype(name).itemsize:
            return np.dtype(name)
    raise TokenizerError(
        f"A vocabulary of {vocab_size:,} tokens is too large: an id has 32 bits, enough for {1 << 32:,}.",
        remedy="Choose a smaller vocabulary.",
    )


def segments_of(text: Text, tokenizer: Tokenizer) -> Iterator[list[Span]]:
    """The segments of a text. They depend on nothing but the text and the tokenizer's kind.

    Of several documents each stands between the tokenizer's special tokens. One without these sees the text as
    one.
    """
    marked = text.several and tokenizer.end is not None
    documents = zip(text.starts.tolist(), text.stops.tolist(), strict=True) if marked else [(0, text.bytes)]
    held: list[Span] = []
    size = 0
    with text.path.open("rb") as file:
        for start, stop in documents:
            at = start
            while at < stop:
                cut = stop
                if stop - at > SEGMENT and (tokenizer.cuts_anywhere or tokenizer.cuts_at_words):
                    cut = _cut(file, at + SEGMENT, stop, anywhere=tokenizer.cuts_anywhere)
                held.append(Span(at, cut, marked and at == start, marked and cut == stop))
                size += cut - at
                at = cut
                if size >= SEGMENT:
                    yield held
                    held, size = [], 0
    if held:
        yield held


def _cut(file: BinaryIO, at: int, stop: int, *, anywhere: bool) -> int:
    """The first place from byte `at` on where a document that ends at `stop` can be cut with the same ids, in
    sight of a window.
    """
    while at < stop:
        file.seek(at)
        window = file.read(min(_WINDOW, stop - at))
        text = window.decode("utf-8", "ignore")  # half a character at either end is passed over
        skipped = len(window) - len(window.lstrip(_INSIDE))
        if anywhere:
            return at + skipped
        if found := _CUT.search(text):
            return at + skipped + len(text[: found.end()].encode())
        at += len(window)
    return stop


def encode_segment(path: Path, spans: list[Span], tokenizer: Tokenizer, dtype: np.dtype) -> Encoded:
    """Encode a segment of the text in a file. Raises UnknownTextError with everything in it that the vocabulary
    lacks.
    """
    starts = array("Q")
    parts: list[np.ndarray] = []
    tokens = 0
    missing: Counter[str] = Counter()
    unit = ""
    before, after = tokenizer.around_document()
    with path.open("rb", buffering=PIECE) as file:
        for start, stop, opens, closes in spans:
            if opens or start == 0:
                starts.append(tokens)
            if stop - start <= PIECE:
                file.seek(start)
                pieces: Iterator[str] = iter([file.read(stop - start).decode()])
            else:
                pieces = read_range(path, start, stop)
            try:
                encoded = [ids.astype(dtype) for ids in encode_pieces(tokenizer, pieces)]
            except UnknownTextError as error:
                missing += error.counts
                unit = error.unit
                continue
            parts += [before.astype(dtype)] * opens + encoded + [after.astype(dtype)] * closes
            tokens = tokens + sum(map(len, encoded)) + len(before) * opens + len(after) * closes
    if missing:
        raise UnknownTextError(missing, unit)
    return Encoded(np.concatenate(parts), np.array(starts, "<u8"))
