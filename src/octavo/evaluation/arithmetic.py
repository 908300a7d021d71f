"""Arithmetic coding: a text as short as a model's predictions of it are good, and the same text again.

A loss that decodes is no mistake: what is written is as long as −log₂ of the probabilities that were claimed, and only
who has these probabilities before each token, and no others, can read it. With integers, as in Witten, Neal and Cleary
1987. V vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

BITS = 48
"""Of the interval's ends."""
TOTAL = 1 << 30
"""That frequencies come to: every token has one of these parts at least."""
HALF, QUARTER, ALL = 1 << (BITS - 1), 1 << (BITS - 2), (1 << BITS) - 1


def bounds(logits: np.ndarray) -> np.ndarray:
    """(V + 1,) where the share of each token of the TOTAL begins, and where the last one ends, from logits (V,)."""
    p = np.exp(logits.astype(np.float64) - logits.max())
    parts = 1 + np.floor(p / p.sum() * (TOTAL - 2 * len(p))).astype(np.int64)
    ends = np.cumsum(parts)
    assert ends[-1] <= TOTAL, "rounded down"
    ends[-1] = TOTAL
    return np.concatenate(([0], ends))


def bit_bounds(p: float) -> tuple[int, int, int]:
    """Where the shares of 0 and of 1 begin in the TOTAL, and where the last one ends, of a bit that is 1 with
    probability p."""
    ones = min(max(round(p * TOTAL), 1), TOTAL - 1)
    return 0, TOTAL - ones, TOTAL


class Encoder:
    """Tokens become bits."""

    def __init__(self) -> None:
        self._low, self._high, self._waiting, self._bits = 0, ALL, 0, bytearray()

    def put(self, token: int, bounds: Sequence[int] | np.ndarray) -> None:
        """A token, which had this share."""
        self._low, self._high = _narrowed(self._low, self._high, int(bounds[token]), int(bounds[token + 1]))
        while (move := _move(self._low, self._high)) is not None:
            if move == QUARTER:
                self._waiting += 1
            else:
                self._write(int(move > 0))
            self._low, self._high = 2 * (self._low - move), 2 * (self._high - move) + 1

    def finish(self) -> bytes:
        """All of it."""
        self._waiting += 1
        self._write(int(self._low >= QUARTER))
        return np.packbits(np.frombuffer(bytes(self._bits), np.uint8)).tobytes()

    def _write(self, bit: int) -> None:
        self._bits.append(bit)
        self._bits.extend([1 - bit] * self._waiting)
        self._waiting = 0


class Decoder:
    """Bits become tokens again. Raises ValueError for a token that no bits are left for."""

    def __init__(self, content: bytes) -> None:
        self._bits: Iterator[int] = iter(np.unpackbits(np.frombuffer(content, np.uint8)).tolist())
        self._low, self._high, self._value, self._beyond = 0, ALL, 0, 0
        for _ in range(BITS):
            self._value = 2 * self._value + self._next_bit()

    def take(self, bounds: Sequence[int] | np.ndarray) -> int:
        """The next token, by the shares that it was written with."""
        size = self._high - self._low + 1
        place = ((self._value - self._low + 1) * TOTAL - 1) // size
        token = int(np.searchsorted(bounds, place, side="right")) - 1
        self._low, self._high = _narrowed(self._low, self._high, int(bounds[token]), int(bounds[token + 1]))
        while (move := _move(self._low, self._high)) is not None:
            self._low, self._high = 2 * (self._low - move), 2 * (self._high - move) + 1
            self._value = 2 * (self._value - move) + self._next_bit()
        return token

    def _next_bit(self) -> int:
        if (bit := next(self._bits, None)) is not None:
            return bit
        self._beyond += 1
        if self._beyond > BITS:
            raise ValueError("the bits are at an end")
        return 0


def encoded(tokens: np.ndarray, predict: Callable[[int | None], np.ndarray]) -> bytes:
    """Tokens (N,) as bytes, by what `predict` says after each: logits (V,), first before any (None)."""
    encoder, before = Encoder(), None
    for token in tokens.tolist():
        encoder.put(token, bounds(predict(before)))
        before = token
    return encoder.finish()


def decoded(content: bytes, count: int, predict: Callable[[int | None], np.ndarray]) -> np.ndarray:
    """So many tokens from what `encoded` wrote, by the same predictions."""
    decoder, before = Decoder(content), None
    found: list[int] = []
    for _ in range(count):
        before = decoder.take(bounds(predict(before)))
        found.append(before)
    return np.array(found, np.int64)


def _narrowed(low: int, high: int, begin: int, end: int) -> tuple[int, int]:
    size = high - low + 1
    return low + size * begin // TOTAL, low + size * end // TOTAL - 1


def _move(low: int, high: int) -> int | None:
    """What both ends lose before they are doubled: their first bit, or where they are close to the middle a quarter."""
    if high < HALF:
        return 0
    if low >= HALF:
        return HALF
    return QUARTER if low >= QUARTER and high < HALF + QUARTER else None
