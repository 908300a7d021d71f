"""Whole documents packed into rows of T columns, so that little is wasted and a document's score is its own.

A document is a chain of ids that begins with the special token before it; every id but the first is predicted once.
One that is longer than a row is cut into chunks of T predictions. A row holds whole documents or chunks side
by side and ends in padding.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right, insort
from dataclasses import dataclass
from itertools import islice

import numpy as np

from octavo.data.batch import Batch
from octavo.data.store import Dataset
from octavo.errors import CorpusError

_LOOK_AHEAD = 32  # documents that wait to fill a gap


@dataclass(frozen=True)
class Rows:
    """Where each row's ids stand in the tokens.

    Attributes:
        first: (items,) token offset of each item's first input; -1 stands for a start that is not in the
            tokens.
        length: (items,) predictions of each item.
        column: (items,) where in its row each item begins.
        begins: (rows + 1,) the first item of each row, and the end.
        cut: documents that are longer than a row.
    """

    first: np.ndarray
    length: np.ndarray
    column: np.ndarray
    begins: np.ndarray
    cut: int

    def __len__(self) -> int:
        return len(self.begins) - 1

    @property
    def predictions(self) -> np.ndarray:
        """How many each row holds."""
        return np.add.reduceat(self.length, self.begins[:-1])


class TooShortError(CorpusError):
    """A document of the training split is too short for a row."""

    def called(self, dataset: Dataset) -> TooShortError:
        """The same error with the document's name."""
        return self


class TooLongError(CorpusError):
    """A record has more tokens, its end among them, than a row has places."""

    def __init__(self, longest: int, context: int, where: str | None = None) -> None:
        of = "The longest record" if where is None else f"The record of {where}"
        super().__init__(
            f"{of} has {longest:,} tokens, and the context {context:,}.",
            remedy=f"model.context={longest}, or take long records out, or batches.alone=false, which cuts them",
        )


def pack(starts: np.ndarray, tokens: int, *, context: int, shared: bool, alone: bool = False) -> Rows:
    """Plan the rows, in file order but for a small look-ahead: into each gap goes the longest waiting item
    that fits; or `alone`, each in a row of its own.

    Args:
        starts: token offset of each document.
        tokens: how many there are in all.
        context: T, columns of a row.
        shared: whether one special token both starts and ends documents, so that the one before a document is its
            predecessor's end (and not in the tokens before the first).
    """
    begin = starts.astype(np.int64) - shared
    size = np.append(starts[1:], tokens).astype(np.int64) - begin - 1  # predictions
    if alone and (size > context).any():
        raise TooLongError(int(size.max()), context)
    return pack_chains(begin, size, context=context, alone=alone)


def pack_chains(begin: np.ndarray, size: np.ndarray, *, context: int, alone: bool = False) -> Rows:
    """The same for chains of ids: where each begins in the tokens, and how many predictions it has."""
    first, length = _chunks(begin, size, context)
    items = np.arange(len(length) + 1)
    order, begins = (items[:-1], items) if alone else _fill(length, context)
    first, length = first[order], length[order]
    before = np.cumsum(length) - length
    column = before - np.repeat(before[begins[:-1]], np.diff(begins))
    return Rows(first, length, column, begins, cut=int((size > context).sum()))


def _chunks(begin: np.ndarray, size: np.ndarray, context: int) -> tuple[np.ndarray, np.ndarray]:
    chunks = -(-size // context)  # 0 for a document without a prediction
    document = np.repeat(np.arange(len(begin)), chunks)
    number = np.arange(len(document)) - np.repeat(np.cumsum(chunks) - chunks, chunks)
    return begin[document] + number * context, np.minimum(context, size[document] - number * context)


def _fill(length: np.ndarray, context: int) -> tuple[np.ndarray, np.ndarray]:
    coming = enumerate(length.tolist())
    waiting = sorted((size, -item) for item, size in islice(coming, _LOOK_AHEAD))
    order, begins = array("q"), array("q", [0])
    while waiting:
        room = context
        # Of equally long items the earliest: it sorts last, since its number is negative.
        while at := bisect_right(waiting, (room, 1)):
            size, item = waiting.pop(at - 1)
            order.append(-item)
            room -= size
            if follower := next(coming, None):
                insort(waiting, (follower[1], -follower[0]))
        begins.append(len(order))
    return np.array(order, np.int64), np.array(begins, np.int64)


def gather(
    tokens: np.ndarray,
    rows: Rows,
    chosen: np.ndarray,
    *,
    context: int,
    padding: int,
    segments: bool = False,
    places: bool = False,
) -> Batch[np.ndarray]:
    """A batch of some rows, int64; padding is that id as input and -1 in all else.

    Args:
        segments, places: whether the batch has them. Each item of a row is a segment, counted from 0.
    """
    # Items of the rows, then their predictions, one after another, and where each goes in the flat batch.
    per_row = rows.begins[chosen + 1] - rows.begins[chosen]
    until = np.cumsum(per_row)
    item = np.arange(until[-1]) + np.repeat(rows.begins[chosen] - until + per_row, per_row)
    size = rows.length[item]
    until = np.cumsum(size)
    place = np.repeat(np.arange(len(chosen)) * context, per_row) + rows.column[item]
    step = np.arange(until[-1])
    flat = step + np.repeat(place - until + size, size)
    source = step + np.repeat(rows.first[item] - until + size, size)

    def spread(values: np.ndarray, filling: int = -1) -> np.ndarray:
        array = np.full((len(chosen), context), filling, np.int64)
        array.reshape(-1)[flat] = values
        return array

    number = item - np.repeat(rows.begins[chosen], per_row)  # of each item in its row
    return Batch(
        spread(tokens[source], padding),  # an offset of -1 takes the last token: an end, which is a start too
        spread(tokens[source + 1]),
        segments=spread(np.repeat(number, size)) if segments else None,
        places=spread(source + 1) if places else None,
    )
