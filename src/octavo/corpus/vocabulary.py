"""A vocabulary made from a text (report A): its most frequent words, and how many documents pass under it."""

from __future__ import annotations

from array import array
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from octavo.corpus.cleaning.cleaned import in_portions
from octavo.corpus.counting import WordCounts, coverage, round_sizes, size_for
from octavo.corpus.documents import Source
from octavo.corpus.words import WORDS_AND_MARKS
from octavo.errors import ConfigError, CorpusError

USUAL = 0.99
"""Share of the running words that a vocabulary covers when nothing else was asked for."""

_CLEARLY = 0.05  # share of the documents that a knee stands above the line

Progress = Callable[[int, int | None], None]


@dataclass(frozen=True)
class Vocabulary:
    """The words and marks of a corpus, the most frequent first.

    Attributes:
        words: ties in alphabetical order.
        counts: how often each stands there.
        needed: for each document, in order of size, the smallest vocabulary under which it passes: how many of the
            most frequent words it takes to have all of its own. Sorted.
        exact: whether no rare word had to be let go; documents with such a word pass under no vocabulary.
    """

    words: list[str]
    counts: list[int]
    needed: np.ndarray
    exact: bool

    def kept(self, size: int) -> int:
        """Documents that pass when the vocabulary is the `size` most frequent words."""
        return int(np.searchsorted(self.needed, size, side="right"))

    def covered(self, size: int) -> float:
        """Share of the running words and marks that the `size` most frequent make up."""
        return float(coverage(self.counts)[min(size, len(self.counts)) - 1])

    def size_for(self, share: float) -> int:
        """The smallest vocabulary that covers a share of the running words and marks."""
        return size_for(share, coverage(self.counts))

    @property
    def knee(self) -> int | None:
        """Where more words begin to bring few documents: the size at which the curve of documents kept stands
        highest above the straight line between its ends (Satopää et al. 2011). None if it never does: then every
        further word brings more documents than the one before.
        """
        sizes = np.arange(1, len(self.words) + 1)
        kept = np.searchsorted(self.needed, sizes, side="right") / len(self.needed)
        line = kept[0] + (kept[-1] - kept[0]) * (sizes - 1) / max(1, len(sizes) - 1)
        above = kept - line
        return int(np.argmax(above)) + 1 if above.max() > _CLEARLY else None

    def curve(self, chosen: int | None = None) -> list[dict[str, Any]]:
        """Coverage and documents kept for growing sizes, the knee and the chosen size among them."""
        covered = coverage(self.counts)
        marked = {size for size in (self.knee, chosen) if size}
        sizes = sorted({*round_sizes(len(self.words)), *marked})
        return [
            {
                "size": size,
                "coverage": float(covered[size - 1]),
                "documents": self.kept(size),
                "share": self.kept(size) / len(self.needed),
            }
            for size in sizes
        ]


def count_vocabulary(
    source: Source, *, lowercase: bool = True, progress: Progress = lambda done, total: None
) -> Vocabulary:
    """Count the words and marks of a corpus, in two passes; 4 bytes for each document, and the distinct words.

    Raises CorpusError if something cannot be read, or there is no word.
    """
    counted = WordCounts(pattern=WORDS_AND_MARKS, lowercase=lowercase)
    done, total = 0, source.total_bytes
    for document in source.documents():
        for text in in_portions(document.pieces):
            counted.add(text)
            done += len(text)
            progress(done, total)
    ranked = counted.ranked()
    if not ranked:
        raise CorpusError("The corpus holds no words.", remedy="Give files with text in them.")
    places = {word: place for place, (word, _) in enumerate(ranked, 1)}
    beyond = len(ranked) + 1
    needed = array("L")
    for document in source.documents():
        most = 0
        for text in in_portions(document.pieces):
            words = set(WORDS_AND_MARKS.findall(text.lower() if lowercase else text))
            most = max([most, *(places.get(word, beyond) for word in words)])
        needed.append(most)
    return Vocabulary(
        words=[word for word, _ in ranked],
        counts=[count for _, count in ranked],
        needed=np.sort(np.array(needed, np.int64)),
        exact=counted.exact,
    )


def chosen_size(vocabulary: Vocabulary, size: int | None, share: float | None) -> int:
    """The size that was asked for: a number of words, or the smallest that covers a share. With neither the knee, and
    where there is none, what covers 99 %.

    Raises ConfigError if both are given or one is out of bounds.
    """
    if size is not None and share is not None:
        raise ConfigError("Give --size or --coverage, not both.")
    if share is not None:
        if not 0 < share <= 1:
            raise ConfigError(f"The coverage is {share:g}; it is a share, more than 0 and at most 1.")
        return vocabulary.size_for(share)
    if size is None:
        return vocabulary.knee or vocabulary.size_for(USUAL)
    if size < 1:
        raise ConfigError(f"The size is {size}; a vocabulary has at least 1 word.")
    return min(size, len(vocabulary.words))
