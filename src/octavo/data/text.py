"""The canonical text: a corpus as one UTF-8 file, and where each document stands in it.

Of several documents each is ended by a line break, which is no part of it; one document alone stands there as
it is. So the file is readable, its size is what bits per byte divide by, and each line break pays for an end
token.
"""

from __future__ import annotations

import codecs
import hashlib
from array import array
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from octavo.corpus import Source
from octavo.errors import CorpusError
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
