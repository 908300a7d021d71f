"""PDF: paragraphs in reading order, without page numbers and running heads."""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, BinaryIO, ClassVar, Literal

from octavo.config.parts import register
from octavo.corpus.documents import Report
from octavo.corpus.pdf.layout import in_order, paragraphs, without_heads, words_of
from octavo.corpus.pdf.lines import Line, PageText, page_text
from octavo.corpus.readers.base import DocumentConfig
from octavo.corpus.sandbox import NeedsPassword
from octavo.errors import CorpusError

if TYPE_CHECKING:
    import pypdfium2

_WRONG_PASSWORD = 4  # pdfium's number for it
_UNMAPPED = 0.3  # share of characters without Unicode value from which on a page is rubbish
_LETTERS = 0.5  # share of letters and digits that a page has at least
_LATIN_VOWELS = (0.2, 0.65)  # share of vowels among the letters of any language in Latin script
_ENOUGH = 40  # letters from which on vowels are counted
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
            "is no PDF that can be opened: it is damaged, or cut off.",
            remedy="Fetch it again, or open and save it with a PDF program.",
        ) from error
    return document


def is_rubbish(text: str) -> bool:
    """Whether text from a page is no language at all: codes of glyphs whose letters the file does not tell."""
    inked = [c for c in text if not c.isspace()]
    if not inked:
        return False
    kinds = Counter(unicodedata.category(c)[0] for c in inked)
    if kinds["L"] + kinds["M"] + kinds["N"] < _LETTERS * len(inked):
        return True
    if kinds["C"] > 0.1 * len(inked):  # private or not assigned
        return True
    latin = [c for c in text.lower() if "a" <= c <= "z" or "à" <= c <= "ÿ"]
    if len(latin) < _ENOUGH or len(latin) < 0.5 * kinds["L"]:
        return False
    vowels = sum(unicodedata.normalize("NFD", c)[0] in "aeiouy" for c in latin) / len(latin)
    return not _LATIN_VOWELS[0] <= vowels <= _LATIN_VOWELS[1]


def _what(page: PageText, pictures: bool) -> str:
    """What a page is: text, rubbish, a scan, or blank."""
    if not page.lines and not page.bad:
        return "scan" if pictures else "blank"
    text = "\n".join(line.text for line in page.lines)
    return "rubbish" if page.bad > _UNMAPPED * page.characters or is_rubbish(text) else "text"


def _has_pictures(page: pypdfium2.PdfPage) -> bool:
    return next(iter(page.get_objects(filter=(3,), max_depth=4)), None) is not None  # 3: image


def _pages(document: pypdfium2.PdfDocument) -> tuple[list[list[Line]], Counter[str]]:
    import pypdfium2

    pages: list[list[Line]] = []
    kinds: Counter[str] = Counter()
    for number in range(len(document)):
        try:
            page = document[number]
            found = page_text(page)
            kind = _what(found, _has_pictures(page))
        except pypdfium2.PdfiumError:
            kinds["damaged"] += 1
            continue
        kinds[kind] += 1
        if kind == "text":
            pages.append(in_order(found.lines, found.pieces))
        page.close()
    return pages, kinds


_WORDS = {
    "scan": "scanned, without text",
    "rubbish": "written in a font without Unicode map, so that only rubbish comes out",
    "damaged": "damaged",
}


def _nothing(kinds: Counter[str]) -> CorpusError:
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
        if not pages:
            raise _nothing(kinds)
        for kind, what in _WORDS.items():
            if kinds[kind]:
                one = kinds[kind] == 1
                say(f"{kinds[kind]} page{'' if one else 's'} left out, {what}")
        pages = without_heads(pages)
        yield "", iter(["\n\n".join(paragraphs(pages, words_of(pages)))])
