"""Text to token ids on disk: raw little-endian integers, as narrow as the vocabulary allows."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np

from octavo.dataset.text import PIECE, Progress, Text, no_progress, read_range
from octavo.errors import CorpusError, TokenizerError
from octavo.tokenizers import Tokenizer, UnknownTextError, encode_pieces

_GATHERED = 1 << 20  # tokens written at once


def token_dtype(vocab_size: int) -> np.dtype:
    """The type that token ids are stored in. Raises TokenizerError when none is wide enough."""
    for name in ("<u1", "<u2", "<u4"):
        if vocab_size <= 1 << 8 * np.dtype(name).itemsize:
            return np.dtype(name)
    raise TokenizerError(
        f"A vocabulary of {vocab_size:,} tokens is too large: an id has 32 bits, enough for {1 << 32:,}.",
        remedy="Choose a smaller vocabulary.",
    )


def tokens_path(folder: Path, part: str) -> Path:
    """Where a part's token ids stand."""
    return folder / f"{part}.bin"


def starts_path(folder: Path, part: str) -> Path:
    """Where the token offsets of a part's documents stand."""
    return folder / f"{part}.documents.bin"


def write_shards(
    text: Text, tokenizer: Tokenizer, folder: Path, part: str, progress: Progress = no_progress
) -> tuple[int, int]:
    """Encode a text into its two files; returns how many tokens and documents they hold.

    Of several documents each stands between the tokenizer's marks. A tokenizer without marks sees the text as
    one.

    Raises:
        UnknownTextError: with everything in the text that the vocabulary lacks.
        CorpusError: the text has no tokens.
    """
    dtype = token_dtype(tokenizer.vocab_size)
    starts = array("Q")
    with tokens_path(folder, part).open("wb", buffering=0) as file:
        tokens = 0
        for ids in _gathered(_documents(text, tokenizer, starts, progress)):
            file.write(ids.astype(dtype, copy=False).data)
            tokens += len(ids)
    if not tokens:
        raise CorpusError(
            f"The {part} part ({text.total_characters:,} characters) has not one token.",
            remedy="Give more text.",
        )
    np.array(starts, "<u8").tofile(starts_path(folder, part))
    return tokens, len(starts)


def _documents(
    text: Text, tokenizer: Tokenizer, starts: array[int], progress: Progress
) -> Iterator[np.ndarray]:
    if not text.several or tokenizer.end is None:
        starts.append(0)
        done = 0
        for ids in encode_pieces(tokenizer, text.pieces()):
            yield ids
            done = min(done + PIECE, text.bytes)
            progress(done, text.bytes)
        return
    missing: Counter[str] = Counter()
    unit = ""
    tokens = 0
    with text.path.open("rb", buffering=PIECE) as file:
        for start, stop in zip(text.starts.tolist(), text.stops.tolist(), strict=True):
            starts.append(tokens)
            try:
                if stop - start <= PIECE:
                    file.seek(start)
                    encoded: Iterable[np.ndarray] = [
                        tokenizer.encode_document(file.read(stop - start).decode())
                    ]
                else:
                    encoded = _long_document(text, tokenizer, start, stop)
                for ids in encoded:
                    tokens += len(ids)
                    if not missing:
                        yield ids
            except UnknownTextError as error:
                missing += error.counts
                unit = error.unit
            progress(stop, text.bytes)
    if missing:
        raise UnknownTextError(missing, unit)


def _long_document(text: Text, tokenizer: Tokenizer, start: int, stop: int) -> Iterator[np.ndarray]:
    before, after = tokenizer.document_marks()
    yield before
    yield from encode_pieces(tokenizer, read_range(text.path, start, stop))
    yield after


def _gathered(arrays: Iterable[np.ndarray]) -> Iterator[np.ndarray]:
    held: list[np.ndarray] = []
    size = 0
    for ids in arrays:
        held.append(ids)
        size += len(ids)
        if size >= _GATHERED:
            yield np.concatenate(held)
            held, size = [], 0
    if size:
        yield np.concatenate(held)
