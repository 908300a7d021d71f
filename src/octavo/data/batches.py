"""Tokens to batches of inputs and targets: pure functions of (seed, step), so a resumed run sees what it
would have seen.

B sequences, T positions (the context). Targets are inputs one token later; -1 stands where nothing is to be
predicted.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from octavo.config.parts import MOST, PartConfig, register
from octavo.data.batch import Batch
from octavo.data.packing import Rows, gather, pack
from octavo.data.permutation import Order
from octavo.errors import ConfigError, CorpusError

if TYPE_CHECKING:
    from torch import Tensor


class Batches(ABC):
    """A training split as batches.

    Attributes:
        size: tokens of the split.
        steps_per_epoch: steps in which all of it has been seen once; None if batches are drawn at random.
        notes: what the user should hear about how the text fits, as sentences.

    All but `batch` is of batches that are made while the model learns, by the model itself (`Objective.begin`).
    """

    size: int
    steps_per_epoch: int | None = None
    notes: tuple[str, ...] = ()

    @abstractmethod
    def batch(self, step: int, micro: int = 0) -> Batch[np.ndarray]:
        """The batch of a step, or its micro-th part where gradients are accumulated. Always the same."""

    def figures(self, step: int) -> Mapping[str, float]:
        """What is known of a step's batch, counted from 0, for its row in metrics.jsonl; asked after `batch`."""
        return {}

    def over(self, step: int) -> str | None:
        """Why nothing more is to be learned after a step, as a sentence; None where it goes on."""
        return None

    def remark(self, step: int) -> str | None:
        """What the user should hear of a step, as a sentence; None where nothing is odd."""
        return None

    def tensors(self, step: int) -> dict[str, Tensor]:
        """What must be kept for the step to come, by names without a dot."""
        return {}

    def restore(self, tensors: Mapping[str, Tensor]) -> None:  # noqa: B027 - most keep nothing
        """Take back what `tensors` gave."""


@dataclass(frozen=True)
class Stream:
    """The tokens of a split, and the shape that batches of them have.

    Attributes:
        tokens: ids, (N,).
        starts: token offset of each document.
        context, batch: T and B.
        start_id, end_id: the tokenizer's special tokens around documents, None if it has none.
        line_id: its token for a line break, None if it has none.
        channels: of rows of numbers, how many columns are predicted; None: all.
        special: the ids of all its special tokens, by name.
        halves: gives the two tokens that each was merged from (see `Tokenizer.halves`).
    """

    tokens: np.ndarray
    starts: np.ndarray
    context: int
    batch: int
    start_id: int | None
    end_id: int | None
    line_id: int | None = None
    channels: int | None = None
    special: Mapping[str, int] = field(default_factory=dict)
    halves: Callable[[], np.ndarray | None] | None = None

    @property
    def array(self) -> np.ndarray:
        """The ids without the slow indexing of a memmap."""
        return np.asarray(self.tokens)

    @property
    def padding(self) -> int:
        """What fills a row where there is no token."""
        return 0 if self.start_id is None else self.start_id

    def need_a_window(self) -> None:
        """Raise CorpusError if the split is shorter than T + 1 tokens."""
        count = len(self.tokens)
        if count <= self.context:
            raise CorpusError(
                f"The text has {count:,} tokens; a context of {self.context:,} needs at least "
                f"{self.context + 1:,}.",
                remedy=f"Give more text, or set model.context to {count - 1} or less."
                if count > 1
                else "Give more text.",
            )


class RandomWindows(Batches):
    """Windows of T + 1 tokens that begin anywhere, each place as likely as the other (nanoGPT's iterations)."""

    def __init__(self, stream: Stream, *, seed: int) -> None:
        stream.need_a_window()
        self.size = len(stream.tokens)
        self._tokens = stream.array
        self._columns = np.arange(stream.context + 1)
        self._choices = len(stream.tokens) - stream.context
        self._batch = stream.batch
        self._seed = seed

    def batch(self, step: int, micro: int = 0) -> Batch[np.ndarray]:
        # The step is part of the generator's counter, so no state is carried from one to the next.
        raw = np.random.Philox(key=self._seed, counter=(step << 128) | (micro << 64)).random_raw(self._batch)
        begins = ((raw >> np.uint64(11)) * 2.0**-53 * self._choices).astype(np.int64)
        return _windows(self._tokens, begins, self._columns)


