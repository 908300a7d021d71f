"""What every reader is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

from pydantic import Field

from octavo.config.parts import PartConfig, Strict
from octavo.corpus.decoding import Encoding, encoding_of
from octavo.corpus.documents import Document, Report


class ReaderOptions(Strict):
    """What can be said about files beforehand."""

    encoding: str = "auto"
    """How the bytes of text files are read: auto (UTF-8, UTF-16 by its mark, else detected and said), or a
    name such as windows-1252."""
    field: str = Field("text", min_length=1)
    """Name of the field that holds the text in records (.jsonl)."""
    strip_gutenberg: bool = True
    """Cut off Project Gutenberg's header and licence."""


class Reader(ABC):
    """Reads files of one format.

    Attributes:
        gives_records: whether a file's documents are marked by its format; else a file is one text.
    """

    gives_records: ClassVar[bool]

    @abstractmethod
    def check(self, path: Path, name: str) -> None:
        """Raise CorpusError if the file cannot be read as this format, as far as can be told before reading
        it.
        """

    @abstractmethod
    def read(self, path: Path, name: str) -> Iterator[Document]:
        """The file's documents, in order, as they stand in it. Raises CorpusError."""


class TextReader(Reader):
    """Base of the readers of formats that are plain text underneath; finds a file's encoding once, and says
    it.
    """

    def __init__(self, *, encoding: str, report: Report) -> None:
        self._wanted = encoding
        self._report = report
        self._found: dict[Path, Encoding] = {}

    def check(self, path: Path, name: str) -> None:
        self._encoding(path, name)

    def _encoding(self, path: Path, name: str) -> Encoding:
        if path not in self._found:
            found = self._found[path] = encoding_of(path, name, self._wanted)
            if found.guessed:
                self._report(f"{name} is {found.label}, not UTF-8; converted")
        return self._found[path]


class ReaderConfig(PartConfig):
    """Base of every reader's config.

    Attributes:
        suffixes: endings of the file names that it reads, lower case.
    """

    suffixes: ClassVar[tuple[str, ...]]

    @abstractmethod
    def build(self, options: ReaderOptions, report: Report) -> Reader:
        """Make the reader, with those of the options that concern it."""
