"""Counting words in bounded memory, and what a count says: coverage, growth."""

from __future__ import annotations

import re
from array import array
from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np

from octavo.corpus.cleaning.cleaned import in_portions
from octavo.corpus.words import WORDS

MOST_DISTINCT = 2_000_000
"""Distinct words that are kept. When there are more, those that were met once are let go."""

_BLOCK = 1 << 15  # characters between two looks at the growth
_GROWTH = 1.1  # ratio between two points of the growth curve


class WordCounts:
    """How often each word stands in a text.

    Args:
        pattern: what a word is.
        lowercase: whether Cat is cat.

    Attributes:
        counts: by word.
        total: running words.
        exact: whether no rare word had to be let go.
        growth: (running words, distinct words) on the way.
    """

    def __init__(self, *, pattern: re.Pattern[str] = WORDS, lowercase: bool = True) -> None:
        self._find = pattern.findall
        self._lowercase = lowercase
        self.counts: Counter[str] = Counter()
        self.total = 0
        self.exact = True
        self.growth: list[tuple[int, int]] = []
        self._next = 100.0

    def add(self, text: str) -> int:
        """Count a text, or a part of one that ends between two words; returns how many words it has."""
        before = self.total
        for block in in_portions([text], _BLOCK):
            words = self._find(block.lower() if self._lowercase else block)
            self.counts.update(words)
            self.total += len(words)
            if self.total >= self._next:
                self.growth.append((self.total, len(self.counts)))
                self._next = self.total * _GROWTH
            if len(self.counts) > MOST_DISTINCT:
                self.counts = Counter({word: count for word, count in self.counts.items() if count > 1})
                self.exact = False
        return self.total - before

    def ranked(self) -> list[tuple[str, int]]:
        """Words with their counts, the most frequent first, ties in alphabetical order."""
        return sorted(self.counts.items(), key=lambda item: (-item[1], item[0]))


def coverage(counts: Sequence[int]) -> np.ndarray:
    """Share of the running words that the first 1, 2, … words of a ranked list make up."""
    summed = np.cumsum(np.asarray(counts, float))
    return summed / summed[-1] if len(summed) else summed


def size_for(share: float, covered: np.ndarray) -> int:
    """How many words it takes to cover a share of the text."""
    return min(int(np.searchsorted(covered, share - 1e-12)) + 1, len(covered))


def heaps(growth: Sequence[tuple[int, int]]) -> tuple[float, float] | None:
    """K and β of Heaps' law, distinct ≈ K · words^β, by least squares of the logarithms; None for short texts."""
    if len(growth) < 3:
        return None
    words, distinct = np.log(np.asarray(growth, float)).T
    slope, start = np.polyfit(words, distinct, 1)
    return float(np.exp(start)), float(slope)


def round_sizes(most: int) -> Iterator[int]:
    """1, 2, 3, 5, 7, 10, 20, … up to `most`, and that itself."""
    size = 1
    for step in range(80):
        if size >= most:
            break
        yield size
        size = (1, 2, 3, 5, 7)[(step + 1) % 5] * 10 ** ((step + 1) // 5)
    if most:
        yield most


class CharacterCounts:
    """How often each character stands in a text, in large strokes, so that many small documents cost little."""

    def __init__(self) -> None:
        self._counts = np.zeros(0x110000, np.int64)
        self._held: list[str] = []
        self._length = 0

    def add(self, text: str) -> None:
        """Add the characters of a text to the counts."""
        self._held.append(text)
        self._length += len(text)
        if self._length >= 1 << 20:
            self._flush()

    def _flush(self) -> None:
        codes = np.frombuffer("".join(self._held).encode("utf-32-le", "surrogatepass"), "<u4")
        if len(codes):
            here = np.bincount(codes)
            self._counts[: len(here)] += here
        self._held.clear()
        self._length = 0

    def ranked(self) -> list[tuple[str, int]]:
        """Characters with their counts, the most frequent first."""
        self._flush()
        codes = np.flatnonzero(self._counts)
        order = codes[np.argsort(-self._counts[codes], kind="stable")]
        return [(chr(code), int(self._counts[code])) for code in order.tolist()]


def growing(kind: str) -> array[int]:
    """An array of numbers that can grow; 8 bytes each."""
    return array(kind)
