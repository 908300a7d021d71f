"""Preferences as batches: a row is a pair, the conversation with the chosen answer and that with the rejected one.

So both sides stand in the same batch however it is cut. B pairs, S ids of the longest side among them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import ClassVar, Literal

import numpy as np

from octavo.config.parts import register
from octavo.data.batch import NO_ROW, Batch
from octavo.data.batches import Batches, BatchesConfig, Stream, looked_at
from octavo.data.permutation import Order
from octavo.errors import CorpusError
from octavo.tasks.chat.batches import openings_of


class Preferences:
    """The pairs of a split of which both sides fit into the context.

    Attributes:
        begins, stops: where each side's ids stand in the tokens, (N, 2), the chosen one first.
        answers: where its answer begins, (N, 2).
        left_out: how many pairs are longer than the context.
        longest: ids of the longest side.
    """

    def __init__(self, stream: Stream) -> None:
        self.stream = stream
        opens = np.flatnonzero(np.isin(stream.array, openings_of(stream)))
        begin = stream.starts.astype(np.int64)
        stop = np.append(begin[1:], len(stream.tokens))
        first, last = np.searchsorted(opens, begin), np.searchsorted(opens, stop)
        turns = (last - first) // 2  # the prompt's and the answer, on either side
        whole = (turns > 0) & ((last - first) % 2 == 0)  # a document that a split has cut may be neither
        begin, stop, first, turns = (each[whole] for each in (begin, stop, first, turns))
        middle = opens[first + turns]
        begins, stops = np.stack([begin, middle], axis=1), np.stack([middle, stop], axis=1)
        answers = opens[np.stack([first + turns - 1, first + 2 * turns - 1], axis=1)] + 1
        longer = (stops - begins).max(axis=1, initial=0)
        fits = longer <= stream.context
        self.left_out, self.longest = int((~fits).sum()), int(longer.max(initial=0))
        if not fits.any():
            shortest = f"; the shortest has {int(longer.min()):,}" if len(longer) else ""
            raise CorpusError(
                f"Of {len(longer):,} pairs none fits into the context of {stream.context:,} tokens{shortest}.",
                remedy="Give shorter ones, or start from a run with a longer context.",
            )
        self.begins, self.stops, self.answers = begins[fits], stops[fits], answers[fits]

    def __len__(self) -> int:
        return len(self.begins)

    def gather(self, chosen: np.ndarray) -> Batch[np.ndarray]:
        """Some pairs, as wide as the longest side among them."""
        begins, stops = self.begins[chosen], self.stops[chosen]
        columns = np.arange(int((stops - begins).max()))
        where = begins[..., None] + columns  # (B, 2, S)
        inside = where < stops[..., None]
        ids = self.stream.array[np.where(inside, where, 0)].astype(np.int64)
        sides = np.where(inside, ids, NO_ROW["sides"])
        end = stops[:, :1] - 1  # of the chosen answer: the pair's one target
        mine = where[:, 0] == end - 1
        return Batch(
            np.where(inside[:, 0], ids[:, 0], self.stream.padding),
            np.where(mine, self.stream.array[end].astype(np.int64), NO_ROW["targets"]),
            places=np.where(mine, end, NO_ROW["places"]),
            sides=sides,
            begins=self.answers[chosen] - begins,
        )


class PreferenceBatches(Batches):
    """Batches of pairs; each epoch all of them once, in an order of its own."""

    def __init__(self, pairs: Preferences, order: Order) -> None:
        self._found, self._order = pairs, order
        self.size = len(pairs.stream.tokens)
        self.steps_per_epoch = order.steps_per_epoch
        if pairs.left_out:
            verb = "pair is" if pairs.left_out == 1 else "pairs are"
            self.notes = (
                f"{pairs.left_out:,} {verb} longer than the context of {pairs.stream.context:,} tokens and left out; "
                f"the longest side has {pairs.longest:,}",
            )

    def batch(self, step: int, micro: int = 0) -> Batch[np.ndarray]:
        return replace(self._found.gather(self._order(step, micro)), places=None)


@register("batches")
class PreferencesConfig(BatchesConfig):
    """Pairs of a chosen and a rejected answer, each pair a row; counted in epochs. `training.batch` counts pairs. One
    with a side that is longer than the context is left out."""

    kind: Literal["preferences"] = "preferences"
    task: ClassVar[str] = "chat"
    shuffle: bool = True
    """Each epoch in another order."""

    reads: ClassVar[str] = "preferences"

    def predictions(self, context: int) -> int:
        """Both sides are read."""
        return 2 * context

    def example(self, rows: int, context: int) -> Batch[np.ndarray]:
        zeros = super().example(rows, context)
        begins = np.zeros((rows, 2), np.int64)
        return replace(zeros, sides=np.zeros((rows, 2, context), np.int64), begins=begins)

    def training(self, stream: Stream, *, seed: int, accumulation: int) -> PreferenceBatches:
        pairs = Preferences(stream)
        order = Order(
            len(pairs), batch=stream.batch, accumulation=accumulation, seed=seed, shuffle=self.shuffle
        )
        return PreferenceBatches(pairs, order)

    def scoring(self, stream: Stream, limit: int | None) -> Iterator[Batch[np.ndarray]]:
        """Every pair that fits once."""
        pairs = Preferences(stream)
        chosen = looked_at(np.ones(len(pairs), np.int64), limit, documents=len(stream.starts))
        for first in range(0, len(chosen), stream.batch):
            yield pairs.gather(chosen[first : first + stream.batch])
