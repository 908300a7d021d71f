"""From a page's characters to its lines: what pdfium finds, put right where it is known to err.

pdfium gives characters in the order of the page's content, right-to-left text already in logical order,
line breaks where a line ends. Three things are mended here: a glyph that stands for several right-to-left
letters comes with them turned round; a glyph without a Unicode value comes as its number in the font, which is
rubbish; ligatures and presentation forms come as themselves. Places are in points, y upwards.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from ctypes import create_string_buffer
from dataclasses import dataclass
from itertools import groupby
from math import hypot
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pypdfium2

SOFT_HYPHEN = "\u00ad"  # ends a line whose last word continues in the next
_PDFIUM_HYPHEN = 2
_REPEATED = 4  # letters of one glyph from which on a repetition in the same line is taken for an error
_UNMAPPED = 0.3  # share of characters without Unicode value from which on a line is rubbish
_FONT_NAME = 200  # bytes of it that are looked at
# Letters of one glyph that pdfium knows by itself, and gives in their order.
_IN_ORDER = {"لا", "لأ", "لإ", "لآ", "الله"}
_GAP = 1.5  # a space wider than so many times the font's size parts two columns


@dataclass
class Line:
    """A line of text and the box around it; `size` is its font's, `font` that font's name, and `gaps` the spaces in it
    that are wide as between the columns of a table.
    """

    text: str
    x0: float
    y0: float
    x1: float
    y1: float
    size: float
    font: str = ""
    gaps: int = 0


@dataclass(frozen=True)
class _Character:
    code: int
    box: tuple[float, float, float, float]  # left, bottom, right, top
    bad: bool


@dataclass
class PageText:
    """A page's lines.

    Attributes:
        pieces: the same lines cut at wide gaps, for pages whose content runs across the columns.
        unread: characters in lines that are left out, since too many there have no Unicode value.
        unread_lines: how many such lines there are.
    """

    lines: list[Line]
    pieces: list[Line]
    unread: int = 0
    unread_lines: int = 0

    def without(self, fonts: set[str]) -> PageText:
        """The same page with the lines in these fonts left out."""
        gone = [line for line in self.lines if line.font in fonts]
        return PageText(
            [line for line in self.lines if line.font not in fonts],
            [line for line in self.pieces if line.font not in fonts],
            self.unread + sum(len(line.text) for line in gone),
            self.unread_lines + len(gone),
        )


def page_text(page: pypdfium2.PdfPage) -> PageText:
    """Lines of a page in reading order."""
    found = PageText([], [])
    for characters, size, font in _raw_lines(page):
        bad = sum(c.bad for c in characters)
        inked = bad + sum(c.code > 32 and not c.bad for c in characters)
        if bad > _UNMAPPED * inked:
            found.unread += inked
            found.unread_lines += 1
            continue
        kept = _mended(characters)
        if line := _line(kept, size, font):
            pieces = [_line(piece, size, font) for piece in _cut_at_gaps(kept, size)]
            line.gaps = len(pieces) - 1
            found.lines.append(line)
            found.pieces += filter(None, pieces)
    return found


def _raw_lines(page: pypdfium2.PdfPage) -> Iterator[tuple[list[_Character], float, str]]:
    """Each line's characters, and the size and name of the font in its middle."""
    import pypdfium2.raw as pdfium

    textpage = page.get_textpage()
    code_of, box_of, error_of = (
        pdfium.FPDFText_GetUnicode,
        pdfium.FPDFText_GetLooseCharBox,
        pdfium.FPDFText_HasUnicodeMapError,
    )
    box = pdfium.FS_RECTF()
    held: list[_Character] = []
    start = 0
    for index in range(textpage.count_chars()):
        code = code_of(textpage, index)
        # A glyph number may be the same as the mark.
        hyphen = code == _PDFIUM_HYPHEN and pdfium.FPDFText_IsHyphen(textpage, index) == 1
        if code == 10 or code == 13 or hyphen:
            if hyphen and held:
                held.append(_Character(ord(SOFT_HYPHEN), held[-1].box, bad=False))
            if held:
                yield held, *_font(textpage, start, index)
            held, start = [], index + 1
            continue
        if not box_of(textpage, index, box):
            continue
        # Plain letters are nearly always right, and asking costs as much as all the rest.
        bad = not 32 <= code < 127 and (code < 32 and code != 9 or bool(error_of(textpage, index)))
        held.append(_Character(code, (box.left, box.bottom, box.right, box.top), bad))
    if held:
        yield held, *_font(textpage, start, textpage.count_chars())
    textpage.close()


