"""What the texts of a decoder's slots have said so far, mixed in after the model: the same for every kind of decoder.

A slot's window forgets; here stand as many tokens as `model.recent` counts. n streams, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from octavo.model.kind import LanguageModel
from octavo.model.recent import Recent, Texts, compiled


class Said:
    """The texts, and the gate as it is now."""

    def __init__(self, recent: Recent, slots: int) -> None:
        self._recent, self._most = recent, recent.most
        self._text = np.zeros((slots, 2 * recent.most), np.int32)
        self._lengths = [0] * slots
        self._gate, self._held = recent.gate()

    @classmethod
    def of(cls, model: LanguageModel, slots: int) -> Said | None:
        """Of a model that counts it, if it does."""
        recent = getattr(getattr(model, "counts", None), "recent", None)
        return cls(recent, slots) if isinstance(recent, Recent) else None

    def take(self, slot: int, ids: Sequence[int]) -> None:
        """A text goes on."""
        ids, length = ids[-self._most :], self._lengths[slot]
        row = self._text[slot]
        if length + len(ids) > len(row):
            kept = self._most
            row[:kept] = row[length - kept : length].copy()
            length = kept
        row[length : length + len(ids)] = ids
        self._lengths[slot] = length + len(ids)

    def free(self, slot: int) -> None:
        """Forget a text."""
        self._lengths[slot] = 0

    def copy(self, source: int, to: Sequence[int]) -> None:
        """Other slots have the text of `source`."""
        length = self._lengths[source]
        self._text[list(to), :length] = self._text[source, :length]
        for slot in to:
            self._lengths[slot] = length

    @torch.no_grad()
    def mix(self, logs: Tensor, slots: Sequence[int]) -> Tensor:
        """(n, V) logarithms of the mixture's probabilities, from the model's own after the texts of these slots."""
        ends = np.array([self._lengths[slot] for slot in slots])
        spans = np.stack((np.array(slots), np.maximum(0, ends - self._most), ends), axis=1)
        texts = Texts(self._text, spans, vocab_size=self._recent.vocab_size)
        if compiled() is not None and logs.device.type == "cpu":
            found = logs.clone(memory_format=torch.contiguous_format)
            texts.predict(self._gate, found.numpy())
            return found
        return self._recent(logs.exp(), texts).log()
