"""Counts beside a network that the kernel decodes: what the gate takes from the network's last state comes out of the
same product as the logits; the rest is a call of counting.c. The twin is `model.counts.KneserNeyCounts`.

n streams, V vocabulary, H hidden units of the gate.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn

from octavo.generation.int8 import in_bytes
from octavo.generation.slots import Precision, Span
from octavo.model.counting import GateStruct, Tables
from octavo.model.counts import KneserNeyCounts
from octavo.model.gpt import GPT


class Mixture:
    """A gate and its tables, as the kernel reads them."""

    def __init__(self, counts: KneserNeyCounts, tables: Tables, precision: Precision) -> None:
        self.tables, self._counts = tables, counts
        self._held = [
            _rounded(counts.from_known.weight, precision),
            counts.from_known.bias.detach().float().contiguous(),
            _rounded(counts.out.weight, precision),
            counts.out.bias.detach().float().contiguous(),
        ]
        self._gate = GateStruct(counts.from_state.out_features, *(each.data_ptr() for each in self._held))

    @classmethod
    def of(cls, model: GPT, precision: Precision) -> Mixture | None:
        """That of a model, if it has one."""
        counts = model.counts
        if not isinstance(counts, KneserNeyCounts) or (tables := counts.tables) is None:
            return None
        return cls(counts, tables, precision)

    def head(self, model: GPT) -> nn.Linear:
        """The model's head, and below it what the state gives the gate."""
        own, more = model.lm_head, self._counts.from_state
        with torch.device("meta"):  # drawing weights would move the run's random numbers on
            head = nn.Linear(own.in_features, own.out_features + more.out_features, bias=own.bias is not None)
        head.weight = nn.Parameter(torch.cat((own.weight, more.weight)).detach(), requires_grad=False)
        if own.bias is not None:
            bias = torch.cat((own.bias, own.bias.new_zeros(more.out_features)))
            head.bias = nn.Parameter(bias.detach(), requires_grad=False)
        return head

    def __call__(self, logits: Tensor, text: np.ndarray, spans: Sequence[Span]) -> Tensor:
        """(n, V) from the logits (n, V + H) after each of the spans of a text (slots, T)."""
        found = torch.empty(len(logits), self.tables.vocab_size)
        where = np.array(spans, dtype=np.int32)
        self.tables.predict(self._gate, text, where, logits.numpy(), found.numpy())
        return found


def _rounded(weight: Tensor, precision: Precision) -> Tensor:
    weight = weight.detach().float().contiguous()
    if precision != "int8":
        return weight
    whole, scales = in_bytes(weight)
    return whole * scales[:, None]
