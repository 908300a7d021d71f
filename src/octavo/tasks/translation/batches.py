"""Pairs as batches: each document is a source, a line break, and a target that follows from it.

A batch takes as many pairs of about the same length as fill B rows of T positions, so little of it is padding. Which
these are is a function of (seed, step). B rows, T positions (the context), N pairs.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import chain
from typing import Any, ClassVar, Literal, Self

import numpy as np
from pydantic import Field

from octavo.config.parts import register
from octavo.data.batch import NO_ROW, Batch
from octavo.data.batches import Batches, BatchesConfig, Known, Stream, looked_at
from octavo.data.permutation import Order
from octavo.errors import CorpusError

# Dropout of merges (BPE dropout, Provilkov et al. 2020): in training, merges of a byte-pair encoding are left
# out at random, so that a word is read in many ways and none of them is learned by heart.


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


NONE = np.zeros(0, np.int64)
"""No documents."""


@dataclass(frozen=True)
class Pairs:
    """Where pairs stand among the tokens of a split, (N,) each.

    Attributes:
        begins, middles, stops: a source's first token, the line break after it, and the end of the target, whose last
            token is the document's end.
        without, long: numbers of the documents that were left out: one side is empty or missing; one is longer than
            the context.
    """

    begins: np.ndarray
    middles: np.ndarray
    stops: np.ndarray
    without: np.ndarray
    long: np.ndarray

    @property
    def sources(self) -> np.ndarray:
        """Number of tokens of each source."""
        return self.middles - self.begins

    @property
    def targets(self) -> np.ndarray:
        """Tokens of each target, its end included."""
        return self.stops - self.middles - 1

    @property
    def notes(self) -> tuple[str, ...]:
        """What was left out, for people."""
        reasons = ((self.without, "without a source or a target"), (self.long, "longer than the context"))
        left = [f"{len(which):,} {why}" for which, why in reasons if len(which)]
        return (f"pairs left out: {', '.join(left)}",) if left else ()


def fit(source: Any, target: Any, context: int, *, joined: bool) -> Any:
    """Whether so many tokens of a source and of a target, its end included, fit a context."""
    return source + target + 1 <= context if joined else np.maximum(source, target) <= context


def find_pairs(stream: Stream, *, joined: bool) -> Pairs:
    """The pairs of a split that fit the context: side by side, or, where they are `joined`, one after the other.

    Raises CorpusError where there is none, and where the tokenizer cannot say where sides and documents end.
    """
    if stream.line_id is None or stream.end_id is None:
        what = "line break" if stream.line_id is None else "end of text"
        raise CorpusError(
            f"The tokenizer has no token for the {what}, so pairs have no sides.",
            remedy="with tokenizer=word, tokenizer.lines=keep; with tokenizer=char, give more than one pair",
        )
    tokens = stream.array
    begins = stream.starts.astype(np.int64)
    stops = np.append(begins[1:], len(tokens))
    begins = begins + (0 if stream.start_id == stream.end_id or stream.start_id is None else 1)
    lines = np.append(np.flatnonzero(tokens == stream.line_id), len(tokens))
    middles = lines[np.searchsorted(lines, begins)]
    # A target is more than its end, which a document that a split has cut may lack.
    ended = tokens[stops - 1] == stream.end_id
    whole = (begins < middles) & (middles + 2 < stops) & ended
    source, target = middles - begins, stops - middles - 1
    fits = fit(source, target, stream.context, joined=joined)
    kept = whole & fits
    if not kept.any():
        raise CorpusError(
            f"Of {len(begins):,} documents none is a pair that fits a context of {stream.context:,} tokens.",
            remedy="A pair is a source, a line break and a target: corpus.kind=pairs makes them. "
            "If they are longer, set model.context.",
        )
    left_out = (np.flatnonzero(which) for which in (~whole, whole & ~fits))
    return Pairs(begins[kept], middles[kept], stops[kept], *left_out)


def sources_of(stream: Stream, pairs: Pairs) -> list[bytes]:
    """The ids of each source, as something to look up."""
    tokens = stream.array.astype(np.uint32)
    return [
        tokens[begin:middle].tobytes()
        for begin, middle in zip(pairs.begins.tolist(), pairs.middles.tolist(), strict=True)
    ]


class PairBatches(Batches):
    """Batches of pairs alike in length; each epoch all of them once, in an order of its own."""

    def __init__(
        self,
        stream: Stream,
        rows: Rows,
        *,
        seed: int,
        accumulation: int,
        shuffle: bool,
        merges: MergeDropout | None = None,
    ) -> None:
        self.rows, self.seed, self.accumulation, self.merges = rows, seed, accumulation, merges
        pairs = rows.pairs
        self.size, self.notes = int(pairs.targets.sum()), pairs.notes
        self.first, self.second = rows.lengths
        ordered = np.lexsort((self.second, self.first))
        longest = np.maximum(self.first, self.second)[ordered].tolist()
        self.edges = _edges(longest, stream.batch * stream.context)
        count = len(self.edges) - 1
        self.order = Order(count, batch=1, accumulation=accumulation, seed=seed, shuffle=shuffle)
        self.steps_per_epoch = self.order.steps_per_epoch
        self.sorted = lru_cache(maxsize=2)(self._sorted)

    def _sorted(self, epoch: int) -> np.ndarray:
        """All pairs by length; equal ones in an order of the epoch's own, so that batches are never the same."""
        ties = np.random.Philox(key=self.seed, counter=epoch << 128).random_raw(len(self.first))
        return np.lexsort((ties, self.second, self.first))

    def batch(self, step: int, micro: int = 0) -> Batch[np.ndarray]:
        number = int(self.order(step, micro)[0])
        epoch = (step * self.accumulation + micro) // (len(self.edges) - 1)
        chosen = self.sorted(epoch)[self.edges[number] : self.edges[number + 1]]
        if self.merges is None:
            return self.rows(chosen)
        return self.rows.unmerged(chosen, self.merges, step, micro)(np.arange(len(chosen)))


