"""The canonical text: a corpus as one UTF-8 file, where each document stands in it, and its segments, each of which is
encoded by itself.

Of several documents each is ended by a line break, which is no part of it; one document alone stands there as
it is. So the file is readable, its size is what bits per byte divide by, and each line break pays for an end
token.
"""

from __future__ import annotations

import codecs
import hashlib
import re
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import BinaryIO, NamedTuple

import numpy as np

from octavo.corpus import Source
from octavo.errors import CorpusError, TokenizerError
from octavo.tokenizers import Tokenizer, UnknownTextError, encode_pieces
from octavo.util.processes import Behind

PIECE = 1 << 20  # bytes
_WHITE_SPACE = b" \t\n\v\f\r"

Progress = Callable[[int, int | None], None]
"""Called with the bytes that are done and, where that is known, how many there are."""


def no_progress(done: int, total: int | None) -> None:
    """Progress that nobody watches."""


@dataclass(frozen=True)
class Text:
    """A text file and its documents.

    Attributes:
        path: the file.
        starts, stops: byte offsets of each document, uint64.
        characters: characters of each document, uint64.
        several: whether the corpus has several documents, so that each is ended by a line break (a part of it
            may have one).
    """

    path: Path
    starts: np.ndarray
    stops: np.ndarray
    characters: np.ndarray
    several: bool

    @property
    def bytes(self) -> int:
        return int(self.stops[-1]) + self.several

    @property
    def total_characters(self) -> int:
        """Characters in the file, line breaks after documents included."""
        return int(self.characters.sum()) + self.several * len(self.starts)

    def pieces(self) -> Iterator[str]:
        """The file in pieces of bounded size."""
        yield from read_range(self.path, 0, self.bytes)


@dataclass(frozen=True)
class CanonicalText(Text):
    """A whole corpus.

    Attributes:
        sha256: of the text and its document boundaries, hex.
        files: a number for each document, equal for those of one file, uint64.
    """

    sha256: str
    files: np.ndarray

    @cached_property
    def digests(self) -> np.ndarray:
        """16 bytes of the SHA-256 of each document's text without white space, as two uint64: equal for documents
        that repeat each other but for spaces and line breaks. Read from the file when first asked for.
        """
        digests = bytearray()
        with self.path.open("rb", buffering=PIECE) as file:
            for start, stop in zip(self.starts.tolist(), self.stops.tolist(), strict=True):
                content = hashlib.sha256()
                file.seek(start)
                for at in range(start, stop, PIECE):
                    content.update(file.read(min(PIECE, stop - at)).translate(None, _WHITE_SPACE))
                digests += content.digest()[:16]
        return np.frombuffer(bytes(digests), "<u8").reshape(-1, 2)


def read_range(path: Path, start: int, stop: int) -> Iterator[str]:
    """The text between two byte offsets, in pieces of at most 1 MiB."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    with path.open("rb") as file:
        file.seek(start)
        while start < stop:
            chunk = file.read(min(PIECE, stop - start))
            assert chunk, f"{path} ends before byte {stop}"
            start += len(chunk)
            yield decoder.decode(chunk, final=start == stop)


def ingest(source: Source, path: Path, progress: Progress = no_progress) -> CanonicalText:
    """Read a source through once and write its canonical text.

    Raises:
        CorpusError: something cannot be read, or there is no text.
    """
    starts, stops, characters, files = array("Q"), array("Q"), array("Q"), array("Q")
    file_now, number_now = "", _number("")
    whole = hashlib.sha256()
    held: list[bytes] = []  # what is not written yet, so that many small documents cost little
    at = written = 0
    blank = True
    total = source.total_bytes

    def write(data: bytes) -> None:
        file.write(data)
        whole.update(data)

    with path.open("wb") as file, Behind() as behind:
        for document in source.documents():
            length = 0
            for piece in filter(None, document.pieces):
                if length == 0:
                    if starts:
                        held.append(b"\n")
                        at += 1
                    starts.append(at)
                    if document.file != file_now:
                        file_now, number_now = document.file, _number(document.file)
                    files.append(number_now)
                data = piece.encode()
                held.append(data)
                at += len(data)
                length += len(piece)
                blank = blank and not data.translate(None, _WHITE_SPACE)
                if at - written >= PIECE:
                    behind.call(write, b"".join(held))
                    held, written = [], at
                progress(at, total)
            if length:
                stops.append(at)
                characters.append(length)
        if len(starts) > 1:
            held.append(b"\n")
        behind.call(write, b"".join(held))
    if blank:
        raise CorpusError("The corpus holds no text.", remedy="Give files with text in them.")
    whole.update(np.asarray(starts, "<u8").tobytes())
    return CanonicalText(
        path,
        *(np.array(column, np.uint64) for column in (starts, stops, characters)),
        several=len(starts) > 1,
        sha256=whole.hexdigest(),
        files=np.array(files, np.uint64),
    )


def _number(name: str) -> int:
    """A file's number: 8 bytes of its name's hash, which hold the names of millions of files in little memory."""
    return int.from_bytes(hashlib.sha256(name.encode("utf-8", "surrogateescape")).digest()[:8], "little")


# A text in segments that are encoded each by itself, whoever does it and in whatever order: put together,
# their ids are those of the whole.

SEGMENT = 1 << 20  # bytes of text in a segment, at least, but for the last
_WINDOW = 1 << 12  # bytes in which a place to cut is looked for at a time
_INSIDE = bytes(range(0x80, 0xC0))  # every byte of a character but its first
_CUT = re.compile(r"\S(?=[ \n])")  # see `octavo.tokenizers.base`


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
        if match := _CUT.search(text):
            return at + skipped + len(text[: match.end()].encode())
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


def encode_alone(
    path: Path, segments: Iterable[list[Span]], tokenizer: Tokenizer, dtype: np.dtype
) -> Iterator[Encoded | UnknownTextError]:
    """The segments of the text in a file, encoded here: the slow twin of `encode_workers.encode_together`."""
    for spans in segments:
        try:
            yield encode_segment(path, spans, tokenizer, dtype)
        except UnknownTextError as error:
            yield error
