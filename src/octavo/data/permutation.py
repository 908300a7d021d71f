"""A shuffled order of 0 … n-1 that is computed, not stored: a function of (n, seed, epoch).

A Feistel network permutes all numbers of as many bits as n needs; a result that is n or more is permuted
again until it is smaller (cycle walking), which leaves a permutation of the numbers below n. Fewer than two
passes on average. Black and Rogaway, "Ciphers with arbitrary finite domains" (2002).
"""

from __future__ import annotations

import hashlib
from functools import lru_cache

import numpy as np

_ROUNDS = 6
_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)  # 2^64 divided by the golden ratio, made odd
_BLOCK = 4096  # places computed together, since numpy's cost for 12 and for 4,096 numbers is about the same


def round_keys(n: int, seed: int, epoch: int) -> tuple[int, ...]:
    """One 64-bit key for each round."""
    stream = hashlib.shake_128(f"octavo shuffle {n} {seed} {epoch}".encode()).digest(8 * _ROUNDS)
    return tuple(int.from_bytes(stream[at : at + 8], "little") for at in range(0, len(stream), 8))


def shuffled(places: np.ndarray, n: int, seed: int, epoch: int) -> np.ndarray:
    """Which numbers below n stand at these places (uint64, each below n) of the epoch's order."""
    bits = max(2, (n - 1).bit_length())
    keys = np.array(round_keys(n, seed, epoch), np.uint64)
    out = _feistel(places, bits, keys)
    while (outside := out >= n).any():
        out[outside] = _feistel(out[outside], bits, keys)
    return out


def _feistel(numbers: np.ndarray, bits: int, keys: np.ndarray) -> np.ndarray:
    # The halves have h and w bits; each round scrambles the left by the right, and they change places.
    h, w = bits // 2, bits - bits // 2
    left, right = numbers >> np.uint64(w), numbers & np.uint64((1 << w) - 1)
    for key in keys:
        mixed = (right ^ key) * _MULTIPLIER
        mixed = (mixed ^ (mixed >> np.uint64(32))) * _MULTIPLIER
        left, right = right, left ^ (mixed >> np.uint64(64 - h))
        h, w = w, h
    return (left << np.uint64(w)) | right


@lru_cache(maxsize=8)
def _block(number: int, n: int, seed: int, epoch: int) -> np.ndarray:
    first = number * _BLOCK
    places = np.arange(first, min(first + _BLOCK, n), dtype=np.uint64)
    block = shuffled(places, n, seed, epoch).astype(np.int64)
    block.setflags(write=False)
    return block


def draw(first: int, count: int, n: int, seed: int) -> np.ndarray:
    """Places first … first + count - 1 of all epochs' orders, one after another without end; int64.

    Any n in a row that begin at a multiple of n are a permutation of 0 … n-1.
    """
    parts = []
    while count > 0:
        epoch, place = divmod(first, n)
        number, offset = divmod(place, _BLOCK)
        part = _block(number, n, seed, epoch)[offset : offset + count]
        parts.append(part)
        first += len(part)
        count -= len(part)
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


class Order:
    """Which of n things a step sees. The stream continues over an epoch's end: no batch is short, nothing is dropped.

    Args:
        accumulation: parts of a step.
    """

    def __init__(self, n: int, *, batch: int, accumulation: int, seed: int, shuffle: bool) -> None:
        self._n = n
        self._batch = batch
        self._accumulation = accumulation
        self._seed = seed
        self._shuffle = shuffle
        self.steps_per_epoch = -(-n // (batch * accumulation))

    def __call__(self, step: int, micro: int) -> np.ndarray:
        assert 0 <= micro < self._accumulation, f"part {micro} of {self._accumulation}"
        first = (step * self._accumulation + micro) * self._batch
        if self._shuffle:
            return draw(first, self._batch, self._n, self._seed)
        return np.arange(first, first + self._batch) % self._n
