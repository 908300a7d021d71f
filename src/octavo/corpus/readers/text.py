"""Plain text, Markdown and ABC notation as they are written, without what programs put around exported ones."""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO, ClassVar, Literal

from octavo.config.parts import register
from octavo.corpus.chats import without_front_matter, without_times
from octavo.corpus.documents import Document, Report
from octavo.corpus.gutenberg import without_gutenberg
from octavo.corpus.readers.base import Reader, ReaderConfig, ReaderOptions, decoded

MARKDOWN = (".md", ".markdown")


class PlainText(Reader):
    """A file is one text."""

    gives_records = False

    def __init__(self, *, encoding: str, strip_gutenberg: bool, report: Report) -> None:
        self._encoding = encoding
        self._report = report
        self._strip_gutenberg = strip_gutenberg

    def read(self, file: BinaryIO, name: str) -> Iterator[Document]:
        pieces = decoded(file, name, self._encoding, self._report)
        if name.lower().endswith(MARKDOWN):
            pieces = without_front_matter(pieces, lambda size: self._front(name, size))
        else:
            pieces = without_times(pieces, lambda messages, left_out: self._chat(name, messages, left_out))
        if self._strip_gutenberg:
            pieces = without_gutenberg(pieces, lambda header, licence: self._say(name, header, licence))
        yield Document(name, pieces)

    def _front(self, name: str, characters: int) -> None:
        self._report(f"{name}: front matter ({characters:,} characters) cut off")

    def _chat(self, name: str, messages: int, left_out: int) -> None:
        without = f"; {left_out:,} notices and media left out" if left_out else ""
        self._report(f"{name}: a chat of {messages:,} messages, read without times{without}")

    def _say(self, name: str, header: int, licence: int) -> None:
        self._report(
            f"{name}: Project Gutenberg header ({header:,} characters) "
            f"and licence ({licence:,} characters) cut off"
        )


@register("reader")
class TextConfig(ReaderConfig):
    """Plain text, Markdown, and tunes in ABC notation."""

    kind: Literal["text"] = "text"
    suffixes: ClassVar[tuple[str, ...]] = (".txt", ".text", *MARKDOWN, ".abc")
    label: ClassVar[str] = "plain text"

    def build(self, options: ReaderOptions, report: Report) -> PlainText:
        """Make the reader."""
        return PlainText(encoding=options.encoding, strip_gutenberg=options.strip_gutenberg, report=report)
