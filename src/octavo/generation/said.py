"""What the texts of a decoder's slots have said so far, mixed in after the model, whatever decodes."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager

import numpy as np
import torch
from torch import Tensor

from octavo.ngram.recent import Recent, Texts, compiled, recent_apart


class Said:
    """The texts, and the gate as it is now."""

    def __init__(self, recent: Recent, slots: int, *, ahead: int) -> None:
        self._recent, self._most = recent, recent.most
        self._kept = recent.most + ahead  # which may be taken back
        self._text = np.zeros((slots, 2 * self._kept), np.int32)
        self._lengths = [0] * slots
        self._gate, self._held = recent.gate()

    def take(self, slot: int, ids: Sequence[int]) -> None:
        """Count a token that a text goes on with."""
        ids, length = ids[-self._kept :], self._lengths[slot]
        row = self._text[slot]
        if length + len(ids) > len(row):
            kept = self._kept
            row[:kept] = row[length - kept : length].copy()
            length = kept
        row[length : length + len(ids)] = ids
        self._lengths[slot] = length + len(ids)

    def free(self, slot: int) -> None:
        self._lengths[slot] = 0

    def take_back(self, slot: int, count: int) -> None:
        self._lengths[slot] -= count

    def copy(self, source: int, to: Sequence[int]) -> None:
        """Other slots have the text of `source`."""
        length = self._lengths[source]
        self._text[list(to), :length] = self._text[source, :length]
        for slot in to:
            self._lengths[slot] = length

    @staticmethod
    def apart() -> AbstractContextManager[None]:
        """Within the context models mix nothing in themselves."""
        return recent_apart()

    @torch.no_grad()
    def mix(self, logs: Tensor, places: Sequence[tuple[int, int]]) -> Tensor:
        """Mix into the model's log-probabilities (n, V). `places`: of each row the slot, and how many last tokens
        to leave out."""
        slots, without = np.array(places).T
        ends = np.array(self._lengths)[slots] - without
        spans = np.stack((slots, np.maximum(0, ends - self._most), ends), axis=1)
        texts = Texts(self._text, spans, vocab_size=self._recent.vocab_size)
        if compiled() is not None and logs.device.type == "cpu":
            mixed = logs.clone(memory_format=torch.contiguous_format)
            texts.predict(self._gate, mixed.numpy())
            return mixed
        return self._recent(logs.exp(), texts).log()
