"""Dropout of merges (BPE dropout, Provilkov et al. 2020): in training, merges of a byte-pair encoding are left out at
random, so that a word is read in many ways and none of them is learned by heart.

Each merge that made a token is left out with some probability, and what was built on it is not made either. Unlike in
the paper, what is left does not merge with another neighbour instead, so a text need not be encoded anew.

N tokens, V vocabulary.
"""

from __future__ import annotations

from itertools import chain

import numpy as np


class MergeDropout:
    """Tokens fall into what they were merged from, each merge left out with a probability of `rate`.

    Each token is a tree: itself, then the trees of its two halves. Of every place in a tree is known how many places
    its part of the tree has, and how far before it stands what it is a half of (0: nothing).

    Args:
        halves: the two ids that each was merged from, (V, 2), smaller than its own; −1 where it was not.
    """

    def __init__(self, halves: np.ndarray, *, rate: float, seed: int) -> None:
        trees: list[tuple[list[int], list[int], list[int]]] = []
        for id, (left, right) in enumerate(halves.tolist()):
            if left < 0:
                trees.append(([id], [1], [0]))
                continue
            (ids, sizes, back), (more_ids, more_sizes, more_back) = trees[left], trees[right]
            size = 1 + len(ids) + len(more_ids)
            both = [0, 1, *back[1:], 1 + len(ids), *more_back[1:]]
            trees.append(([id, *ids, *more_ids], [size, *sizes, *more_sizes], both))
        self.ids, self.sizes, self.back = (
            np.fromiter(chain.from_iterable(tree[part] for tree in trees), np.int64) for part in range(3)
        )
        self.lengths = np.array([len(ids) for ids, _, _ in trees])
        self.starts = np.cumsum(self.lengths) - self.lengths
        self.below, self.seed = np.uint64(rate * 2.0**64), seed

    def __call__(
        self, tokens: np.ndarray, step: int, micro: int, *, whole: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """What becomes of tokens (N,) at a step, and into how many each falls, (N,). Those that are `whole` stay."""
        lengths = self.lengths[tokens]
        at = spans(self.starts[tokens], lengths)
        # Another key than that of the order, whose draws these must not repeat.
        bits = np.random.Philox(key=(1 << 64) | self.seed, counter=(step << 128) | (micro << 64))
        raw = bits.random_raw(len(at))
        sizes, back, places = self.sizes[at], self.back[at], np.arange(len(at))
        left_out = (raw < self.below) & (sizes > 1)
        if whole is not None:
            left_out &= ~np.repeat(whole, lengths)
        before = np.append(0, np.cumsum(left_out))
        broken = before[places + sizes] > before[places]
        kept = ~broken & ((back == 0) | broken[places - back])
        return self.ids[at[kept]], np.add.reduceat(kept, np.cumsum(lengths) - lengths, dtype=np.int64)


def spans(begins: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """The places of ranges that begin here and are so long, one range after the other."""
    before = np.cumsum(lengths) - lengths
    return np.repeat(begins - before, lengths) + np.arange(int(lengths.sum()))
