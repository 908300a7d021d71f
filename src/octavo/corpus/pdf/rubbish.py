"""Whether text is any language at all, or codes of glyphs whose letters the file does not tell.

A font without a Unicode map gives numbers that look like letters. They are known by what no language has: hardly a
letter, characters that nobody assigned, or Latin letters with far too few or too many vowels.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterable

from octavo.corpus.pdf.lines import Line

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