def _font(textpage: pypdfium2.PdfTextPage, start: int, stop: int) -> tuple[float, str]:
    """Size and font of the letter in the middle of a line; the size as it is seen: the font's, as the page scales
    it.
    """
    import pypdfium2.raw as pdfium

    matrix = pdfium.FS_MATRIX()
    for index in sorted(range(start, stop), key=lambda i: abs(2 * i - start - stop)):
        if pdfium.FPDFText_IsGenerated(textpage, index) != 1 and pdfium.FPDFText_GetMatrix(
            textpage, index, matrix
        ):
            name = create_string_buffer(_FONT_NAME)
            pdfium.FPDFText_GetFontInfo(textpage, index, name, _FONT_NAME, None)
            size = pdfium.FPDFText_GetFontSize(textpage, index) * hypot(matrix.c, matrix.d)
            return max(0.1, size), name.value.decode("utf-8", "replace")
    return 1.0, ""


def _right_to_left(code: int) -> bool:
    return unicodedata.bidirectional(chr(code)) in ("R", "AL", "NSM")


def _mended(characters: list[_Character]) -> list[_Character]:
    """The characters that mean something, letters of one glyph in their order, and each such group once."""
    kept: list[_Character] = []
    seen: set[str] = set()
    dropped = False
    for _, same in groupby(characters, key=lambda c: c.box):
        group = [c for c in same if not c.bad]
        if len(group) == 0:
            dropped = True
            continue
        if len(group) > 1 and sum(_right_to_left(c.code) for c in group) * 2 > len(group):
            if "".join(chr(c.code) for c in group) not in _IN_ORDER:
                group.reverse()
            text = "".join(chr(c.code) for c in group)
            if len(group) >= _REPEATED and text in seen:
                continue
            seen.add(text)
        kept += group
    # A glyph number next to others may look like an accent that stands alone; no text has those.
    return [c for c in kept if not dropped or unicodedata.category(chr(c.code)) not in ("Sk", "Lm", "Co")]


def _line(characters: list[_Character], size: float, font: str) -> Line | None:
    inked = [c for c in characters if c.code > 32 and c.code not in (160, 0xAD)]
    if not inked:
        return None
    units = "".join(chr(c.code) for c in characters)
    text = plain(units.encode("utf-16", "surrogatepass").decode("utf-16", "replace")).strip()
    return Line(
        " ".join(text.split()),
        min(c.box[0] for c in inked),
        min(c.box[1] for c in inked),
        max(c.box[2] for c in inked),
        max(c.box[3] for c in inked),
        size,
        font,
    )


def _cut_at_gaps(characters: list[_Character], size: float) -> Iterator[list[_Character]]:
    held: list[_Character] = []
    right = 0.0
    for character in characters:
        if character.code > 32:
            if held and character.box[0] - right > _GAP * size:
                yield held
                held = []
            right = character.box[2]
        held.append(character)
    if held:
        yield held


def plain(text: str) -> str:
    """Ligatures and Arabic presentation forms as the letters that they stand for; nothing else is changed."""
    if text.isascii():
        return text
    return "".join(
        unicodedata.normalize("NFKC", c)
        if "\ufb00" <= c <= "\ufdff" or "\ufe70" <= c <= "\ufefc"
        else ""
        if c in "\u200b\ufeff\ufffe\uffff" or ("\x00" <= c < " " and c != "\t")
        else c
        for c in text
    )
