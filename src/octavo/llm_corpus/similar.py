"""Near duplicates: MinHash signatures of three-word sequences, found again by bands of them.

The signatures are datasketch's; the bands lie in the store, so that a restart has nothing to compute again.
"""

from __future__ import annotations

import hashlib

import numpy as np

from octavo.errors import MissingExtra

HASHES, ROWS = 64, 4
"""Hashes of a signature, and how many of them make a band: texts that share 0.7 of their sequences meet in some
band in 99 of 100 cases, texts that share 0.2 in 1 of 40."""


class Signatures:
    """Makes and compares signatures. `threshold`: the share of common sequences from which texts are alike."""

    def __init__(self, threshold: float) -> None:
        try:
            from datasketch import MinHash
        except ImportError as error:
            raise MissingExtra(
                "datasketch", "data", "Finding near duplicates (rules.near_duplicates)"
            ) from error
        self._empty = MinHash(num_perm=HASHES, seed=1)
        self.threshold = threshold

    def signature(self, text: str) -> bytes:
        """The signature: 64 whole numbers of 32 bits."""
        words = text.split()
        made = self._empty.copy()
        made.update_batch([" ".join(words[i : i + 3]).encode() for i in range(max(1, len(words) - 2))])
        return made.hashvalues.astype("<u4").tobytes()


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
