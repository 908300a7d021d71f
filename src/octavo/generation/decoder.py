"""Slots: the streams that a decoder reads side by side, each of its own length, begun and ended at any time.

A decoder is made with so many slots. `feed` reads some new ids into some of them and returns what the model expects
after the last id of each; `copy` gives other slots what one has read, so that a prompt is read once for many texts;
`free` forgets a slot. What one slot holds never changes what another one gives.

A slot remembers at most the model's context. Beyond it a window slides: when a slot is full, the oldest quarter of it
is forgotten and the rest read again, so that every token is written with at least three quarters of the context before
it. Or it is cropped: every token is written with all of the context before it, which is read again each time. Each slot
slides at its own time, where it would slide alone.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from octavo.generation.sampling import Precision, Window, kept

if TYPE_CHECKING:
    from octavo.generation.network import Network
    from octavo.generation.said import Said
    from octavo.model.base import LanguageModel

Span = tuple[int, int, int]
"""A slot, and from which to before which place of its `text` it is to be read."""
Logits = Any
"""float32: a tensor, or of the kernel alone an array."""
AHEAD = 8
"""Ids that are read into a slot as if one by one, at most."""


class Decoder(ABC):
    """A model that reads ids slot by slot. Here is what every kind of it does alike; `read` and `share` differ.

    Raises ValueError where it is made without a slot.
    """

    in_parts: ClassVar[bool] = False
    """Whether ids that are read in parts give the same bits as those that are read at once."""

    def __init__(
        self,
        model: LanguageModel | Network,
        *,
        slots: int,
        precision: Precision = "float32",
        window: Window = "slide",
    ) -> None:
        if slots < 1:
            raise ValueError(f"a decoder needs at least one slot, not {slots}")
        self.model, self.slots, self.precision = model, slots, precision
        self.vocabulary, self.context = model.vocab_size, model.context
        self.keep = kept(self.context, window)
        self.text = np.zeros((slots, self.context), dtype=np.int32)
        self._lengths = [0] * slots  # how much of each row counts
        self._said = said_of(model, slots)

    def feed(self, new: Mapping[int, Sequence[int]], *, ahead: Collection[int] = ()) -> Logits:
        """Read `new[slot]` into each slot, after what it holds. Returns the logits (n, V) that follow, in that order.

        `ahead`: slots whose ids are read as if one by one; the logits that follow each of these ids are returned.
        What should not have been read is taken back by `take_back`.

        Raises IndexError for a slot or an id that there is not, and ValueError where there is nothing to read, or more
        ahead than `AHEAD` or the context takes; then nothing was read.
        """
        self._refuse(new)
        if ahead:
            return self._feed_ahead(new, ahead)
        spans = [self._take(slot, ids) for slot, ids in new.items()]
        if self._said is None:
            return self.read(spans)
        for slot, ids in new.items():
            self._said.take(slot, ids)
        with self._said.apart():
            logs = self.read(spans)
        return self._said.mix(logs, [(slot, 0) for slot in new])

    def _feed_ahead(self, new: Mapping[int, Sequence[int]], ahead: Collection[int]) -> Logits:
        for slot in ahead:
            if len(new[slot]) > min(AHEAD, self.context - self._lengths[slot]):
                raise ValueError(f"{len(new[slot])} ids cannot be read ahead into slot {slot}")
        spans: list[Span] = []
        places: list[tuple[int, int]] = []
        for slot, ids in new.items():
            _, start, end = span = self._take(slot, ids)
            if slot in ahead:
                spans += [(slot, at, at + 1) for at in range(start, end)]
                places += [(slot, end - at - 1) for at in range(start, end)]
            else:
                spans.append(span)
                places.append((slot, 0))
        if self._said is None:
            return self.read(spans)
        for slot, ids in new.items():
            self._said.take(slot, ids)
        with self._said.apart():
            logs = self.read(spans)
        return self._said.mix(logs, places)

    def foresees(self) -> bool:
        """Whether ids are read ahead in less time than one by one. Some find out by trying, in slots that are empty."""
        return False

    def take_back(self, slot: int, count: int) -> None:
        """Forget the last ids that a slot read ahead, as if it had not read them."""
        self._check(slot)
        if not 0 <= count <= min(AHEAD, self._lengths[slot]):
            raise ValueError(f"slot {slot} read no {count} ids ahead")
        self._lengths[slot] -= count
        if self._said is not None:
            self._said.take_back(slot, count)

    def feed_each(self, slot: int, ids: Sequence[int]) -> Logits:
        """Read ids into one slot. Returns the logits (n, V) that follow each of them, the last as `feed` gives them.

        Raises as `feed` does, and ValueError where the ids do not fit into the context any more.
        """
        self._refuse({slot: ids})
        if self._lengths[slot] + len(ids) > self.context:
            raise ValueError(f"{len(ids)} more ids do not fit into the context of {self.context}")
        span = self._take(slot, ids)
        if self._said is None:
            return self.read_each(span)
        with self._said.apart():
            logs = self.read_each(span)
        mixed = logs.copy() if isinstance(logs, np.ndarray) else logs.clone()
        for place, token in enumerate(ids):
            self._said.take(slot, [token])
            mixed[place] = self._said.mix(logs[place : place + 1], [(slot, 0)])[0]
        return mixed

    def _refuse(self, new: Mapping[int, Sequence[int]]) -> None:
        if not new:
            raise ValueError("there is nothing to read")
        for slot, ids in new.items():
            self._check(slot)
            for token in ids:
                if not 0 <= token < self.vocabulary:
                    raise IndexError(f"token {token} is beyond the vocabulary of {self.vocabulary}")
        if not all(map(len, new.values())):
            raise ValueError("there is nothing to read into some slots")

    def free(self, slot: int) -> None:
        """Forget what a slot holds; what is fed into it next begins a stream."""
        self._check(slot)
        self._lengths[slot] = 0
        if self._said is not None:
            self._said.free(slot)

    def keep_first(self, slot: int, length: int) -> None:
        """Forget all that a slot holds but its first ids, as if it had read no more."""
        self._check(slot)
        if not 0 <= length <= self._lengths[slot]:
            raise ValueError(f"slot {slot} does not hold {length} ids")
        self._lengths[slot] = length
        if self._said is not None:
            self._said.free(slot)
            self._said.take(slot, self.text[slot, :length].tolist())

    def copy(self, source: int, to: Sequence[int], *, first: int | None = None) -> None:
        """Let the slots `to` hold what `source` holds, or its `first` ids, as if they had read it themselves."""
        for slot in (source, *to):
            self._check(slot)
        others, length = [slot for slot in to if slot != source], self._lengths[source]
        if first is not None and not 0 <= first <= length:
            raise ValueError(f"slot {source} does not hold {first} ids")
        if not others:
            return
        shared = length if first is None else first
        self.text[others, :shared] = self.text[source, :shared]
        for slot in others:
            self._lengths[slot] = shared
        if self._said is not None:
            self._said.copy(source, others)
        self.share(source, others, shared)
        for slot in others if shared < length else ():
            self.keep_first(slot, shared)

    def held(self, slot: int) -> list[int]:
        """The ids that a slot holds: what was fed into it, as far as the window reaches."""
        self._check(slot)
        return self.text[slot, : self._lengths[slot]].tolist()

    @property
    def lengths(self) -> Sequence[int]:
        """How many ids each slot holds."""
        return self._lengths

    def alike(self, ids: Sequence[int]) -> np.ndarray:
        """How many of these ids each slot begins with, (slots,)."""
        some = np.asarray(ids[: self.context], np.int32)
        same = self.text[:, : len(some)] == some
        return np.minimum(np.where(same.all(axis=1), len(some), same.argmin(axis=1)), self._lengths)

    @abstractmethod
    def read(self, spans: Sequence[Span]) -> Logits:
        """Logits (n, V) in float32 after each of these spans. What stands before a span is what was read last, or the
        span begins at 0; spans of one slot are of single ids, and follow each other."""

    def read_each(self, span: Span) -> Logits:
        """Logits (n, V) in float32 after each id of a span."""
        slot, start, end = span
        return self.read([(slot, at, at + 1) for at in range(start, end)])

    @abstractmethod
    def share(self, source: int, to: Sequence[int], length: int) -> None:
        """Give other slots what is known of the first `length` places of `source`."""

    def _check(self, slot: int) -> None:
        if not 0 <= slot < self.slots:
            raise self._unknown(slot)

    def _unknown(self, slot: int) -> IndexError:
        return IndexError(f"there is no slot {slot} among {self.slots}")

    def _take(self, slot: int, ids: Sequence[int]) -> Span:
        """Put ids into a slot's text, and let its window slide where they do not fit."""
        start = self._lengths[slot]
        end = start + len(ids)
        if end > self.context:
            keep = self.keep if start else self.context
            rest = np.concatenate((self.text[slot, :start], np.asarray(ids, dtype=np.int32)))[-keep:]
            start, end = 0, len(rest)
            self.text[slot, :end] = rest
        elif end - start == 1:  # which is nearly always so, and faster
            self.text[slot, start] = ids[0]
        else:
            self.text[slot, start:end] = ids
        self._lengths[slot] = end
        return slot, start, end


def said_of(model: LanguageModel | Network, slots: int) -> Said | None:
    """What texts have said so far, of a model that counts it."""
    recent = getattr(getattr(model, "counts", None), "recent", None)
    if recent is None:
        return None
    from octavo.generation.said import Said

    return Said(recent, slots, ahead=AHEAD)
