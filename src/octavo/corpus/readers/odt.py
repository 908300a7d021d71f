"""OpenDocument texts (.odt): paragraphs, headings, lists and tables; comments and deleted text stay out."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, BinaryIO, ClassVar, Literal

from octavo.config.parts import register
from octavo.corpus.documents import Report
from octavo.corpus.packages import open_zip, parse_xml, part
from octavo.corpus.readers.base import DocumentConfig
from octavo.errors import CorpusError

_SKIPPED = {"annotation", "tracked-changes", "note-citation", "forms", "sequence-decls"}
_MOST_SPACES = 1000  # that one element may stand for


class _Paragraphs:
    """Collects paragraphs from the elements of OpenDocument."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self._open: list[list[str]] = []
        self._skipping = 0
        self._rows: list[list[str]] = []

    def start(self, name: str, attributes: dict[str, str]) -> None:
        if self._skipping or name in _SKIPPED:
            self._skipping += 1
        elif name in ("p", "h"):
            self._open.append([])
        elif name == "table-row":
            self._rows.append([])
        elif name == "table-cell" and self._rows:
            self._rows[-1].append("")
        elif self._open and name in ("s", "tab", "line-break"):
            count = attributes.get("c", "1")
            spaces = min(int(count), _MOST_SPACES) if count.isdecimal() and len(count) < 9 else 1
            self._open[-1].append({"s": " " * spaces, "tab": "\t"}.get(name, "\n"))

    def end(self, name: str) -> None:
        if self._skipping:
            self._skipping -= 1
        elif name in ("p", "h") and self._open:
            self._finish("".join(self._open.pop()))
        elif name == "table-row" and self._rows:
            cells = self._rows.pop()
            self._finish("\t".join(cells) if any(cells) else "")

    def text(self, data: str) -> None:
        if self._open and not self._skipping:
            self._open[-1].append(" ".join(data.split("\n")))

    def _finish(self, text: str) -> None:
        if not text.strip():
            return
        if self._rows and self._rows[-1]:
            self._rows[-1][-1] = f"{self._rows[-1][-1]} {text.strip()}".strip()
        else:
            self.done.append(text)


@register("reader")
class OdtConfig(DocumentConfig):
    """OpenDocument texts (.odt); needs no package."""

    kind: Literal["odt"] = "odt"
    suffixes: ClassVar[tuple[str, ...]] = (".odt", ".ott")
    label: ClassVar[str] = "an OpenDocument text (.odt)"

    @staticmethod
    def extract(file: BinaryIO, options: dict[str, Any], say: Report) -> Iterator[tuple[str, Iterator[str]]]:
        """The text as paragraphs with blank lines between."""
        package = open_zip(file)
        if "META-INF/manifest.xml" in package.namelist() and b"encryption-data" in part(
            package, "META-INF/manifest.xml"
        ):
            raise CorpusError("is encrypted.", remedy="Save it without a password.")
        paragraphs = _Paragraphs()
        parse_xml(part(package, "content.xml"), paragraphs.start, paragraphs.end, paragraphs.text)
        yield "", iter(["\n\n".join(paragraphs.done)])
