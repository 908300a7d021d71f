"""What a corpus is like: how much, of what, how varied, how often it repeats itself.

One pass, in bounded memory: 16 bytes for each document, at most two million distinct words, and the sample of near
duplicates.
"""

from __future__ import annotations

import hashlib
import re
import time
from array import array
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from octavo.corpus.cleaning.cleaned import in_portions
from octavo.corpus.cleaning.duplicates import bare
from octavo.corpus.counting import CharacterCounts, WordCounts, coverage, heaps, round_sizes, size_for
from octavo.corpus.documents import Source
from octavo.corpus.languages import CountedByFile, FileCounts, FileFigures
from octavo.corpus.minhash import NearDuplicates
from octavo.errors import CorpusError, MissingExtra
from octavo.util.records import plain

Progress = Callable[[int, int | None], None]

NEAR = 2000
"""Documents that are compared for near duplicates, from the first on, unless asked for more."""

SHARES = (0.5, 0.8, 0.9, 0.95, 0.98, 0.99, 0.999)
_FREQUENT = 30  # words that are listed
_CHARACTERS = 300  # characters that are listed
_SENTENCE_END = re.compile(r"[.!?…]+[\"'”’)\]]*(?=\s|\Z)")
_VOWELS = re.compile(r"[aeiouy]+")
_COMMON = frozenset(
    "the of and a to in is was it that he she you i for on with as his her they not but".split()
)
_ENGLISH = 0.15  # share of those words from which on a text is taken for English


@dataclass(frozen=True)
class Statistics:
    """Figures of a corpus; exact, except where `notes` says otherwise.

    Attributes:
        documents, characters, bytes, words, sentences: how many; bytes in UTF-8.
        distinct_words: case ignored.
        frequent: the most frequent words with their counts.
        alphabet: the most frequent of the distinct characters, with their counts.
        distinct_characters: how many there are.
        growth: (running words, distinct words) on the way: Heaps' curve.
        heaps: K and β of distinct ≈ K · words^β; None for short texts.
        coverage: (size, share of the running words) for growing vocabularies.
        needed: share → size of the smallest vocabulary that covers it.
        lengths: words of a document: least, quartiles, most, mean.
        histogram: (from words, to words, documents); each bin twice as wide as the one before.
        duplicates: documents that repeat an earlier one but for white space.
        near: {"compared", "found"}; None if it was not looked at.
        readability: Flesch's figures; None if the text is not English.
        files: each file's documents, bytes and language, the largest first.
        languages: code → share of the bytes, the largest first; by samples. Empty without the extra.
        seconds: what the pass took.
        notes: what is not exact, or was left out.
    """

    documents: int
    characters: int
    bytes: int
    words: int
    sentences: int
    distinct_words: int
    frequent: list[tuple[str, int]]
    alphabet: list[tuple[str, int]]
    distinct_characters: int
    growth: list[tuple[int, int]]
    heaps: tuple[float, float] | None
    coverage: list[tuple[int, float]]
    needed: dict[float, int]
    lengths: dict[str, float]
    histogram: list[tuple[int, int, int]]
    duplicates: int
    near: dict[str, int] | None
    readability: Readability | None
    files: list[FileFigures]
    languages: dict[str, float]
    seconds: float
    notes: list[str]

    def describe(self) -> dict[str, Any]:
        needed = {f"{share:g}": size for share, size in self.needed.items()}
        files = [file.describe() for file in self.files]
        return plain({**vars(self), "needed": needed, "files": files})


def inspect(source: Source, *, near: int = NEAR, progress: Progress = lambda done, total: None) -> Statistics:
    """Read a corpus through once.

    Args:
        near: how many documents, from the first on, are compared for near duplicates; 0 for none.

    Raises:
        CorpusError: something cannot be read, or there is no text.
    """
    started = time.monotonic()
    pass_ = _Pass(near)
    total = source.total_bytes
    for document in CountedByFile(source, pass_.files).documents():
        for number, text in enumerate(in_portions(document.pieces)):
            pass_.add(text, first=number == 0)
            progress(pass_.bytes, total)
        pass_.end_document()
    if not pass_.characters:
        raise CorpusError("The corpus holds no text.", remedy="Give files with text in them.")
    return pass_.statistics(time.monotonic() - started)


