"""Tokens to batches of inputs and targets: pure functions of (seed, step), so a resumed run sees what it
would have seen.

B sequences, T positions (the context). Targets are inputs one token later; -1 stands where nothing is to be
predicted.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Literal

import numpy as np
from pydantic import Field

from octavo.config.parts import PartConfig, register
from octavo.dataset.packing import Rows, gather, pack
from octavo.dataset.permutation import draw
from octavo.errors import CorpusError

Batch = tuple[np.ndarray, np.ndarray]
"""Inputs and targets, int64 (B, T) each."""


class Batches(ABC):
    """A training split as batches.

    Attributes:
        steps_per_epoch: steps in which all of it has been seen once; None where batches are drawn at random.
        notes: what the user should hear about how the text fits, as sentences.
    """

    steps_per_epoch: int | None = None
    notes: tuple[str, ...] = ()

    @abstractmethod
    def batch(self, step: int, micro: int = 0) -> Batch:
        """The batch of a step, or its micro-th part where gradients are accumulated. The same for the same
        arguments.
        """


class BatchesConfig(PartConfig):
    """Base of every way to make batches."""

    @abstractmethod
    def build(
        self,
        tokens: np.ndarray,
        starts: np.ndarray,
        *,
        context: int,
        batch: int,
        seed: int,
        start_id: int | None,
        end_id: int | None,
        accumulation: int = 1,
    ) -> Batches:
        """Make the batches of a training split.

        Args:
            tokens: ids, (N,).
            starts: token offset of each document.
            context, batch: T and B.
            start_id, end_id: the tokenizer's document marks, None where it has none.
            accumulation: parts of a step; what an epoch is depends on it.

        Raises:
            CorpusError: the split is too short for the context.
        """

    @abstractmethod
    def evaluation(
        self,
        tokens: np.ndarray,
        starts: np.ndarray,
        *,
        context: int,
        batch: int,
        start_id: int | None,
        end_id: int | None,
        limit: int | None = None,
    ) -> Iterator[Batch]:
        """Batches that score everything in a split exactly once, in order; the last may have fewer rows.

        Args:
            limit: stop after the first so many predictions, rounded up to whole rows.

        Raises:
            CorpusError: there is nothing to predict.
        """


class RandomWindows(Batches):
    """Windows of T + 1 tokens that begin anywhere, each place as likely as the other (nanoGPT's
    iterations).
    """

    def __init__(self, tokens: np.ndarray, *, context: int, batch: int, seed: int) -> None:
        self._tokens = np.asarray(tokens)  # a memmap without its slow indexing
        self._columns = np.arange(context + 1)
        self._choices = len(tokens) - context
        self._batch = batch
        self._seed = seed

    def batch(self, step: int, micro: int = 0) -> Batch:
        # The step is part of the generator's counter, so no state is carried from one to the next.
        raw = np.random.Philox(key=self._seed, counter=(step << 128) | (micro << 64)).random_raw(self._batch)
        begins = ((raw >> np.uint64(11)) * 2.0**-53 * self._choices).astype(np.int64)
        return _windows(self._tokens, begins, self._columns)


class SlidingWindows(Batches):
    """Windows of T + 1 tokens every `stride` tokens; each epoch all of them once, in an order of its own."""

    def __init__(
        self,
        tokens: np.ndarray,
        *,
        context: int,
        batch: int,
        seed: int,
        stride: int,
        shuffle: bool,
        accumulation: int,
    ) -> None:
        self._tokens = np.asarray(tokens)
        self._columns = np.arange(context + 1)
        self._stride = stride
        self._order = _Order((len(tokens) - context - 1) // stride + 1, batch, accumulation, seed, shuffle)
        self.steps_per_epoch = self._order.steps_per_epoch

    def batch(self, step: int, micro: int = 0) -> Batch:
        return _windows(self._tokens, self._order(step, micro) * self._stride, self._columns)


class PackedDocuments(Batches):
    """Rows of whole documents; each epoch all of them once, in an order of its own."""

    def __init__(
        self,
        tokens: np.ndarray,
        rows: Rows,
        *,
        context: int,
        batch: int,
        seed: int,
        mark: int,
        shuffle: bool,
        accumulation: int,
    ) -> None:
        self._tokens = np.asarray(tokens)
        self._rows = rows
        self._context = context
        self._mark = mark
        self._order = _Order(len(rows), batch, accumulation, seed, shuffle)
        self.steps_per_epoch = self._order.steps_per_epoch
        if rows.cut:
            verb = "document is" if rows.cut == 1 else "documents are"
            self.notes = (
                f"{rows.cut:,} {verb} longer than the context of {context:,} tokens, and cut into rows",
            )

    def batch(self, step: int, micro: int = 0) -> Batch:
        return gather(
            self._tokens, self._rows, self._order(step, micro), context=self._context, mark=self._mark
        )


class _Order:
    """Which of n things a step sees. The stream goes on over an epoch's end, so no batch is short and nothing
    is dropped.
    """

    def __init__(self, n: int, batch: int, accumulation: int, seed: int, shuffle: bool) -> None:
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


def _windows(tokens: np.ndarray, begins: np.ndarray, columns: np.ndarray) -> Batch:
    block = tokens[begins[:, None] + columns]
    return block[:, :-1].astype(np.int64), block[:, 1:].astype(np.int64)


def _need(tokens: np.ndarray, context: int) -> None:
    if len(tokens) <= context:
        raise CorpusError(
            f"The text has {len(tokens):,} tokens; a context of {context:,} needs at least {context + 1:,}.",
            remedy=f"Give more text, or set model.context to {len(tokens) - 1} or less."
            if len(tokens) > 1
            else "Give more text.",
        )


def _blocks(tokens: np.ndarray, context: int, batch: int, limit: int | None) -> Iterator[Batch]:
    """Every token but the first predicted once, in blocks of T side by side; the last one is padded."""
    scored = len(tokens) - 1
    if scored < 1:
        raise CorpusError("The text has no token to predict.", remedy="Give more text.")
    rows = -(-min(scored, limit or scored) // context)
    for first in range(0, rows, batch):
        begin, end = first * context, min(first + batch, rows) * context
        inside = min(end, scored)
        inputs = np.zeros(end - begin, np.int64)
        targets = np.full(end - begin, -1, np.int64)
        inputs[: inside - begin] = tokens[begin:inside]
        targets[: inside - begin] = tokens[begin + 1 : inside + 1]
        yield inputs.reshape(-1, context), targets.reshape(-1, context)


class _InBlocks(BatchesConfig):
    """What ways to cut a stream of tokens have in common."""

    def evaluation(
        self,
        tokens: np.ndarray,
        starts: np.ndarray,
        *,
        context: int,
        batch: int,
        start_id: int | None,
        end_id: int | None,
        limit: int | None = None,
    ) -> Iterator[Batch]:
        """See the base class: every token but the very first is predicted once, from what stands before it in
        its block.
        """
        return _blocks(np.asarray(tokens), context, batch, limit)


@register("batches")
class WindowsConfig(_InBlocks):
    """Random windows, counted in iterations: the usual choice."""

    kind: Literal["windows"] = "windows"

    def build(
        self,
        tokens: np.ndarray,
        starts: np.ndarray,
        *,
        context: int,
        batch: int,
        seed: int,
        start_id: int | None,
        end_id: int | None,
        accumulation: int = 1,
    ) -> RandomWindows:
        """See the base class."""
        _need(tokens, context)
        return RandomWindows(tokens, context=context, batch=batch, seed=seed)


@register("batches")
class SlidingConfig(_InBlocks):
    """Windows side by side or overlapping, counted in epochs (report D). Tokens after the last whole window
    are left out.
    """

    kind: Literal["sliding"] = "sliding"
    stride: int | None = Field(None, ge=1)
    """Tokens from one window's start to the next one's. Empty: the context, so that windows do not
    overlap.
    """
    shuffle: bool = True
    """Each epoch in another order."""

    def build(
        self,
        tokens: np.ndarray,
        starts: np.ndarray,
        *,
        context: int,
        batch: int,
        seed: int,
        start_id: int | None,
        end_id: int | None,
        accumulation: int = 1,
    ) -> SlidingWindows:
        """See the base class."""
        _need(tokens, context)
        return SlidingWindows(
            tokens,
            context=context,
            batch=batch,
            seed=seed,
            stride=self.stride or context,
            shuffle=self.shuffle,
            accumulation=accumulation,
        )


@register("batches")
class DocumentsConfig(BatchesConfig):
    """Whole documents packed into rows, counted in epochs. The mark that starts a document is never predicted
    after another's end, so a document's score is that of its own tokens and its end."""

    kind: Literal["documents"] = "documents"
    shuffle: bool = True
    """Each epoch in another order."""

    def build(
        self,
        tokens: np.ndarray,
        starts: np.ndarray,
        *,
        context: int,
        batch: int,
        seed: int,
        start_id: int | None,
        end_id: int | None,
        accumulation: int = 1,
    ) -> PackedDocuments:
        """See the base class."""
        return PackedDocuments(
            tokens,
            _pack(tokens, starts, context, start_id, end_id),
            context=context,
            batch=batch,
            seed=seed,
            mark=_pad(start_id),
            shuffle=self.shuffle,
            accumulation=accumulation,
        )

    def evaluation(
        self,
        tokens: np.ndarray,
        starts: np.ndarray,
        *,
        context: int,
        batch: int,
        start_id: int | None,
        end_id: int | None,
        limit: int | None = None,
    ) -> Iterator[Batch]:
        """See the base class: every token and end of every document is predicted once, a start mark of its
        own never.
        """
        rows = _pack(tokens, starts, context, start_id, end_id)
        count = len(rows)
        if limit is not None:
            count = min(count, int(np.searchsorted(np.cumsum(rows.predictions), limit)) + 1)
        for first in range(0, count, batch):
            chosen = np.arange(first, min(first + batch, count))
            yield gather(np.asarray(tokens), rows, chosen, context=context, mark=_pad(start_id))


def _pad(start_id: int | None) -> int:
    return 0 if start_id is None else start_id


def _pack(
    tokens: np.ndarray, starts: np.ndarray, context: int, start_id: int | None, end_id: int | None
) -> Rows:
    # One document alone stands without marks, so the only thing before its first token is nothing.
    marked = start_id is not None and start_id == end_id and bool(tokens[-1] == end_id)
    rows = pack(starts, len(tokens), context=context, shared_mark=marked)
    if not len(rows):
        raise CorpusError("The text has no token to predict.", remedy="Give more text.")
    return rows
