"""Conversations as batches: whole ones packed into rows, and only what the assistant says is learned."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import ClassVar, Literal

import numpy as np

from octavo.config.parts import register
from octavo.data.batch import Batch
from octavo.data.batches import Batches, BatchesConfig, Stream, looked_at
from octavo.data.packing import Rows, gather, pack_chains
from octavo.data.permutation import Order
from octavo.errors import CorpusError
from octavo.tokenizers.chat import CHAT_TOKENS, OPENINGS, learned_of


class Conversations:
    """The conversations of a split that fit into the context.

    Attributes:
        learned: whether each token (N,) of the split is one that is learned.
        rows: where they stand.
        left_out: how many are longer than the context.
        longest: predictions of the longest one.
    """

    def __init__(self, stream: Stream, *, packed: bool) -> None:
        openings = openings_of(stream)
        self.stream, self.packed = stream, packed
        self.learned = learned_of(stream.array, openings, stream.special[OPENINGS["assistant"]])
        if not self.learned.any():
            raise CorpusError(
                "Nothing in these conversations is learned: the assistant says nothing.",
                remedy="Give conversations that the assistant ends.",
            )
        begin = stream.starts.astype(np.int64)
        size = np.append(begin[1:], len(stream.tokens)) - begin - 1
        fits = size <= stream.context
        self.left_out, self.longest = int((~fits).sum()), int(size.max(initial=0))
        if not fits.any():
            raise CorpusError(
                f"Every conversation is longer than the context of {stream.context:,} tokens; the shortest has "
                f"{int(size.min()):,}.",
                remedy="Give shorter ones, or start from a run with a longer context.",
            )
        self.rows: Rows = pack_chains(begin[fits], size[fits], context=stream.context, alone=not packed)

    def gather(self, chosen: np.ndarray) -> Batch[np.ndarray]:
        """Some rows. What is not learned is no target."""
        stream = self.stream
        batch = gather(
            stream.array,
            self.rows,
            chosen,
            context=stream.context,
            padding=stream.padding,
            segments=self.packed,
            places=True,
        )
        places = batch.places
        assert places is not None
        mine = (places >= 0) & self.learned[np.maximum(places, 0)]
        return replace(batch, targets=np.where(mine, batch.targets, -1), places=np.where(mine, places, -1))


def openings_of(stream: Stream) -> list[int]:
    """The ids that open turns. Raises CorpusError where the tokenizer has no chat template."""
    if lacking := [name for name in CHAT_TOKENS if name not in stream.special]:
        raise CorpusError(
            f"These tokens are no conversations: the tokenizer lacks {', '.join(lacking)}.",
            remedy="octavo tune sft RUN --text chats.jsonl",
        )
    return [stream.special[name] for name in OPENINGS.values()]


class PackedConversations(Batches):
    """Rows of whole conversations; each epoch all of them once, in an order of its own."""

    def __init__(self, conversations: Conversations, order: Order) -> None:
        self._found, self._order = conversations, order
        self.size = len(conversations.stream.tokens)
        self.steps_per_epoch = order.steps_per_epoch
        if conversations.left_out:
            verb = "conversation is" if conversations.left_out == 1 else "conversations are"
            self.notes = (
                f"{conversations.left_out:,} {verb} longer than the context of "
                f"{conversations.stream.context:,} tokens and left out; the longest has {conversations.longest + 1:,}",
            )

    def batch(self, step: int, micro: int = 0) -> Batch[np.ndarray]:
        return replace(self._found.gather(self._order(step, micro)), places=None)


@register("batches")
class ConversationsConfig(BatchesConfig):
    """Whole conversations, of which the assistant's words and the end of its turn are learned; counted in epochs. One
    that is longer than the context is left out."""

    kind: Literal["conversations"] = "conversations"
    task: ClassVar[str] = "chat"
    shuffle: bool = True
    """Each epoch in another order."""
    packed: bool = True
    """Several in a row, each of which sees itself alone, as if it stood there by itself; false: one a row, which costs
    more time and suits every kind of model."""

    reads: ClassVar[str] = "conversations"

    def example(self, rows: int, context: int) -> Batch[np.ndarray]:
        zeros = super().example(rows, context)
        return replace(zeros, segments=zeros.inputs) if self.packed else zeros

    def training(self, stream: Stream, *, seed: int, accumulation: int) -> PackedConversations:
        conversations = Conversations(stream, packed=self.packed)
        order = Order(
            len(conversations.rows),
            batch=stream.batch,
            accumulation=accumulation,
            seed=seed,
            shuffle=self.shuffle,
        )
        return PackedConversations(conversations, order)

    def scoring(self, stream: Stream, limit: int | None) -> Iterator[Batch[np.ndarray]]:
        """Everything that is learned is predicted once, of the conversations that fit."""
        conversations = Conversations(stream, packed=self.packed)
        rows = looked_at(conversations.rows.predictions, limit, documents=len(stream.starts))
        for first in range(0, len(rows), stream.batch):
            yield conversations.gather(rows[first : first + stream.batch])
