"""What correction takes for a word: letters with apostrophes inside, in any case. Hyphens divide words;
what has digits in it (3rd, x2) is none."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping

from octavo.corpus.words import MARKS
from octavo.tokenizers.base import whole_words

_LETTERS = rf"[^\s\d{MARKS}]++"
WORD = re.compile(rf"(?<![^\s{MARKS}]){_LETTERS}(?:['’]{_LETTERS})*(?!\d|['’]{_LETTERS})")


def count_words(pieces: Iterable[str]) -> Counter[str]:
    """How often each word occurs, in lower case, in a text that is given in pieces cut anywhere."""
    counts: Counter[str] = Counter()
    for piece in whole_words(pieces):
        counts.update(known_form(word) for word in WORD.findall(piece))
    return counts


def known_form(word: str) -> str:
    """The form under which a word is looked up: lower case, straight apostrophe."""
    return word.lower().replace("’", "'")


def share_known(words: Iterable[str], vocabulary: Mapping[str, int] | None) -> float | None:
    """Share of words that the vocabulary has; None if there are no words or no vocabulary."""
    if vocabulary is None:
        return None
    found = [known_form(word) in vocabulary for word in words]
    return sum(found) / len(found) if found else None
