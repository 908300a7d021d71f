"""On a GPU: a gate beside a network learns apart from it, so that what the network does can be recorded.

The gate looks contexts up on the processor, and brings the network no gradient. So the network makes one pass over all
rows and learns from its own; the gate then learns from the others, from what the network said and the state it said it
from.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from torch import Tensor, nn

from octavo.data.batch import NO_SIDE_INPUTS, Batch, SideInputs
from octavo.model.base import gates


class Halves(NamedTuple):
    """A part of a batch, (B, T), as its two learners take it.

    Attributes:
        network: all rows, without targets where the gate learns.
        gate: the rows from which the gate learns, and which they are; None: there are none.
    """

    network: Batch[np.ndarray]
    gate: tuple[np.ndarray, Batch[np.ndarray]] | None


def gate_of(model: nn.Module) -> nn.Module | None:
    """The gate beside a network, if there is one and no other."""
    owners = gates(model)
    return owners[0] if len(owners) == 1 else None


def halves_of(part: Batch[np.ndarray]) -> Halves | None:
    """What network and gate learn from; None where the batch does not say whose its rows are."""
    if part.alone is None:
        return None
    (rows,) = np.nonzero((part.alone == 0).any(axis=1))
    targets = part.targets.copy()
    targets[rows] = -1
    network = replace(part, targets=targets, alone=np.ones_like(part.alone))
    if not len(rows):
        return Halves(network, None)
    return Halves(network, (rows, Batch(**{name: value[rows] for name, value in part.items()})))


@contextmanager
def overheard(gate: nn.Module) -> Iterator[list[tuple[Tensor, Tensor]]]:
    """What the gate is given of the network in each pass within the context: logits (B, T, V) and states (B, T, C)."""
    heard: list[tuple[Tensor, Tensor]] = []

    def listen(_: nn.Module, given: tuple[Any, ...]) -> None:
        heard.append((given[0].detach(), given[1].detach()))

    hook = gate.register_forward_pre_hook(listen)
    try:
        yield heard
    finally:
        hook.remove()


class Mixing:
    """A model of some rows whose network has spoken: called as a model is, it mixes the counts in."""

    def __init__(self, gate: nn.Module, rows: np.ndarray, heard: tuple[Tensor, Tensor]) -> None:
        self.gate, self.logits, self.states = gate, *(each[rows.tolist()] for each in heard)

    def __call__(self, tokens: Tensor, *, side: SideInputs[Tensor] = NO_SIDE_INPUTS) -> Tensor:
        return self.gate(self.logits, self.states, tokens, side.earlier, segments=side.segments)