def _edges(longest: list[int], most: int) -> list[int]:
    """Where batches begin and end among pairs of these lengths: none has more than `most` tokens on a side,
    padding included, unless one pair alone has."""
    edges, widest = [0], 0
    for at, length in enumerate(longest):
        widest = max(widest, length)
        if at > edges[-1] and widest * (at + 1 - edges[-1]) > most:
            edges.append(at)
            widest = length
    return [*edges, len(longest)]


class Rows:
    """Pairs as rows for an encoder–decoder: sources for the encoder, targets for the decoder."""

    joined: ClassVar[bool] = False

    def __init__(self, stream: Stream) -> None:
        self.stream, self.tokens = stream, stream.array
        self.pairs = find_pairs(stream, joined=self.joined)

    @property
    def lengths(self) -> tuple[np.ndarray, np.ndarray]:
        """What pairs are sorted by, and then by: both are at most the positions of a row."""
        return self.pairs.targets, self.pairs.sources

    def __call__(self, chosen: np.ndarray, *, places: bool = False) -> Batch[np.ndarray]:
        """The batch of some pairs."""
        pairs, end = self.pairs, self.stream.end_id
        begins, middles, stops = pairs.begins[chosen], pairs.middles[chosen], pairs.stops[chosen]
        source, _ = self.filled(begins, middles, NO_ROW["source"])
        targets, where = self.filled(middles + 1, stops, NO_ROW["targets"])
        inputs = np.zeros_like(targets)
        inputs[:, 0] = end if self.stream.start_id is None else self.stream.start_id
        inputs[:, 1:] = np.maximum(targets[:, :-1], 0)
        return Batch(inputs, targets, source=source, places=where if places else None)

    def unmerged(self, chosen: np.ndarray, merges: MergeDropout, step: int, micro: int) -> Self:
        """Some of the pairs, and no others, with merges left out; one that would not fit any more is as it was."""
        pairs = self.pairs
        begins, lengths = pairs.begins[chosen], (pairs.stops - pairs.begins)[chosen]
        tokens = self.tokens[spans(begins, lengths)]
        first = np.cumsum(lengths) - lengths
        middles = first + pairs.middles[chosen] - begins

        def taken(whole: np.ndarray | None) -> Self:
            pieces, counts = merges(tokens, step, micro, whole=whole)
            at = np.append(0, np.cumsum(counts))
            taken = copy.copy(self)
            taken.tokens, taken.pairs = pieces, Pairs(at[first], at[middles], at[first + lengths], NONE, NONE)
            return taken

        rows = taken(None)
        long = np.maximum(*rows.lengths) > self.stream.context
        return taken(np.repeat(long, lengths)) if long.any() else rows

    def filled(self, begins: np.ndarray, stops: np.ndarray, nothing: int) -> tuple[np.ndarray, np.ndarray]:
        """Tokens between two places, (rows, longest), and these places; −1 or `nothing` after them."""
        columns = np.arange(int((stops - begins).max()))
        where = begins[:, None] + columns
        inside = where < stops[:, None]
        tokens = np.where(inside, self.tokens[np.where(inside, where, 0)].astype(np.int64), nothing)
        return tokens, np.where(inside, where, NO_ROW["places"])