class _Pass:
    """The figures while the corpus streams by."""

    def __init__(self, near: int) -> None:
        self.characters = self.bytes = self.sentences = 0
        self.words, self.alphabet = WordCounts(), CharacterCounts()
        self.lengths, self.digests = array("Q"), array("Q")
        self.files = FileCounts()
        self.notes: list[str] = []
        self._here = 0
        self._content = hashlib.blake2b(digest_size=8)
        self._near, self._found, self._compared = near, 0, 0
        self._index: NearDuplicates | None = None
        if near:
            try:
                self._index = NearDuplicates(likeness=0.8, words=5, permutations=128)
            except MissingExtra as error:
                self.notes.append(f"Near duplicates are not counted. {error.what}")

    def add(self, text: str, *, first: bool) -> None:
        self.characters += len(text)
        self.bytes += len(text.encode())
        self.sentences += sum(1 for _ in _SENTENCE_END.finditer(text))
        self._here += self.words.add(text)
        self.alphabet.add(text)
        self._content.update(bare(text))
        if first and self._index and self._compared < self._near:
            self._compared += 1
            self._found += self._index.earlier(text[:100_000], self._compared) is not None

    def end_document(self) -> None:
        self.lengths.append(self._here)
        self.digests.append(int.from_bytes(self._content.digest(), "little"))
        self._content = hashlib.blake2b(digest_size=8)
        self._here = 0

    def statistics(self, seconds: float) -> Statistics:
        ranked = self.words.ranked()
        covered = coverage([count for _, count in ranked])
        alphabet = self.alphabet.ranked()
        documents = len(self.lengths)
        near = {"compared": self._compared, "found": self._found} if self._index else None
        if near and self._compared < documents:
            self.notes.append(
                f"Near duplicates are counted among the first {self._compared:,} documents only (--near N for more)."
            )
        if not self.words.exact:
            self.notes.append(
                "There are more distinct words than memory allows; rare ones were dropped, so distinct words, growth "
                "and coverage are close figures, not exact ones."
            )
        readability = flesch(ranked, self.words.total, self.sentences)
        if readability is None:
            self.notes.append(
                "No readability: its formula is for English, and this text does not look English."
            )
        self._note_files()
        return Statistics(
            documents=documents,
            characters=self.characters,
            bytes=self.bytes,
            words=self.words.total,
            sentences=self.sentences,
            distinct_words=len(ranked),
            frequent=ranked[:_FREQUENT],
            alphabet=alphabet[:_CHARACTERS],
            distinct_characters=len(alphabet),
            growth=self.words.growth,
            heaps=heaps(self.words.growth),
            coverage=[(size, float(covered[size - 1])) for size in round_sizes(len(ranked))],
            needed={share: size_for(share, covered) for share in SHARES} if ranked else {},
            lengths=_lengths(np.frombuffer(self.lengths, np.uint64)),
            histogram=_histogram(np.frombuffer(self.lengths, np.uint64)),
            duplicates=documents - len(np.unique(np.frombuffer(self.digests, np.uint64))),
            near=near,
            readability=readability,
            files=sorted(self.files.files.values(), key=lambda file: -file.bytes),
            languages=self.files.shares(),
            seconds=seconds,
            notes=self.notes,
        )

    def _note_files(self) -> None:
        if sentence := self.files.sentence():
            self.notes.append(f"{sentence[0].upper()}{sentence[1:]}.")
        if self.files.missing:
            self.notes.append(f"No languages are told. {self.files.missing.what}")
        if self.files.beyond:
            self.notes.append(f"Documents of further files, which are not listed: {self.files.beyond:,}.")


def _lengths(words: np.ndarray) -> dict[str, float]:
    least, lower, median, upper, most = np.quantile(words, (0, 0.25, 0.5, 0.75, 1)).tolist()
    return {
        "least": least,
        "lower_quartile": lower,
        "median": median,
        "upper_quartile": upper,
        "most": most,
        "mean": float(words.mean()),
    }


def _histogram(words: np.ndarray) -> list[tuple[int, int, int]]:
    """Documents by words, in bins between half powers of two, from the shortest to the longest."""
    low, high = int(words.min()), int(words.max())
    edges = [0, *sorted({round(2 ** (half / 2)) for half in range(130)})]
    edges = [int(edge) for edge in edges if edge <= high * 1.5 + 2]
    edges = edges[max(0, np.searchsorted(edges, low, side="right") - 1) :]
    counts = np.histogram(words.astype(float), [*map(float, edges), np.inf])[0].tolist()
    bins = list(zip(edges, [edge - 1 for edge in edges[1:]], counts, strict=False))
    while bins and not bins[-1][2]:
        bins.pop()
    return bins


def syllables(word: str) -> int:
    """About how many syllables an English word has: groups of vowels, without a silent e at the end."""
    groups = len(_VOWELS.findall(word))
    silent = word.endswith("e") and not word.endswith(("le", "ee")) and groups > 1
    return max(1, groups - silent)


@dataclass(frozen=True)
class Readability:
    """How easy an English text is to read: Flesch's reading ease (1948), 206.835 - 1.015 · words per sentence
    - 84.6 · syllables per word, and the school grade of Kincaid et al. (1975)."""

    words_per_sentence: float
    syllables_per_word: float
    flesch_reading_ease: float
    flesch_kincaid_grade: float


def flesch(ranked: list[tuple[str, int]], words: int, sentences: int) -> Readability | None:
    """None if the text is not English."""
    if not words or sum(count for word, count in ranked if word in _COMMON) / words < _ENGLISH:
        return None
    per_word = sum(syllables(word) * count for word, count in ranked) / sum(count for _, count in ranked)
    per_sentence = words / max(1, sentences)
    ease = 206.835 - 1.015 * per_sentence - 84.6 * per_word
    return Readability(per_sentence, per_word, ease, 0.39 * per_sentence + 11.8 * per_word - 15.59)
