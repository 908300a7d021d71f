"""A gate that learns apart from its network: what it is told of it."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from octavo.training.graph_gate import overheard


class Gate(nn.Module):
    """Adds what it is given."""

    def forward(self, logits: Tensor, states: Tensor) -> Tensor:
        return logits + states


def test_what_a_gate_is_given_is_heard_within_the_context_alone() -> None:
    gate, one, two = Gate(), torch.ones(1, 2, 3, requires_grad=True), torch.zeros(1, 2, 3)
    gate(one, two)
    with overheard(gate) as heard:
        gate(one, two)
        gate(two, one)
    gate(one, two)
    assert [(logits.sum().item(), states.sum().item()) for logits, states in heard] == [(6, 0), (0, 6)]
    assert not any(each.requires_grad for pair in heard for each in pair)
