"""Whether a PDF's packed streams unpack.

pdfium reads what it can of a damaged file and says nothing, so a page may come without its end. Here the streams
are found by their words in the file, without its table of contents, and unpacked for the check alone.
"""

from __future__ import annotations

import re
import unicodedata
import zlib
from collections import Counter, defaultdict
from collections.abc import Iterable

from octavo.corpus.pdf.lines import Line

LARGEST = 256 << 20  # bytes of a file that is checked, and of what its streams unpack to
_DICTIONARY = 2048  # bytes before a stream in which its dictionary is looked for
_PIECE = 1 << 20
_LZW_BYTES = 1 << 20  # of one stream; Python unpacks slowly
_START = re.compile(rb"(?<!end)stream\r?\n")
_PACKED = re.compile(rb"/Filter\s*\[?\s*/(FlateDecode|Fl|LZWDecode|LZW)\s*\]?\s*(?:/(?!Filter)|>>)")
_CLEAR, _END, _FIRST = 256, 257, 258


def broken_streams(data: bytes) -> int:
    """How many of a file's streams do not unpack. An encrypted file's are not looked at."""
    if len(data) > LARGEST or b"/Encrypt" in data:
        return 0
    broken, left = 0, LARGEST
    for start in _START.finditer(data):
        head = data[max(0, start.start() - _DICTIONARY) : start.start()]
        found = _PACKED.search(head[head.rfind(b" obj") + 1 :])
        if found is None:
            continue
        at = start.end()
        if found[1].startswith(b"F"):
            whole, size = _inflates(data, at, left)
            left -= size
        else:
            end = data.find(b"endstream", at)
            late = b"/EarlyChange 0" in head
            whole = end - at > _LZW_BYTES or (end > 0 and _lzw_fits(data[at:end], early=not late))
        broken += not whole
        if left <= 0:
            break
    return broken


def _inflates(data: bytes, at: int, most: int) -> tuple[bool, int]:
    """Whether a stream unpacks to its end, and to how many bytes."""
    unpacker = zlib.decompressobj()
    size, rest = 0, b""
    while not unpacker.eof and size < most:
        rest = unpacker.unconsumed_tail
        if not rest:
            rest, at = data[at : at + _PIECE], at + _PIECE
            if not rest:
                return False, size
        try:
            size += len(unpacker.decompress(rest, _PIECE))
        except zlib.error:
            return False, size
    return True, size


def _lzw_fits(data: bytes, *, early: bool) -> bool:
    """Whether every code of an LZW stream is one that its reader can know by then.

    Args:
        early: whether codes get wider one code earlier than they must, as is usual.
    """
    known, width, first = _FIRST, 9, True
    held = bits = 0
    for byte in data:
        held, bits = (held << 8 | byte) & 0xFFFFFF, bits + 8
        if bits < width:
            continue
        bits -= width
        code = held >> bits & (1 << width) - 1
        if code == _END:
            return True
        if code == _CLEAR:
            known, width, first = _FIRST, 9, True
        elif first:
            if code > _CLEAR:
                return False
            first = False
        elif code > known:
            return False
        else:
            known = min(known + 1, 4096)
            width += width < 12 and known + early >= 1 << width
    return True


# Whether text is any language at all, or codes of glyphs whose letters the file does not tell.

_LETTERS = 0.5  # share of letters and digits that text has at least
_UNASSIGNED = 0.1  # share of characters that are private or not assigned
_LATIN_VOWELS = (0.2, 0.65)  # share of vowels among the letters of any language in Latin script
_ENOUGH = 40  # letters from which on vowels are counted
_OF_A_FONT = (
    200  # characters from which on a font is judged by itself; fewer may be formulas or abbreviations
)
# What tables, rules and tables of contents are drawn with: it says nothing about the language.
_DRAWN = re.compile(r"[.\-_=+|*#~·•\u2010-\u2015\u2022\u2026\u2500-\u259f]|(\W)(?:\s*\1)+")


def is_rubbish(text: str) -> bool:
    """Whether text from a page is no language at all."""
    inked = [c for c in _DRAWN.sub("", text) if not c.isspace()]
    if not inked:
        return False
    kinds = Counter(unicodedata.category(c)[0] for c in inked)
    if kinds["L"] + kinds["M"] + kinds["N"] < _LETTERS * len(inked):
        return True
    if kinds["C"] > _UNASSIGNED * len(inked):
        return True
    latin = [c for c in text.lower() if "a" <= c <= "z" or "à" <= c <= "ÿ"]
    if len(latin) < _ENOUGH or len(latin) < 0.5 * kinds["L"]:
        return False
    vowels = sum(unicodedata.normalize("NFD", c)[0] in "aeiouyæø" for c in latin) / len(latin)
    return not _LATIN_VOWELS[0] <= vowels <= _LATIN_VOWELS[1]


def unreadable_fonts(lines: Iterable[Line]) -> set[str]:
    """The fonts of a page in which only rubbish is written."""
    texts: defaultdict[str, list[str]] = defaultdict(list)
    for line in lines:
        texts[line.font].append(line.text)
    joined = {font: "\n".join(text) for font, text in texts.items()}
    return {font for font, text in joined.items() if len(text) >= _OF_A_FONT and is_rubbish(text)}
