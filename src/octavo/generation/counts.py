"""Counts beside a network that the kernel decodes, from what a checkpoint holds of them or from modules.

What the gate takes from the network's last state comes out of the same product as the logits, and a context mixer takes
the logits; the rest is a call of counting.c, or of mixing.c. The twins are `ngram.mixture.KneserNeyCounts` and
`ngram.mixing_counts.MixingCounts`.

C width, V vocabulary, K orders, H hidden units of the gate.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from octavo.generation.decoder import Span
from octavo.generation.network import Matrix
from octavo.ngram.kernel import GateStruct, Tables
from octavo.ngram.mixing import ContextMixing


class GatedMixture:
    """Tables of n-grams, and the gate: `from_known` (H, 2 K) and `out` (K + 1, H), with biases."""

    def __init__(self, tables: Tables, from_known: Matrix, out: Matrix) -> None:
        self._tables, self._held = tables, list[np.ndarray]()
        for each in (from_known, out):
            assert each.bias is not None
            self._held += [each.weight, each.bias]
        self._gate = GateStruct(len(from_known.weight), *(each.ctypes.data for each in self._held))

    def __call__(self, logits: np.ndarray, text: np.ndarray, spans: Sequence[Span]) -> np.ndarray:
        mixed = np.empty((len(logits), self._tables.vocab_size), np.float32)
        self._tables.predict_gated(self._gate, text, np.array(spans, dtype=np.int32), logits, mixed)
        return mixed


def with_state(head: Matrix, from_state: np.ndarray) -> Matrix:
    """What gives the logits, and below them what the gate takes from the network's state, by weights (H, C)."""
    bias = None if head.bias is None else np.pad(head.bias, (0, len(from_state)))
    return Matrix(np.concatenate((head.weight, from_state)), bias)


class Heard:
    """A context mixer, which hears the network."""

    def __init__(self, mixer: ContextMixing) -> None:
        self._mixer = mixer

    def __call__(self, logits: np.ndarray, text: np.ndarray, spans: Sequence[Span]) -> np.ndarray:
        where = np.array(spans, dtype=np.int64)
        row = where[:, 0] * text.shape[1]
        flat = np.stack((row, row + where[:, 2]), axis=1)  # all that stands there, and not the new ids alone
        return self._mixer.predict(text.ravel(), flat, logits)
