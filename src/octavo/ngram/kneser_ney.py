"""An n-gram model of token ids: interpolated modified Kneser–Ney, on sorted arrays instead of dictionaries.

Order k predicts a token from the k − 1 before it. Its estimate is mixed with that of order k − 1, down to
the uniform distribution, so every token of the vocabulary has a probability and they add up to one:

    p_k(w | c) = (n(c w) − D) / n(c) + left(c) · p_{k−1}(w | c without its first token)

The order that is asked for counts occurrences; the orders beneath it count *kinds of predecessors*, which
says better how readily a token goes with new contexts. D is one of three discounts, for counts 1, 2 and 3+.

Source: Chen and Goodman 1999, "An empirical study of smoothing techniques for language modeling", eq. 25–28.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple
from weakref import WeakValueDictionary

import numpy as np

from octavo.ngram.kernel import Table, Tables, rank_pairs

CHUNK = 1 << 20
"""Tokens that are scored at once, which bounds the memory."""

FALLBACK = np.array([0.0, 0.5, 1.0, 1.5])
"""Discounts for counts 0, 1, 2 and 3+ where a text is too small or too even to estimate them."""

_held: WeakValueDictionary[tuple[bytes, int, int], Tables] = WeakValueDictionary()
"""Tables that something in this process still holds, by the text, the vocabulary and the orders."""


@dataclass(frozen=True)
class Estimate:
    """What one way of counting gives at one order."""

    share: np.ndarray
    """For each n-gram, (n(c w) − D) / n(c)."""
    left: np.ndarray
    """For each context, the share of probability that the discounts freed for the order beneath."""


@dataclass(frozen=True)
class Level:
    """All n-grams of one order. An n-gram is known by its place in `keys`."""

    keys: np.ndarray
    """Sorted; key = (place of the context in the level beneath) · V + (last token)."""
    counts: np.ndarray
    """How often each occurs."""
    occurrences: Estimate
    """For the order that is asked for."""
    predecessors: Estimate | None
    """For the orders beneath it; None at the highest level."""


def discounts(counts: np.ndarray) -> np.ndarray:
    """D for counts 0, 1, 2, 3+ from how many n-grams occur once, twice, three and four times."""
    n1, n2, n3, n4 = (int(np.count_nonzero(counts == times)) for times in (1, 2, 3, 4))
    if not n1 * n2 * n3:
        return FALLBACK
    y = n1 / (n1 + 2 * n2)
    found = np.array([0.0, 1 - 2 * y * n2 / n1, 2 - 3 * y * n3 / n2, 3 - 4 * y * n4 / n3])
    usable = (found[1:] > 0).all() and (found <= np.arange(4)).all()
    return found if usable else FALLBACK


def estimate(counts: np.ndarray, contexts: np.ndarray, size: int) -> Estimate:
    """Shares of the n-grams with these counts (≥ 1) and contexts (ids below `size`)."""
    discount = discounts(counts)[np.minimum(counts, 3)]
    totals = np.bincount(contexts, weights=counts, minlength=size)
    freed = np.bincount(contexts, weights=discount, minlength=size)
    # A context that nothing follows (the text's very end) hands everything to the order beneath.
    left = np.divide(freed, totals, out=np.ones(size), where=totals > 0)
    return Estimate(share=(counts - discount) / totals[contexts], left=left)


class _Counted(NamedTuple):
    """One order's n-grams, how often each occurs, and how many contexts there are."""

    keys: np.ndarray
    counts: np.ndarray
    contexts: int


@dataclass(frozen=True)
class Match:
    """What a level knows about each position of a text of n tokens."""

    size: int
    """n."""
    seen: np.ndarray
    """(m,) positions whose context occurs."""
    contexts: np.ndarray
    """(m,) its place."""
    known: np.ndarray
    """(m,) whether context and token occur together."""
    places: np.ndarray
    """(m,) the n-gram's place, where known."""

    @classmethod
    def of(cls, level: Level, contexts: np.ndarray, tokens: np.ndarray, vocab_size: int) -> Match:
        """Look up every token after its context (a place in the level beneath, or −1 for never seen)."""
        seen = np.flatnonzero(contexts >= 0)
        keys = contexts[seen] * vocab_size + tokens[seen]
        places = np.minimum(np.searchsorted(level.keys, keys), len(level.keys) - 1)
        return cls(len(tokens), seen, contexts[seen], level.keys[places] == keys, places)

    def mix(self, estimate: Estimate, beneath: np.ndarray) -> np.ndarray:
        """(n,) probabilities from those of the order beneath."""
        mixed = beneath.copy()
        share = np.where(self.known, estimate.share[self.places], 0)
        mixed[self.seen] = share + estimate.left[self.contexts] * beneath[self.seen]
        return mixed

    def next_contexts(self) -> np.ndarray:
        """(n,) for each position, the place of the n-gram that ends before it, or −1."""
        ending = np.full(self.size, -1)
        ending[self.seen[self.known]] = self.places[self.known]
        return np.concatenate(([-1], ending[:-1]))


def count_levels(tokens: np.ndarray, *, vocab_size: int, highest: int) -> Iterator[Level]:
    """The levels 1 to `highest` (or n) of (n ≥ 1,) token ids, one after the other."""
    tokens = np.ascontiguousarray(tokens, np.int32)
    places = np.zeros(len(tokens) + 1, np.int32)  # of the (k − 1)-gram that starts at each position
    size = 1  # how many different ones there are
    held: _Counted | None = None  # order k − 1, until its predecessors are known
    for k in range(1, min(highest, len(tokens)) + 1):
        before, last = places[: len(tokens) - k + 1], tokens[k - 1 :]
        here, first = rank_pairs(before, last, size, vocab_size)
        if held is not None:
            predecessors = np.bincount(
                places[1:][first], minlength=size
            )  # each k-gram without its first token
            predecessors[places[0]] += 1  # the start of the text counts as one too
            yield _level(held, predecessors, vocab_size)
        keys = before[first].astype(np.int64) * vocab_size + last[first]
        held = _Counted(keys, np.bincount(here, minlength=len(first)), size)
        places, size = here, len(first)
    assert held is not None, "a text of at least one token"
    yield _level(held, None, vocab_size)


