"""Word documents (.docx): paragraphs, tables and notes of the main text; what was deleted stays out."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, BinaryIO, ClassVar, Literal

from octavo.config.parts import register
from octavo.corpus.documents import Report
from octavo.corpus.packages import open_zip, parse_xml, part
from octavo.corpus.readers.base import DocumentConfig

_SKIPPED = {
    "Fallback",
    "del",
    "moveFrom",
    "instrText",
    "delText",
}  # a second form of a shape; tracked changes
_CHARACTERS = {"tab": "\t", "br": "\n", "cr": "\n", "noBreakHyphen": "-", "softHyphen": ""}


class _Paragraphs:
    """Collects paragraphs from the elements of WordprocessingML."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self._open: list[list[str]] = []  # a paragraph may hold a text box with paragraphs of its own
        self._skipping = 0
        self._in_text = False
        self._rows: list[list[list[str]]] = []

    def start(self, name: str, attributes: dict[str, str]) -> None:
        if self._skipping or name in _SKIPPED:
            self._skipping += 1
        elif name == "p":
            self._open.append([])
        elif name == "t":
            self._in_text = True
        elif name == "tr":
            self._rows.append([])
        elif name == "tc" and self._rows:
            self._rows[-1].append([])
        elif name in _CHARACTERS and self._open and not attributes.get("pos"):  # no tab stops
            self._open[-1].append(_CHARACTERS[name])

    def end(self, name: str) -> None:
        if self._skipping:
            self._skipping -= 1
        elif name == "p" and self._open:
            self._finish("".join(self._open.pop()))
        elif name == "t":
            self._in_text = False
        elif name == "tr" and self._rows:
            cells = [" ".join(cell) for cell in self._rows.pop()]
            self._finish("\t".join(cells) if any(cells) else "")

    def text(self, data: str) -> None:
        if self._in_text and self._open and not self._skipping:
            self._open[-1].append(data)

    def _finish(self, text: str) -> None:
        if not text.strip():
            return
        if self._rows and self._rows[-1]:
            self._rows[-1][-1].append(text.strip())
        else:
            self.done.append(text)


@register("reader")
class DocxConfig(DocumentConfig):
    """Word documents (.docx); needs no package."""

    kind: Literal["docx"] = "docx"
    suffixes: ClassVar[tuple[str, ...]] = (".docx", ".docm")
    label: ClassVar[str] = "a Word document (.docx)"

    @staticmethod
    def extract(file: BinaryIO, options: dict[str, Any], say: Report) -> Iterator[tuple[str, Iterator[str]]]:
        """The text as paragraphs with blank lines between."""
        package = open_zip(file)
        paragraphs = _Paragraphs()
        parse_xml(part(package, "word/document.xml"), paragraphs.start, paragraphs.end, paragraphs.text)
        for notes in ("word/footnotes.xml", "word/endnotes.xml"):
            if notes in package.namelist():
                parse_xml(part(package, notes), paragraphs.start, paragraphs.end, paragraphs.text)
        yield "", iter(["\n\n".join(paragraphs.done)])
