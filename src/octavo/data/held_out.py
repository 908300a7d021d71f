"""A part of the training text that the network does not learn from, because another part of the model needs text that
is new to it (`ModelConfig.held_out`). N tokens.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from octavo.data.batch import Batch
from octavo.data.batches import Batches, Together

LENGTH, BLOCKS = 4000, 10
"""Tokens of a block, and how many there are at least where blocks can be shorter."""


def held_out_blocks(starts: np.ndarray, size: int, *, share: float, context: int) -> np.ndarray | None:
    """(N,) where about a `share` of a text is held out: blocks at equal distances, of whole documents where these are
    short. None for a text too short to hold a window of `context` + 1 out.

    Args:
        starts: token offset of each document.
        size: N.
    """
    wanted = max(int(share * size), context + 1)
    if 2 * wanted > size:
        return None
    length = min(wanted, max(context + 1, min(LENGTH, wanted // BLOCKS)))
    count = wanted // length
    distance = size / count
    borders = np.append(starts.astype(np.int64), size)
    held = np.zeros(size, bool)
    for number in range(count):
        begin = int((number + 0.5) * distance - length / 2)
        held[_snapped(borders, begin, length) : _snapped(borders, begin + length, length)] = True
    inside = np.convolve(held, np.ones(context), "valid").max() == context
    return held if inside and held.sum() < size - context else None


def _snapped(borders: np.ndarray, place: int, length: int) -> int:
    """The nearest border of documents, if it is less than half a block away; else the place itself."""
    after = int(np.searchsorted(borders, place))
    near = borders[max(0, after - 1) : after + 1]
    nearest = int(near[np.abs(near - place).argmin()])
    return nearest if 2 * abs(nearest - place) < length else place


def part(tokens: np.ndarray, starts: np.ndarray, chosen: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The tokens that are `chosen` (N,), one after the other, and where documents, or what is left of them, begin."""
    begins = chosen.copy()
    begins[1:] &= ~chosen[:-1]
    documents = np.zeros(len(tokens), bool)
    documents[starts.astype(np.int64)] = True
    begins |= documents & chosen
    return np.asarray(tokens)[chosen], np.flatnonzero(begins[chosen]).astype(np.uint64)


class HeldOutWindows(Batches):
    """Windows of T positions that begin anywhere, all of whose targets are held out, with the tokens before them.

    Args:
        tokens, held_out: (N,) ids, and which of them are held out.
        before: how many of the tokens before a window to tell.
    """

    def __init__(
        self, tokens: np.ndarray, held_out: np.ndarray, *, context: int, batch: int, seed: int, before: int
    ) -> None:
        sums = np.concatenate(([0], np.cumsum(held_out)))
        whole = sums[context + 1 :] - sums[1:-context] == context  # of the targets after each place
        self._begins = np.flatnonzero(whole)
        self.size, self._tokens, self._seed, self._batch = int(sums[-1]), np.asarray(tokens), seed, batch
        self._columns, self._before = np.arange(context + 1), before

    def batch(self, step: int, micro: int = 0) -> Batch[np.ndarray]:
        raw = np.random.Philox(key=self._seed, counter=(step << 128) | (micro << 64)).random_raw(self._batch)
        begins = self._begins[((raw >> np.uint64(11)) * 2.0**-53 * len(self._begins)).astype(np.int64)]
        block = self._tokens[begins[:, None] + self._columns].astype(np.int64)
        return Batch(block[:, :-1], block[:, 1:], earlier=_before(self._tokens, begins, self._before))


def with_earlier(
    batches: Iterator[Batch[np.ndarray]], tokens: np.ndarray, before: int
) -> Iterator[Batch[np.ndarray]]:
    """Batches of running text that say where their targets stand in it, and with them the tokens before each row."""
    tokens = np.asarray(tokens)
    for batch in batches:
        assert batch.places is not None
        begins = np.where(batch.places[:, 0] > 0, batch.places[:, 0] - 1, 0)
        yield replace(batch, earlier=_before(tokens, begins, before))


def _before(tokens: np.ndarray, begins: np.ndarray, count: int) -> np.ndarray:
    """(B, count) the ids before each place; −1 where the text has not begun."""
    places = begins[:, None] + np.arange(-count, 0)
    return np.where(places >= 0, tokens[np.maximum(places, 0)].astype(np.int64), -1)


class Alone(Batches):
    """Batches from which the network learns without counts beside it, or where these are mixed in."""

    def __init__(self, batches: Batches, *, alone: bool) -> None:
        self._batches, self._alone, self.size = batches, alone, batches.size
        self.steps_per_epoch, self.notes = batches.steps_per_epoch, batches.notes

    def batch(self, step: int, micro: int = 0) -> Batch[np.ndarray]:
        found = self._batches.batch(step, micro)
        return replace(found, alone=np.full(found.inputs.shape, self._alone, np.int64))


def with_held_out(learned: Batches, held_out: Batches) -> Batches:
    """The batches from which the network learns, and the rows from which it does not."""
    return Together(Alone(learned, alone=True), Alone(held_out, alone=False))