def kinds(tokens: np.ndarray, *, vocab_size: int, highest: int) -> list[int]:
    """How many different n-grams there are of each order, as `count_levels` finds them."""
    tokens = np.ascontiguousarray(tokens, np.int32)
    places, found = np.zeros(len(tokens) + 1, np.int32), [1]
    for k in range(1, min(highest, len(tokens)) + 1):
        places, first = rank_pairs(places[: len(tokens) - k + 1], tokens[k - 1 :], found[-1], vocab_size)
        found.append(len(first))
    return found[1:]


def _level(counted: _Counted, predecessors: np.ndarray | None, vocab_size: int) -> Level:
    contexts = counted.keys // vocab_size
    return Level(
        counted.keys,
        counted.counts,
        estimate(counted.counts, contexts, counted.contexts),
        None if predecessors is None else estimate(predecessors, contexts, counted.contexts),
    )


def predict(levels: Iterable[Level], tokens: np.ndarray, *, vocab_size: int) -> Iterator[np.ndarray]:
    """For each order in turn, (n,) probabilities of the tokens, each given those before it.

    Where fewer than k − 1 tokens stand before one, its context is as long as it can be.
    """
    tokens = tokens.astype(np.int64)
    beneath = np.full(len(tokens), 1 / vocab_size)  # order k − 1
    contexts = np.zeros(len(tokens), np.int64)  # place of the (k − 1)-gram before each token, or −1
    for level in levels:
        match = Match.of(level, contexts, tokens, vocab_size)
        yield match.mix(level.occurrences, beneath)
        if level.predecessors is not None:
            beneath = match.mix(level.predecessors, beneath)
            contexts = match.next_contexts()


class KneserNey:
    """All orders from 1 to `highest` at once: they share everything but the level at the top.

    `tokens`: (n,) ids below `vocab_size`, n ≥ 1. `highest` is cut to n.
    """

    def __init__(self, tokens: np.ndarray, *, vocab_size: int, highest: int) -> None:
        self.vocab_size = vocab_size
        self.levels = list(count_levels(tokens, vocab_size=vocab_size, highest=highest))

    @property
    def highest(self) -> int:
        """The longest n-gram that is counted."""
        return len(self.levels)

    def probabilities(self, tokens: np.ndarray) -> np.ndarray:
        """(orders, n): row k − 1 holds each token's probability under order k given those before it."""
        return np.stack(list(predict(self.levels, tokens, vocab_size=self.vocab_size)))

    def losses(self, tokens: np.ndarray) -> np.ndarray:
        """(orders,) mean nats per token of all tokens but the first, which has nothing before it. n ≥ 2."""
        total = np.zeros(self.highest)
        for begin in range(1, len(tokens), CHUNK):
            context = min(begin, self.highest - 1)
            part = np.asarray(tokens[begin - context : begin + CHUNK])
            total -= np.log(self.probabilities(part)[:, context:]).sum(axis=1)
        return total / (len(tokens) - 1)


def best_order(tokens: np.ndarray, *, vocab_size: int, highest: int) -> int:
    """The order that predicts the last tenth of these tokens (at most 100,000) best from the rest.

    Orders are tried upwards until one is worse than the one before.
    """
    tail = min(len(tokens) // 10, 100_000)
    if tail < 2:
        return min(2, len(tokens))
    levels = count_levels(tokens[:-tail], vocab_size=vocab_size, highest=highest)
    best, least = 0, np.inf
    for probabilities in predict(levels, tokens[-tail:], vocab_size=vocab_size):
        loss = -np.log(probabilities[1:]).mean()
        if loss >= least:
            break
        best, least = best + 1, loss
    return best


def tables_of_text(tokens: np.ndarray, *, vocab_size: int, orders: int) -> Tables:
    """The n-grams of a text; while something holds them they are not counted anew."""
    key = (hashlib.sha256(np.ascontiguousarray(tokens).data).digest(), vocab_size, orders)
    if (found := _held.get(key)) is None:
        found = _held[key] = tables_of(KneserNey(tokens, vocab_size=vocab_size, highest=orders))
    return found


def tables_of(counted: KneserNey) -> Tables:
    """An n-gram model's levels as tables."""
    size, levels, contexts = counted.vocab_size, counted.levels, 1
    found = []
    for level in levels:
        owners, token = np.divmod(level.keys, size)
        kinds = np.bincount(owners, minlength=contexts)
        seen = np.bincount(owners, weights=level.counts, minlength=contexts)
        lower = level.predecessors
        found.append(
            Table(
                start=np.concatenate(([0], np.cumsum(kinds))).astype(np.int32),
                token=token.astype(np.int32),
                share=level.occurrences.share.astype(np.float32),
                left=level.occurrences.left.astype(np.float32),
                lower_share=None if lower is None else lower.share.astype(np.float32),
                lower_left=None if lower is None else lower.left.astype(np.float32),
                known=np.log1p(np.stack((seen, kinds), axis=1)).astype(np.float32),
            )
        )
        contexts = len(level.keys)
    return Tables(found, vocab_size=size)
