"""What the texts of a decoder's slots have said so far, mixed in after the model, whatever decodes."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

import numpy as np

from octavo.ngram.recent import Gate, Texts, compiled, recent_apart

if TYPE_CHECKING:
    from torch import Tensor

    from octavo.ngram.gate import Recent


class Said:
    """The texts, and the gate as it is now."""

    def __init__(self, recent: Recent | Gate, slots: int, *, ahead: int) -> None:
        self._recent, self._most = recent, recent.most
        self._kept = recent.most + ahead  # which may be taken back
        self._text = np.zeros((slots, 2 * self._kept), np.int32)
        self._lengths = [0] * slots
        self._gate = recent if isinstance(recent, Gate) else recent.gate()

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

    def mix(self, logs: np.ndarray | Tensor, places: Sequence[tuple[int, int]]) -> np.ndarray | Tensor:
        """Mix into the model's log-probabilities (n, V). `places`: of each row the slot, and how many last tokens
        to leave out."""
        slots, without = np.array(places).T
        ends = np.array(self._lengths)[slots] - without
        spans = np.stack((slots, np.maximum(0, ends - self._most), ends), axis=1)
        texts = Texts(self._text, spans, vocab_size=self._recent.vocab_size)
        if isinstance(logs, np.ndarray):
            mixed = logs.copy()
            texts.predict(self._gate, mixed)
            return mixed
        if compiled() is not None and logs.device.type == "cpu":
            mixed = logs.contiguous().clone()
            texts.predict(self._gate, mixed.numpy())
            return mixed
        assert not isinstance(self._recent, Gate), "arrays come from the kernel alone"
        return self._recent(logs.exp(), texts).log()
