"""Repetition and drift of written texts, each figure next to the same figure of held-out text of the same size.

Repetition within a text: the share of its n-grams that occurred in it before (seq-rep-n, Welleck et al. 2019,
"Neural text generation with unlikelihood training"). Variety over all texts: distinct-n, the share of n-grams that are
different ones (Li et al. 2016). Likeness between texts: the share of a text's n-grams that another one has too.
Drift: how alike the first and the last half of a text are (cosine of their words, rare words weighing more), against
how alike the halves of two different texts are; a text that forgets what it is about has no more in common with its
own beginning than with another's.

All of them depend on how long the texts are, so only the control tells what is much.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from octavo.corpus.words import WORDS_AND_MARKS

ORDERS = (1, 2, 3, 4)
LONG = 4
"""Words in the n-grams that are looked for again."""

Unit = Literal["word", "character"]


@dataclass(frozen=True)
class Diversity:
    """Figures of one set of texts. The lists hold one value for each text that is long enough for it."""

    texts: int
    units: int
    distinct: dict[int, float]
    """By n: different n-grams / n-grams, over all texts."""
    repeated: list[float]
    """The share of a text's 4-grams that occurred in it before."""
    alike: list[float]
    """The share of a text's different 4-grams that another text has too."""
    thread: list[float]
    """Likeness of a text's halves, less the mean likeness of its first half to other texts' last halves."""

    @property
    def means(self) -> Variety:
        """With means instead of the lists."""
        lists = (self.repeated, self.alike, self.thread)
        return Variety(self.texts, self.units, self.distinct, *map(Mean.of, lists))


@dataclass(frozen=True)
class Mean:
    """A mean and its standard error; None if there are too few values for it."""

    mean: float | None
    error: float | None

    @classmethod
    def of(cls, values: Sequence[float]) -> Mean:
        count = len(values)
        mean = math.fsum(values) / count if count else None
        error = float(np.std(values, ddof=1)) / math.sqrt(count) if count > 1 else None
        return cls(mean, error)


@dataclass(frozen=True)
class Variety:
    """The figures as evaluation.json has them; see `Diversity`."""

    texts: int
    units: int
    distinct: dict[int, float]
    repeated: Mean
    alike: Mean
    thread: Mean


def unit_of(texts: Sequence[str]) -> Unit:
    """Words if white space separates them, else characters, as in Chinese or in a list of numbers without blanks."""
    characters = sum(map(len, texts))
    return "word" if sum(len(text.split()) for text in texts) * 15 >= characters > 0 else "character"


def units(text: str, unit: Unit) -> list[str]:
    """A text as words and marks in lower case, or as its characters without white space."""
    if unit == "word":
        return WORDS_AND_MARKS.findall(text.casefold())
    return [character for character in text if not character.isspace()]


def diversity(texts: Sequence[str], *, unit: Unit) -> Diversity:
    """The figures of some texts."""
    split = [units(text, unit) for text in texts]
    long = [grams(words, LONG) for words in split]
    return Diversity(
        texts=len(texts),
        units=sum(map(len, split)),
        distinct={order: distinct([grams(words, order) for words in split]) for order in ORDERS},
        repeated=[1 - len(set(found)) / len(found) for found in long if found],
        alike=alike(long),
        thread=thread(split),
    )


def grams(words: Sequence[str], order: int) -> list[tuple[str, ...]]:
    """All n-grams, in their order."""
    return list(zip(*(words[start:] for start in range(order)), strict=False))


def distinct(texts: Sequence[Sequence[tuple[str, ...]]]) -> float:
    """Different n-grams / n-grams over all texts; 1 where there are none."""
    total = sum(map(len, texts))
    return len({gram for one in texts for gram in one}) / total if total else 1.0


def alike(texts: Sequence[Sequence[tuple[str, ...]]]) -> list[float]:
    """For each text with n-grams, the share of its different ones that another text has too."""
    kinds = [set(one) for one in texts]
    texts_with = Counter(gram for one in kinds for gram in one)
    if len(kinds) < 2:
        return []
    return [sum(texts_with[gram] > 1 for gram in one) / len(one) for one in kinds if one]


def thread(split: Sequence[Sequence[str]], *, least: int = 20) -> list[float]:
    """What a text's halves have in common beyond what halves of different texts have; texts of ≥ `least` units."""
    halves = [(words[: len(words) // 2], words[len(words) // 2 :]) for words in split if len(words) >= least]
    if len(halves) < 2:
        return []
    counts = [Counter(half) for pair in halves for half in pair]
    inside = Counter(word for half in counts for word in half)
    index = {word: place for place, word in enumerate(sorted(inside))}
    vectors = np.zeros((len(counts), len(index)))
    for row, half in enumerate(counts):
        for word, times in half.items():
            vectors[row, index[word]] = times * math.log((1 + len(counts)) / inside[word])
    vectors /= np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
    cosines = vectors[0::2] @ vectors[1::2].T  # (texts, texts): first half of one, last half of the other
    own = np.diag(cosines)
    others = (cosines.sum(axis=1) - own) / (len(own) - 1)
    return (own - others).tolist()
