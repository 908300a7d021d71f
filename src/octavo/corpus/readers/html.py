"""Web pages (.html): the text, in paragraphs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, BinaryIO, ClassVar, Literal

from octavo.config.parts import register
from octavo.corpus.documents import Report
from octavo.corpus.hypertext import decode_html, html_text
from octavo.corpus.readers.base import DocumentConfig
from octavo.errors import CorpusError


@register("reader")
class HtmlConfig(DocumentConfig):
    """Web pages; needs selectolax."""

    kind: Literal["html"] = "html"
    suffixes: ClassVar[tuple[str, ...]] = (".html", ".htm", ".xhtml")
    label: ClassVar[str] = "a web page (HTML)"
    package: ClassVar[str | None] = "selectolax"

    @staticmethod
    def extract(file: BinaryIO, options: dict[str, Any], say: Report) -> Iterator[tuple[str, Iterator[str]]]:
        text = html_text(decode_html(file.read()))
        if not text:
            raise CorpusError(
                "holds no text: what a browser shows there is written by scripts or drawn.",
                remedy="Save the page from the browser once it is shown, or copy its text.",
            )
        yield "", iter([text])
