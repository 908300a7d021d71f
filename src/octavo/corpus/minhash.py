"""Near duplicates: MinHash signatures over runs of words (Broder 1997), found again by bands of them.

The signatures are datasketch's. `NearDuplicates` keeps an index in memory; `Signatures` are for a database, so that a
restart has nothing to compute again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

import numpy as np

from octavo.corpus.words import WORDS
from octavo.errors import MissingExtra

if TYPE_CHECKING:
    from datasketch import LeanMinHash, MinHash

HASHES, ROWS = 64, 4
"""Hashes of a stored signature, and how many of them make a band: texts that share 0.7 of their sequences meet in some
band in 99 of 100 cases, texts that share 0.2 in 1 of 40."""


class Sketches:
    """Makes the MinHash of a text's runs of words. Raises MissingExtra, for `what`, without datasketch."""

    def __init__(self, hashes: int, what: str) -> None:
        try:
            from datasketch import MinHash  # slow to import
        except ImportError as error:
            raise MissingExtra("datasketch", "data", what) from error
        self._blank = MinHash(num_perm=hashes, seed=1)

    def __call__(self, words: Sequence[str], length: int) -> MinHash:
        """That of all runs of `length` words."""
        sketch = self._blank.copy()
        starts = range(max(1, len(words) - length + 1))
        sketch.update_batch([" ".join(words[start : start + length]).encode() for start in starts])
        return sketch


class NearDuplicates:
    """An index of texts that finds those which are nearly the same, looked up by bands (locality-sensitive
    hashing). The same texts in the same order give the same answers everywhere.

    Args:
        likeness: least share of common runs of words among all of two texts (Jaccard), estimated.
        words: length of a run.
        permutations: hash functions; the estimate's error is about 1 / √permutations at most.
    """

    def __init__(self, *, likeness: float, words: int, permutations: int) -> None:
        self._sketch = Sketches(permutations, "Finding near duplicates")
        from datasketch import LeanMinHash, MinHashLSH  # slow to import

        self._lean = LeanMinHash
        self._likeness, self._words = likeness, words
        self._index = MinHashLSH(threshold=likeness, num_perm=permutations)
        self._kept: dict[int, tuple[int, LeanMinHash]] = {}

    def earlier(self, text: str, number: int) -> tuple[int, float] | None:
        """The earlier text that is most like this one, and how like it is; None adds this one to the index."""
        lean = self._lean(self._sketch(WORDS.findall(text.casefold()), self._words))
        like = [
            (self._kept[place][1].jaccard(lean), -place)
            for place in cast("list[int]", self._index.query(lean))
        ]
        share, place = max(like, default=(0.0, 0))
        if share >= self._likeness:
            return self._kept[-place][0], share
        place = len(self._kept)  # not `number`: portions of one document share it
        self._index.insert(place, lean)
        self._kept[place] = number, lean
        return None


class Signatures:
    """Makes signatures of three-word sequences. `threshold`: the share of common ones from which texts are alike."""

    def __init__(self, threshold: float) -> None:
        self._sketch = Sketches(HASHES, "Finding near duplicates (rules.near_duplicates)")
        self.threshold = threshold

    def signature(self, text: str) -> bytes:
        """The signature: 64 whole numbers of 32 bits."""
        return self._sketch(text.split(), 3).hashvalues.astype("<u4").tobytes()


def band_keys(signature: bytes) -> list[int]:
    """A key of 64 bits for each band; alike texts share some key."""
    width = 4 * ROWS
    bands = [bytes([at // width]) + signature[at : at + width] for at in range(0, len(signature), width)]
    hashed = [hashlib.blake2b(band, digest_size=8).digest() for band in bands]
    return [int.from_bytes(key, "big", signed=True) for key in hashed]


def similarity(one: bytes, other: bytes) -> float:
    """The estimated share of three-word sequences that two texts have in common."""
    return float((np.frombuffer(one, "<u4") == np.frombuffer(other, "<u4")).mean())


def near_duplicate_share(signatures: list[bytes], threshold: float = 0.5) -> float | None:
    """The share of texts that have a nearly alike one before them: at least half of their three-word sequences in
    common."""
    if not signatures:
        return None
    seen: dict[int, list[int]] = {}
    found = 0
    for number, signature in enumerate(signatures):
        others = {other for key in band_keys(signature) for other in seen.get(key, ())}
        found += any(similarity(signature, signatures[other]) >= threshold for other in others)
        for key in band_keys(signature):
            seen.setdefault(key, []).append(number)
    return found / len(signatures)
