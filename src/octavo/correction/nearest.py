"""The offline corrector: a word that the corpus never had becomes the closest one that it has.

Closest by the fewest single-letter insertions, deletions, substitutions and swaps of neighbours (optimal string
alignment); of equally close words the one that the corpus has most often. It repairs spelling, nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import ModuleType
from typing import Any

import numpy as np

from octavo.correction.edits import Change, Correction, corrected, words_between
from octavo.correction.words import known_form
from octavo.errors import CorpusError, MissingExtra

RULE = "closest word"
_AT_ONCE = 64  # words compared with the whole vocabulary in one call; bounds the memory of the distances


class NearestWord:
    """Repairs words from a vocabulary.

    Args:
        vocabulary: how often the corpus has each word, in the form of `count_words`.

    Raises:
        CorpusError: the vocabulary is empty.
        MissingExtra: the package `rapidfuzz` is not installed.
    """

    def __init__(self, vocabulary: Mapping[str, int]) -> None:
        if not vocabulary:
            raise CorpusError("The text has no words, so there is nothing to correct with.")
        _library()
        self.vocabulary = vocabulary
        self._ordered = sorted(vocabulary, key=lambda word: (-vocabulary[word], word))
        self._found: dict[str, tuple[str, int]] = {}

    def correct(self, text: str, *, start: int = 0, stop: int | None = None) -> Correction:
        stop = len(text) if stop is None else stop
        unknown = [
            (begin, end, word)
            for begin, end, word in words_between(text, start, stop)
            if known_form(word) not in self.vocabulary
        ]
        self._look_up([known_form(word) for *_, word in unknown])
        changes = []
        for begin, end, word in unknown:
            nearest, distance = self._found[known_form(word)]
            edits = "1 letter" if distance == 1 else f"{distance} letters"
            why = f"the corpus never has '{word}'; {edits} away"
            changes.append(Change(begin, end, word, cased_like(word, nearest), RULE, why))
        return corrected(text, changes, start=start, stop=stop, vocabulary=self.vocabulary)

    def _look_up(self, words: Sequence[str]) -> None:
        process, distance = _library()
        fresh = [word for word in dict.fromkeys(words) if word not in self._found]
        for at in range(0, len(fresh), _AT_ONCE):
            queries = fresh[at : at + _AT_ONCE]
            table = process.cdist(queries, self._ordered, scorer=distance, dtype=np.uint16)
            # argmin takes the first of equals, and the words stand in the order of their frequency.
            for word, row, best in zip(queries, table, table.argmin(axis=1).tolist(), strict=True):
                self._found[word] = self._ordered[best], int(row[best])


def cased_like(pattern: str, word: str) -> str:
    """A word in the case of another: all capitals, a capital first, or none."""
    if len(pattern) > 1 and pattern.isupper():
        return word.upper()
    return word[:1].upper() + word[1:] if pattern[:1].isupper() else word


def _library() -> tuple[ModuleType, Callable[..., Any]]:
    try:
        from rapidfuzz import process
        from rapidfuzz.distance import OSA
    except ImportError as error:
        raise MissingExtra("rapidfuzz", "correct", "Correction by the closest word") from error
    return process, OSA.distance