class JoinedRows(Rows):
    """Pairs as rows for a decoder alone: the source, a line break, the target.

    Args:
        prefix: whether the model sees all of the source at once.
        source_loss: whether the source is learned too.
    """

    joined: ClassVar[bool] = True

    def __init__(self, stream: Stream, *, prefix: bool, source_loss: bool) -> None:
        super().__init__(stream)
        self.prefix, self.source_loss = prefix, source_loss

    @property
    def lengths(self) -> tuple[np.ndarray, np.ndarray]:
        return self.pairs.sources + self.pairs.targets + 1, self.pairs.sources

    def __call__(self, chosen: np.ndarray, *, places: bool = False) -> Batch[np.ndarray]:
        pairs, end = self.pairs, self.stream.end_id
        begins, stops = pairs.begins[chosen], pairs.stops[chosen]
        targets, where = self.filled(begins, stops, NO_ROW["targets"])
        inputs = np.zeros_like(targets)
        inputs[:, 0] = end if self.stream.start_id is None else self.stream.start_id
        inputs[:, 1:] = np.maximum(targets[:, :-1], 0)
        known = np.arange(targets.shape[1]) <= pairs.sources[chosen][:, None]  # the source and its line break
        if not self.source_loss:
            targets, where = np.where(known, -1, targets), np.where(known, -1, where)
        # The row begins with the document's start, so the source and the line break are one place later in it.
        first = np.ones((len(chosen), 1), bool)
        seen = np.concatenate([first, known[:, :-1]], axis=1) if self.prefix else None
        prefix = None if seen is None else seen.astype(np.int64)
        return Batch(inputs, targets, prefix=prefix, places=where if places else None)


@register("batches")
class PairsConfig(BatchesConfig):
    """Pairs for an encoder–decoder: the encoder reads the source, the decoder learns the target. A batch has as many
    pairs, alike in length, as fill `training.batch` rows of `model.context` tokens; counted in epochs."""

    kind: Literal["pairs"] = "pairs"
    task: ClassVar[str] = "translation"
    shuffle: bool = True
    """Each epoch in another order."""
    merge_dropout: float = Field(0.0, ge=0, lt=1)
    """In training, leave out this share of a byte-pair encoding's merges, others at each step, so that words are read
    in many ways (BPE dropout, Provilkov et al. 2020). For `tokenizer=bpe`."""

    def refuse(self, recipe: Any) -> str | None:
        if recipe.training.teachers.written:
            return "training.teachers.written: teachers write texts, and no pairs of a source and a target"
        return super().refuse(recipe)

    def rows(self, stream: Stream, *, scoring: bool = False) -> Rows:
        """How pairs are laid out in the rows of a batch."""
        return Rows(stream)

    def known(self, train: Stream, held_out: Stream) -> Known:
        learned, judged = (sources_of(each, self.rows(each).pairs) for each in (train, held_out))
        there = set(learned)
        return Known(sum(source in there for source in judged), len(judged))

    def left_out(self, stream: Stream) -> np.ndarray:
        return self.rows(stream).pairs.long

    def example(self, rows: int, context: int) -> Batch[np.ndarray]:
        zeros = super().example(rows, context)
        return replace(zeros, source=zeros.inputs)

    def training(self, stream: Stream, *, seed: int, accumulation: int) -> PairBatches:
        merges = None
        if self.merge_dropout:
            halves = None if stream.halves is None else stream.halves()
            assert halves is not None, "the recipe's check lets no other tokenizer through"
            merges = MergeDropout(halves, rate=self.merge_dropout, seed=seed)
        rows = self.rows(stream)
        return PairBatches(
            stream, rows, seed=seed, accumulation=accumulation, shuffle=self.shuffle, merges=merges
        )

    def scoring(self, stream: Stream, limit: int | None) -> Iterator[Batch[np.ndarray]]:
        """Every token and end of every target is predicted once, and no source."""
        rows = self.rows(stream, scoring=True)
        chosen = looked_at(rows.pairs.targets, limit, documents=len(stream.starts))
        for first in range(0, len(chosen), stream.batch):
            yield rows(chosen[first : first + stream.batch], places=True)


@register("batches")
class JoinedPairsConfig(PairsConfig):
    """Pairs for a decoder alone, each a row: the source, a line break, the target. What is reported is the loss of the
    targets, whatever is learned."""

    kind: Literal["joined-pairs"] = "joined-pairs"  # pyrefly: ignore  # not the encoder–decoder's
    attention: Literal["prefix", "causal"] = "prefix"
    """How a source is seen: `prefix`, each place sees all of it (Raffel et al. 2020); `causal`, what stands before."""
    source_loss: bool = False
    """Learn the source as well as the target."""

    def rows(self, stream: Stream, *, scoring: bool = False) -> JoinedRows:
        learned = self.source_loss and not scoring
        return JoinedRows(stream, prefix=self.attention == "prefix", source_loss=learned)

    def example(self, rows: int, context: int) -> Batch[np.ndarray]:
        zeros = BatchesConfig.example(self, rows, context)
        return replace(zeros, prefix=zeros.inputs) if self.attention == "prefix" else zeros
