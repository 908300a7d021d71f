"""What a word is, for everything that counts words: the word tokenizer, vocabularies, cleaning, statistics.

A word is what stands between white space, less the punctuation at its edges; apostrophes and hyphens inside
it stay (don't, well-known), and so do points, commas and colons between digits (3.14). Every other mark
stands by itself.
"""

from __future__ import annotations

import re

# Everything that is neither white space nor one of these belongs to words. Spelled out instead of \w, which
# follows Python's version of Unicode and leaves out the combining marks that many scripts write inside words.
MARKS = (
    r"!-/:-@\[-`{-~"  # ASCII
    r"\u00a1-\u00a9\u00ab-\u00b1\u00b4\u00b6-\u00b8\u00bb\u00bf\u00d7\u00f7"  # Latin-1
    r"\u2010-\u2027\u2030-\u205e\u20a0-\u20cf"  # dashes, quotes, bullets, currencies
    r"\u3001-\u3003\u3008-\u301f\uff01-\uff0f\uff1a-\uff20\uff3b-\uff40\uff5b-\uff65"  # CJK
)
_LETTERS = rf"[^\s{MARKS}]++"
WORD = rf"{_LETTERS}(?:(?:['’‐‑-]|(?<=[0-9])[.,:](?=[0-9])){_LETTERS})*"

WORDS = re.compile(WORD)
"""Matches each word."""

WORDS_AND_MARKS = re.compile(rf"{WORD}|[{MARKS}]")
"""Matches each word and each mark."""

IS_MARK = re.compile(rf"[{MARKS}]")
"""Matches a mark alone (with fullmatch)."""
