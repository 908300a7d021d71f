"""Text to token ids on disk: raw little-endian integers, as narrow as the vocabulary allows.

While a part is written, a journal next to it notes after each segment how far its files are whole. What an ended
process left is continued from there.
"""

from __future__ import annotations

import hashlib
import json
from array import array
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Self

import numpy as np

from octavo.data.encode_workers import cores, encode_together
from octavo.data.text import (
    SEGMENT,
    Encoded,
    Progress,
    Span,
    Text,
    encode_alone,
    no_progress,
    segments_of,
    token_dtype,
)
from octavo.errors import CorpusError
from octavo.tokenizers import Tokenizer, UnknownTextError
from octavo.util.processes import Behind
from octavo.util.records import json_text

JOURNAL = ".journal"
_LONG = 32 << 20  # bytes of text from which on the start of other processes is worth while


def tokens_path(folder: Path, part: str) -> Path:
    """Where a part's token ids stand."""
    return folder / f"{part}.bin"


def starts_path(folder: Path, part: str) -> Path:
    """Where the token offsets of a part's documents stand."""
    return folder / f"{part}.documents.bin"


@dataclass(frozen=True)
class ShardSummary:
    """How many tokens a part has, and the SHA-256 of its files by name."""

    tokens: int
    sha256: dict[str, str]


def write_shards(
    text: Text,
    tokenizer: Tokenizer,
    folder: Path,
    part: str,
    progress: Progress = no_progress,
    *,
    saved: Path,
    workers: int | None = None,
) -> ShardSummary:
    """Encode a text into its two files, from where a journal says that they are whole.

    Args:
        saved: folder that holds the tokenizer, for other processes.
        workers: processes at most; None: one a core, where the text is long and the tokenizer slow.

    Raises:
        UnknownTextError: with everything in the text that the vocabulary lacks.
        CorpusError: the text has no tokens.
        OctavoError: a process ended early.
    """
    dtype = token_dtype(tokenizer.vocab_size)
    with _Files(folder, part, dtype) as files, Behind() as behind:
        rest = islice(segments_of(text, tokenizer), files.segments, None)
        stops = array("Q")

        def noted() -> Iterator[list[Span]]:
            for spans in rest:
                stops.append(spans[-1].stop)
                yield spans

        quick = tokenizer.cuts_anywhere or text.bytes < _LONG
        known = type(tokenizer).__module__.startswith("octavo.tokenizers")  # other processes know no others
        count = workers or (1 if quick else min(cores(), text.bytes // SEGMENT))
        if count > 1 and known:
            segments = encode_together(text.path, noted(), saved, dtype, workers=count)
        else:
            segments = encode_alone(text.path, noted(), tokenizer, dtype)
        missing: Counter[str] = Counter()
        unit = ""
        for number, encoded in enumerate(segments):
            if isinstance(encoded, UnknownTextError):
                missing += encoded.counts
                unit = encoded.unit
            elif not missing:
                behind.call(files.append, encoded)
            progress(stops[number], text.bytes)
    if missing:
        raise UnknownTextError(missing, unit)
    if not files.tokens:
        raise CorpusError(
            f"The {part} part ({text.total_characters:,} characters) has not one token.",
            remedy="Give more text.",
        )
    return ShardSummary(files.tokens, dict(zip(files.names, files.hashes(), strict=True)))


class _Files:
    """A part's two files and their journal, which grow by one segment at a time. After the context they are closed.

    Attributes:
        segments, tokens: how many there are.
    """

    def __init__(self, folder: Path, part: str, dtype: np.dtype) -> None:
        self._sizes = (dtype.itemsize, 8)  # of a token, of a document's start
        paths = tokens_path(folder, part), starts_path(folder, part)
        self.names = [path.name for path in paths]
        self._files = [path.open("a+b") for path in paths]
        self._notes = (folder / f"{part}{JOURNAL}").open("a+b")
        self._hashes = [hashlib.sha256(), hashlib.sha256()]
        self.segments = self.tokens = self._documents = 0

    def __enter__(self) -> Self:
        self._go_on()
        return self

    def __exit__(self, *error: object) -> None:
        for file in (*self._files, self._notes):
            file.close()

    def hashes(self) -> list[str]:
        """SHA-256 of the two files."""
        return [hash.hexdigest() for hash in self._hashes]

    def append(self, encoded: Encoded) -> None:
        """Add a segment, and note that it is there."""
        bodies = encoded.ids, encoded.starts + np.uint64(self.tokens)
        for file, hash, body in zip(self._files, self._hashes, bodies, strict=True):
            file.write(body.data)
            file.flush()
            hash.update(body.data)
        self.segments += 1
        self.tokens += len(encoded.ids)
        self._documents += len(encoded.starts)
        note = [self.tokens, self._documents, *self.hashes()]
        self._notes.write(json_text(note).encode() + b"\n")
        self._notes.flush()

    def _go_on(self) -> None:
        """Read what there is, up to the last segment that is whole, and cut off the rest."""
        for file in (*self._files, self._notes):
            file.seek(0)
        noted = 0
        for line in self._notes:
            hashes = [hash.copy() for hash in self._hashes]
            try:
                tokens, documents, *expected = json.loads(line)
                counts = tokens - self.tokens, documents - self._documents
                for file, hash, count, size in zip(self._files, hashes, counts, self._sizes, strict=True):
                    hash.update(file.read(count * size))
            except (ValueError, TypeError):  # a line that was not written to its end
                break
            if not line.endswith(b"\n") or [hash.hexdigest() for hash in hashes] != expected:
                break
            self._hashes, self.tokens, self._documents = hashes, tokens, documents
            self.segments += 1
            noted += len(line)
        whole = self.tokens * self._sizes[0], self._documents * self._sizes[1], noted
        for file, length in zip((*self._files, self._notes), whole, strict=True):
            file.truncate(length)
