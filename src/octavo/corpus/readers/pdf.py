"""PDF: paragraphs in reading order, without page numbers and running heads."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, BinaryIO, ClassVar, Literal

from octavo.config.parts import register
from octavo.corpus.documents import Report
from octavo.corpus.limits import got_on
from octavo.corpus.pdf.damage import LARGEST, broken_streams, is_rubbish, unreadable_fonts
from octavo.corpus.pdf.layout import in_order, paragraphs, without_heads, words_of
from octavo.corpus.pdf.lines import Line, PageText, page_text
from octavo.corpus.readers.base import DocumentConfig
from octavo.corpus.sandbox import NeedsPassword
from octavo.errors import CorpusError

if TYPE_CHECKING:
    import pypdfium2

_WRONG_PASSWORD = 4  # pdfium's number for it
_READ = 0.1  # share of a page's characters that can be read, below which it is left out whole
_OCR = "Let a program for text recognition write a text layer first, for example: ocrmypdf {} in.pdf out.pdf"


def _open(file: BinaryIO, password: str | None) -> pypdfium2.PdfDocument:
    import pypdfium2

    file.seek(0)
    try:
        document = pypdfium2.PdfDocument(file, password=password)
        len(document)
    except pypdfium2.PdfiumError as error:
        if getattr(error, "err_code", None) == _WRONG_PASSWORD or "password" in str(error).lower():
            raise NeedsPassword from error
        raise CorpusError(
            "cannot be opened as a PDF: it is damaged, or cut off.",
            remedy="Fetch it again, or open and save it with a PDF program.",
        ) from error
    return document


def _what(page: PageText, pictures: bool) -> str:
    """What a page is: text, rubbish, a scan, or blank. It is rubbish when hardly anything on it can be read."""
    if not page.lines and not page.unread:
        return "scan" if pictures else "blank"
    text = "\n".join(line.text for line in page.lines)
    nothing = len(text) < _READ * (len(text) + page.unread)
    return "rubbish" if nothing or is_rubbish(text) else "text"


def _has_pictures(page: pypdfium2.PdfPage) -> bool:
    return next(iter(page.get_objects(filter=(3,), max_depth=4)), None) is not None  # 3: image


def _pages(document: pypdfium2.PdfDocument) -> tuple[list[list[Line]], Counter[str]]:
    """The lines of the pages with text, and how many pages of each kind there are, unreadable lines with them."""
    import pypdfium2

    pages: list[list[Line]] = []
    kinds: Counter[str] = Counter()
    for number in range(len(document)):
        try:
            page = document[number]
            found = page_text(page)
            found = found.without(unreadable_fonts(found.lines))
            kind = _what(found, _has_pictures(page))
        except pypdfium2.PdfiumError:
            kinds["damaged"] += 1
            continue
        kinds[kind] += 1
        if kind == "text":
            kinds["line"] += found.unread_lines
            pages.append(in_order(found.lines, found.pieces))
        page.close()
        got_on()
    return pages, kinds


_UNMAPPED = "written in a font without Unicode map, so that only rubbish comes out"
_WORDS = {
    "scan": ("page", "scanned, without text"),
    "rubbish": ("page", _UNMAPPED),
    "damaged": ("page", "damaged"),
    "line": ("line", _UNMAPPED),
}


def _damage(document: pypdfium2.PdfDocument, file: BinaryIO) -> str | None:
    """What is wrong with a file that pdfium reads as if nothing were."""
    import pypdfium2.raw as pdfium

    size = file.seek(0, 2)
    file.seek(0)
    broken = broken_streams(file.read()) if size <= LARGEST else 0
    if broken:
        return f"{'one of its parts does' if broken == 1 else f'{broken} of its parts do'} not unpack"
    if not pdfium.FPDF_DocumentHasValidCrossReferenceTable(document):
        return "its table of contents is wrong or cut off"
    return None


def _nothing(kinds: Counter[str], damage: str | None) -> CorpusError:
    """Why a document gives no text at all."""
    if kinds["scan"]:
        return CorpusError(
            "is a scan: its pages are pictures without text.", remedy=_OCR.format("--skip-text")
        )
    if kinds["rubbish"]:
        return CorpusError(
            "is written in a font without Unicode map: only rubbish comes out, and it is left out.",
            remedy=_OCR.format("--force-ocr"),
        )
    if kinds["damaged"]:
        return CorpusError("is damaged: no page of it can be read.", remedy="Fetch it again, or repair it.")
    if damage:
        return CorpusError(
            f"is damaged: {damage}, and no text is left.", remedy="Fetch it again, or repair it."
        )
    return CorpusError("holds no text: its pages are blank.")


@register("reader")
class PdfConfig(DocumentConfig):
    """PDF; needs pypdfium2."""

    kind: Literal["pdf"] = "pdf"
    suffixes: ClassVar[tuple[str, ...]] = (".pdf",)
    label: ClassVar[str] = "a PDF document"
    package: ClassVar[str | None] = "pypdfium2"

    @staticmethod
    def extract(file: BinaryIO, options: dict[str, Any], say: Report) -> Iterator[tuple[str, Iterator[str]]]:
        """The text as paragraphs with blank lines between."""
        document = _open(file, options["password"])
        pages, kinds = _pages(document)
        damage = _damage(document, file)
        if not pages:
            raise _nothing(kinds, damage)
        for kind, (unit, what) in _WORDS.items():
            if kinds[kind]:
                say(f"{kinds[kind]} {unit}{'' if kinds[kind] == 1 else 's'} left out, {what}")
        if damage:
            where = "the one page" if len(pages) == 1 else f"the {len(pages)} pages"
            taken = f"what can be read on {where} with text is taken, and some may be missing"
            say(f"the file is damaged: {damage}; {taken}")
        pages = without_heads(pages)
        yield "", iter(["\n\n".join(paragraphs(pages, words_of(pages)))])
