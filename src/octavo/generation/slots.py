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
from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np
from torch import Tensor

from octavo.generation.said import Said
from octavo.generation.sampling import Window, kept
from octavo.model.kind import LanguageModel
from octavo.model.recent import recent_apart

Precision = Literal["float32", "bfloat16", "int8"]
"""Of the numbers that are multiplied; int8: of the matrices alone, all else in float32."""

Span = tuple[int, int, int]
"""A slot, and from which to before which place of its `text` it is to be read."""


class Decoder(ABC):
    """A model that reads ids slot by slot. Here is what every kind of it does alike; `read` and `share` differ.

    Raises ValueError where it is made without a slot.
    """

    def __init__(
        self, model: LanguageModel, *, slots: int, precision: Precision = "float32", window: Window = "slide"
    ) -> None:
        if slots < 1:
            raise ValueError(f"a decoder needs at least one slot, not {slots}")
        self.model, self.slots, self.precision = model, slots, precision
        self.vocabulary, self.context = model.vocab_size, model.context
        self.keep = kept(self.context, window)
        self.text = np.zeros((slots, self.context), dtype=np.int32)
        self._lengths = [0] * slots  # how much of each row counts
        self._said = Said.of(model, slots)

    def feed(self, new: Mapping[int, Sequence[int]]) -> Tensor:
        """Read `new[slot]` into each slot, after what it holds. Returns the logits (n, V) that follow, in that order.

        Raises IndexError for a slot or an id that there is not, and ValueError where there is nothing to read; then
        nothing was read.
        """
        if not new:
            raise ValueError("there is nothing to read")
        for slot, ids in new.items():
            if not 0 <= slot < self.slots:
                raise self._unknown(slot)
            for token in ids:
                if not 0 <= token < self.vocabulary:
                    raise IndexError(f"token {token} is beyond the vocabulary of {self.vocabulary}")
        if not all(map(len, new.values())):
            raise ValueError("there is nothing to read into some slots")
        spans = [self._take(slot, ids) for slot, ids in new.items()]
        if self._said is None:
            return self.read(spans)
        for slot, ids in new.items():
            self._said.take(slot, ids)
        with recent_apart():
            logs = self.read(spans)
        return self._said.mix(logs, list(new))

    def free(self, slot: int) -> None:
        """Forget what a slot holds; what is fed into it next begins a stream."""
        self._check(slot)
        self._lengths[slot] = 0
        if self._said is not None:
            self._said.free(slot)

    def copy(self, source: int, to: Sequence[int]) -> None:
        """Let the slots `to` hold what `source` holds, as if they had read it themselves."""
        for slot in (source, *to):
            self._check(slot)
        others, length = [slot for slot in to if slot != source], self._lengths[source]
        if not others:
            return
        self.text[others, :length] = self.text[source, :length]
        for slot in others:
            self._lengths[slot] = length
        if self._said is not None:
            self._said.copy(source, others)
        self.share(source, others, length)

    def held(self, slot: int) -> list[int]:
        """The ids that a slot holds: what was fed into it, as far as the window reaches."""
        self._check(slot)
        return self.text[slot, : self._lengths[slot]].tolist()

    @abstractmethod
    def read(self, spans: Sequence[Span]) -> Tensor:
        """Logits (n, V) in float32 after each of these spans, all of different slots. What stands before a span is
        what was read last, or the span begins at 0."""

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
