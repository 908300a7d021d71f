"""The canonical text: a corpus as one UTF-8 file, and where each document stands in it.

Of several documents each is ended by a line break, which is no part of it; one document alone stands there as
it is. So the file is readable, its size is what bits per byte divide by, and each line break pays for an end
mark.
"""

from __future__ import annotations

import codecs
import hashlib
from array import array
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from octavo.corpus import Source
from octavo.errors import CorpusError

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
        """Size of the file."""
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
        digests: 16 bytes of the SHA-256 of each document's text without white space, as two uint64: equal for
            documents that repeat each other but for spaces and line breaks.
        sha256: of the text and its document boundaries, hex.
    """

    digests: np.ndarray
    sha256: str


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
    starts, stops, characters = array("Q"), array("Q"), array("Q")
    digests = bytearray()
    whole = hashlib.sha256()
    at = 0
    blank = True
    total = source.total_bytes
    with path.open("wb", buffering=PIECE) as file:

        def write(data: bytes) -> None:
            nonlocal at
            file.write(data)
            whole.update(data)
            at += len(data)

        for document in source.documents():
            length = 0
            content = hashlib.sha256()
            for piece in filter(None, document.pieces):
                if length == 0:
                    if starts:
                        write(b"\n")
                    starts.append(at)
                data = piece.encode()
                write(data)
                length += len(piece)
                bare = data.translate(None, _WHITE_SPACE)
                blank = blank and not bare
                content.update(bare)
                progress(at, total)
            if length:
                stops.append(at)
                characters.append(length)
                digests += content.digest()[:16]
        if len(starts) > 1:
            write(b"\n")
    if blank:
        raise CorpusError("The corpus holds no text.", remedy="Give files with text in them.")
    whole.update(np.asarray(starts, "<u8").tobytes())
    return CanonicalText(
        path,
        *(np.array(column, np.uint64) for column in (starts, stops, characters)),
        several=len(starts) > 1,
        digests=np.frombuffer(bytes(digests), "<u8").reshape(-1, 2),
        sha256=whole.hexdigest(),
    )