class SlidingWindows(Batches):
    """Windows of T + 1 tokens every `stride` tokens; each epoch all of them once, in an order of its own."""

    def __init__(self, stream: Stream, order: Order, *, stride: int) -> None:
        self.size = len(stream.tokens)
        self._tokens = stream.array
        self._columns = np.arange(stream.context + 1)
        self._stride = stride
        self._order = order
        self.steps_per_epoch = order.steps_per_epoch

    def batch(self, step: int, micro: int = 0) -> Batch[np.ndarray]:
        return _windows(self._tokens, self._order(step, micro) * self._stride, self._columns)


class Prefixes(SlidingWindows):
    """The prefixes of 1 to T tokens of such windows, each a row of its own, with only its last position scored."""

    def batch(self, step: int, micro: int = 0) -> Batch[np.ndarray]:
        context = len(self._columns) - 1
        windows, last = np.divmod(self._order(step, micro), context)
        whole = _windows(self._tokens, windows * self._stride, self._columns)
        positions, last = self._columns[:-1], last[:, None]
        return Batch(
            np.where(positions <= last, whole.inputs, 0), np.where(positions == last, whole.targets, -1)
        )


class PackedDocuments(Batches):
    """Rows of whole documents; each epoch all of them once, in an order of its own."""

    def __init__(self, stream: Stream, rows: Rows, order: Order, *, segments: bool) -> None:
        self.size = len(stream.tokens)
        self._gather = _gather_from(stream, rows, segments=segments)
        self._order = order
        self.steps_per_epoch = order.steps_per_epoch
        if rows.cut:
            verb = "document is" if rows.cut == 1 else "documents are"
            self.notes = (
                f"{rows.cut:,} {verb} longer than the context of {stream.context:,} tokens, and cut into rows",
            )

    def batch(self, step: int, micro: int = 0) -> Batch[np.ndarray]:
        return self._gather(self._order(step, micro))


class Together(Batches):
    """Batches of two texts: the rows of the first, then those of the second. Epochs are the first one's."""

    def __init__(self, first: Batches, second: Batches) -> None:
        self._both, self.size = (first, second), first.size
        self.steps_per_epoch, self.notes = first.steps_per_epoch, first.notes

    def batch(self, step: int, micro: int = 0) -> Batch[np.ndarray]:
        first, second = (part.batch(step, micro) for part in self._both)
        return first.joined(second)


