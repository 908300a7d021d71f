"""Plain text, Markdown and ABC notation, which stay as they are written."""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO, ClassVar, Literal

from octavo.config.parts import register
from octavo.corpus.documents import Document, Report
from octavo.corpus.gutenberg import without_gutenberg
from octavo.corpus.readers.base import Reader, ReaderConfig, ReaderOptions, decoded


class PlainText(Reader):
    """A file is one text."""

    gives_records = False

    def __init__(self, *, encoding: str, strip_gutenberg: bool, report: Report) -> None:
        self._encoding = encoding
        self._report = report
        self._strip_gutenberg = strip_gutenberg

    def read(self, file: BinaryIO, name: str) -> Iterator[Document]:
        pieces = decoded(file, name, self._encoding, self._report)
        if self._strip_gutenberg:
            pieces = without_gutenberg(pieces, lambda header, licence: self._say(name, header, licence))
        yield Document(name, pieces)

    def _say(self, name: str, header: int, licence: int) -> None:
        self._report(
            f"{name}: Project Gutenberg header ({header:,} characters) "
            f"and licence ({licence:,} characters) cut off"
        )


@register("reader")
class TextConfig(ReaderConfig):
    """Plain text, Markdown, and tunes in ABC notation."""

    kind: Literal["text"] = "text"
    suffixes: ClassVar[tuple[str, ...]] = (".txt", ".text", ".md", ".markdown", ".abc")
    label: ClassVar[str] = "plain text"

    def build(self, options: ReaderOptions, report: Report) -> PlainText:
        """Make the reader."""
        return PlainText(encoding=options.encoding, strip_gutenberg=options.strip_gutenberg, report=report)