def looked_at(predictions: np.ndarray, limit: int | None, *, documents: int) -> np.ndarray:
    """The rows that a look at a split reads, in order: all without a limit; else as many as hold `limit` predictions,
    at equal distances over the split, or of a single document the first ones.

    Args:
        predictions: (rows,) how many each row holds.
    """
    rows = len(predictions)
    chosen = np.arange(rows)
    if limit is None or limit >= predictions.sum():
        return chosen
    if documents > 1:
        for count in range(-(-limit // int(predictions.max())), rows):
            spread = (
                (2 * np.arange(count) + 1) * rows // (2 * count)
            )  # the middle of each of `count` equal parts
            if predictions[spread].sum() >= limit:
                chosen = spread
                break
    return chosen[: int(np.searchsorted(np.cumsum(predictions[chosen]), limit)) + 1]


def _windows(tokens: np.ndarray, begins: np.ndarray, columns: np.ndarray) -> Batch[np.ndarray]:
    block = tokens[begins[:, None] + columns]
    return Batch(block[:, :-1].astype(np.int64), block[:, 1:].astype(np.int64))


def _blocks(stream: Stream, limit: int | None) -> Iterator[Batch[np.ndarray]]:
    """Every token but the first predicted once, in blocks of T side by side, the last one padded; or in those that are
    `looked_at`."""
    tokens, context, scored = stream.array, stream.context, len(stream.tokens) - 1
    if scored < 1:
        raise CorpusError("The text has no token to predict.", remedy="Give more text.")
    begins = np.arange(0, scored, context)
    rows = looked_at(np.minimum(context, scored - begins), limit, documents=len(stream.starts))
    for first in range(0, len(rows), stream.batch):
        at = begins[rows[first : first + stream.batch], None] + np.arange(context)
        inside = at < scored
        at = np.where(inside, at, 0)
        inputs = np.where(inside, tokens[at], 0).astype(np.int64)
        targets = np.where(inside, tokens[at + 1].astype(np.int64), -1)
        yield Batch(inputs, targets, places=np.where(inside, at + 1, -1))


def _rows(stream: Stream, *, alone: bool = False) -> Rows:
    # One document alone has no special token, so the only thing before its first token is nothing.
    shared = stream.start_id is not None and stream.start_id == stream.end_id
    shared = shared and bool(stream.tokens[-1] == stream.end_id)
    rows = pack(stream.starts, len(stream.tokens), context=stream.context, shared=shared, alone=alone)
    if not len(rows):
        raise CorpusError("The text has no token to predict.", remedy="Give more text.")
    return rows


def _gather_from(stream: Stream, rows: Rows, *, segments: bool) -> Callable[..., Batch[np.ndarray]]:
    return partial(
        gather, stream.array, rows, context=stream.context, padding=stream.padding, segments=segments
    )


@dataclass(frozen=True)
class Known:
    """How many of some held-out `pairs` have a source that is learned from too."""

    sources: int
    pairs: int

    def __str__(self) -> str:
        return (
            f"{self.sources:,} of {self.pairs:,} held-out pairs {'has' if self.sources == 1 else 'have'} a source that "
            "stands in the training part too "
            f"({self.sources / self.pairs:.0%})"
        )


class BatchesConfig(PartConfig):
    """Base of every way to make batches: `training` and, where blocks side by side do not suit, `scoring`."""

    has_epochs: ClassVar[bool] = True
    """Whether so many steps see everything once."""
    reads: ClassVar[str] = "text"
    """What the documents are that they are made of (see `corpus.records`)."""

    running: ClassVar[bool] = False
    """Whether rows go on where others end."""
    whole_documents: ClassVar[bool] = False
    """Whether rows are made of whole documents, so that ends are learned and what is longer than the context is cut."""

    def build(
        self, tokens: np.ndarray, starts: np.ndarray, *, seed: int, accumulation: int = 1, **shape: Any
    ) -> Batches:
        """Make the batches of a training split; see `Stream` for the other arguments.

        `accumulation`: parts of a step; what an epoch is depends on it. Raises CorpusError where the split is too short
        for the context.
        """
        stream = Stream(tokens, starts, **shape)
        return self.training(stream, seed=seed, accumulation=accumulation)

    def evaluation(
        self, tokens: np.ndarray, starts: np.ndarray, *, limit: int | None = None, **shape: Any
    ) -> Iterator[Batch[np.ndarray]]:
        """Batches that score everything in a split exactly once, in order, and say where it stands (`Batch.places`);
        the last may have fewer rows.

        Args:
            limit: read as many rows as hold so many predictions (`looked_at`).
            shape: the other arguments of `Stream`.

        Raises:
            CorpusError: there is nothing to predict.
        """
        stream = Stream(tokens, starts, **shape)
        return self.scoring(stream, limit)

    def known(self, train: Stream, held_out: Stream) -> Known | None:
        """How much of what is held out asks what was asked in training too; None where nothing is asked."""
        return None

    def left_out(self, stream: Stream) -> np.ndarray:
        """Numbers of the documents that neither train nor are evaluated, because they are too long for the context."""
        return np.zeros(0, np.int64)

    def predictions(self, context: int) -> int:
        """How many of a full row's T positions are scored in training."""
        return context

    def example(self, rows: int, context: int) -> Batch[np.ndarray]:
        """A batch of zeros with the fields and shapes of those that train."""
        return Batch(*np.zeros((2, rows, context), np.int64))

    def steps_of(self, epochs: float, each: int | None) -> int:
        """Count the steps of `epochs`, each of `each` steps. Raises ConfigError for batches without epochs (None)."""
        if each is None:
            raise ConfigError(
                f"training.epochs needs batches that have epochs; '{self.kind}' draws at random.",
                remedy="batches=sliding, or training.steps instead",
            )
        return max(1, math.ceil(epochs * each))

    @abstractmethod
    def training(self, stream: Stream, *, seed: int, accumulation: int) -> Batches:
        """See `build`."""

    def scoring(self, stream: Stream, limit: int | None) -> Iterator[Batch[np.ndarray]]:
        """See `evaluation`; here every token but the very first is predicted once, from what stands before it
        in its block.
        """
        return _blocks(stream, limit)


@register("batches")
class WindowsConfig(BatchesConfig):
    """Random windows, counted in iterations: the usual choice."""

    kind: Literal["windows"] = "windows"
    running: ClassVar[bool] = True

    has_epochs: ClassVar[bool] = False

    def training(self, stream: Stream, *, seed: int, accumulation: int) -> RandomWindows:
        return RandomWindows(stream, seed=seed)


@register("batches")
class SlidingConfig(BatchesConfig):
    """Windows side by side or overlapping, counted in epochs (report D). Tokens after the last whole window
    are left out.
    """

    kind: Literal["sliding"] = "sliding"
    running: ClassVar[bool] = True
    stride: int | None = Field(None, ge=1, le=MOST)
    """Tokens from one window's start to the next one's. Empty: the context, so that windows do not overlap."""
    shuffle: bool = True
    """Each epoch in another order."""

    def training(self, stream: Stream, *, seed: int, accumulation: int) -> SlidingWindows:
        stream.need_a_window()
        stride = self.stride or stream.context
        windows = (len(stream.tokens) - stream.context - 1) // stride + 1
        order = Order(windows, batch=stream.batch, accumulation=accumulation, seed=seed, shuffle=self.shuffle)
        return SlidingWindows(stream, order, stride=stride)


@register("batches")
class PrefixesConfig(BatchesConfig):
    """Every prefix of every window as a row of its own, with only its last position scored, counted in epochs
    (report B). Slow: what `sliding` learns from one row takes T rows here.
    """

    kind: Literal["prefixes"] = "prefixes"
    running: ClassVar[bool] = True
    stride: int = Field(1, ge=1, le=MOST)
    """Tokens from one window's start to the next one's."""
    shuffle: bool = True
    """Each epoch in another order."""

    def predictions(self, context: int) -> int:
        return 1

    def training(self, stream: Stream, *, seed: int, accumulation: int) -> Prefixes:
        stream.need_a_window()
        windows = (len(stream.tokens) - stream.context - 1) // self.stride + 1
        order = Order(
            windows * stream.context,
            batch=stream.batch,
            accumulation=accumulation,
            seed=seed,
            shuffle=self.shuffle,
        )
        return Prefixes(stream, order, stride=self.stride)


@register("batches")
class DocumentsConfig(BatchesConfig):
    """Whole documents packed into rows, counted in epochs. The token that starts a document is never predicted
    after another's end, so a document's score is that of its own tokens and its end."""

    kind: Literal["documents"] = "documents"
    whole_documents: ClassVar[bool] = True
    shuffle: bool = True
    """Each epoch in another order."""
    attention: Literal["row", "document"] = "row"
    """What a position sees before it: `row`, the whole row, so the documents that stand there too; `document`, its own
    document alone (slower: the kernel for training on CPUs knows whole rows only)."""
    alone: bool = False
    """One document a row, so that positions too begin anew with each. One longer than the context is an error."""

    @property
    def task(self) -> str | None:  # pyrefly: ignore  # of documents alone: each is a record
        return "records" if self.alone else None

    def example(self, rows: int, context: int) -> Batch[np.ndarray]:
        zeros = super().example(rows, context)
        return replace(zeros, segments=zeros.inputs) if self.attention == "document" else zeros

    def training(self, stream: Stream, *, seed: int, accumulation: int) -> PackedDocuments:
        rows = _rows(stream, alone=self.alone)
        order = Order(
            len(rows), batch=stream.batch, accumulation=accumulation, seed=seed, shuffle=self.shuffle
        )
        return PackedDocuments(stream, rows, order, segments=self.attention == "document")

    def scoring(self, stream: Stream, limit: int | None) -> Iterator[Batch[np.ndarray]]:
        """Every token and end of every document is predicted once, a start token of its
        own never.
        """
        rows = _rows(stream, alone=self.alone)
        chosen = looked_at(rows.predictions, limit, documents=len(stream.starts))
        gathered = _gather_from(stream, rows, segments=self.attention == "document")
        for first in range(0, len(chosen), stream.batch):
            yield gathered(chosen[first : first + stream.batch], places=True)


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


def held_out_end(
    starts: np.ndarray, size: int, *, share: float, most: int, context: int
) -> np.ndarray | None:
    """(N,) where the end of a text is held out: about a `share` of it, and about `most` tokens at most, from the
    beginning of a document on where documents are short. None for a text too short to hold a window of `context` + 1
    out. `starts`, `size`: as above."""
    wanted = max(min(int(share * size), most), context + 1)
    if 2 * wanted > size:
        return None
    begin = _snapped(np.append(starts.astype(np.int64), size), size - wanted, wanted)
    held = np.zeros(size, bool)
    held[min(begin, size - context - 1) :] = True
    return held


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
        batch = self._batches.batch(step, micro)
        return replace(batch, alone=np.full(batch.inputs.shape, self._alone, np.int64))


def with_held_out(learned: Batches, held_out: Batches) -> Batches:
    """The batches from which the network learns, and the rows from which it does not."""
    return Together(Alone(learned, alone=True), Alone(held_out, alone=False))
