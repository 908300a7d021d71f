"""On a GPU: the work of a step recorded once, as CUDA graphs, and replayed.

Launching the few hundred kernels of a small model's step takes a processor longer than a GPU needs to run them; a
replayed graph is launched at once. What is computed is the same, to the bit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from octavo.data.batch import Batch
from octavo.training.graph_gate import halves_of, overheard
from octavo.training.objective import Objective
from octavo.training.step import (
    LOSS,
    GradientStep,
    StepOptions,
    gradient_norm,
    summed,
)

MOST = 8  # shapes of batches that are recorded; each keeps the memory of a step's activations

UNTIL_REPLAYED = 3  # steps, where batches are alike

A = TypeVar("A")
Shape = tuple[tuple[str, tuple[int, ...], str], ...]
Heard = tuple[Tensor, Tensor] | None
"""What a gate is given of the network: logits and states."""


class Recorded(GradientStep):
    """The same work, replayed.

    Of each shape of batch the first pass is taken op by op, and so is the second, watched: where it makes the GPU wait
    for the processor, it cannot be recorded, and goes on so. The third is recorded. The first update makes the
    optimizers' memory, the second is recorded.
    """

    def __init__(
        self, model: nn.Module, optimizers: Sequence[Optimizer], objective: Objective, options: StepOptions
    ) -> None:
        super().__init__(model, optimizers, objective, options)
        self.over, self.norm = torch.zeros(2, device=self.device).unbind()
        self.passes: dict[Shape, _Pass] = {}
        self.updating: torch.cuda.CUDAGraph | None = None
        self.updated = False
        self.names: list[str] = []
        self.pool = torch.cuda.graph_pool_handle()
        self.gradients = [
            torch.zeros_like(parameter) for parameter in self.parameters
        ]  # they stay where they are
        for parameter, gradient in zip(self.parameters, self.gradients, strict=True):
            parameter.grad = gradient
        for group in self.groups:
            if "capturable" in group:
                group["capturable"] = True

    def learned(
        self, parts: Sequence[Batch[np.ndarray]], *, over: float, step: int
    ) -> tuple[float, float, dict[str, float]]:
        self.over.fill_(over)
        values = [row for part in parts for row in self.rows_of(part, step)]
        rows = (values[0][None] if len(values) == 1 else torch.stack(values)).tolist()
        sums = summed(self.names, [value for row in rows for value in row[:-1]])
        return sums.pop(LOSS), rows[-1][-1], sums

    def rows_of(self, part: Batch[np.ndarray], step: int) -> list[Tensor]:
        """Add the gradients of a part; what each of its passes says, and their length so far, as one tensor. What a
        gate learns apart is not recorded."""
        if self.gate is None:
            return [self.pass_over(part, step)[0]]
        halves = halves_of(part)
        if halves is None:  # counts are mixed in everywhere
            return [self.computed(part.to(self.device), step)[0]]
        network_row, heard = self.pass_over(halves.network, step)
        if halves.gate is None or heard is None:
            return [network_row]
        with self.repeatably():
            gate_pass = self.mixed(*halves.gate, heard, over=self.over, step=step)
        return [network_row, self.with_norm(gate_pass)]

    def pass_over(self, part: Batch[np.ndarray], step: int) -> tuple[Tensor, Heard]:
        """Add the gradients of a part; what it says, and their length so far, as one tensor, and what a gate heard."""
        shape = tuple((name, value.shape, str(value.dtype)) for name, value in part.items())
        known = self.passes.get(shape) or _Pass()
        if len(self.passes) < MOST:
            self.passes[shape] = known
        known.seen += 1
        if known.seen == 2:
            return self.watched(known, part.to(self.device), step)
        if known.seen < 2 or known.waits or shape not in self.passes:
            return self.computed(part.to(self.device), step)
        if known.seen == 3:
            known.read_from(part, self.device)
            with recording(known.graph, self.pool):
                known.result, known.heard = self.computed(known.batch, step)
        known.take(part)
        known.graph.replay()
        return known.result.clone(), known.heard

    def watched(self, known: _Pass, part: Batch[Tensor], step: int) -> tuple[Tensor, Heard]:
        """The same op by op, with a look whether the GPU has to wait for the processor; then it is done again."""
        drawn = torch.cuda.get_rng_state(self.device)
        before = [each.clone() for each in self.gradients]
        result = unless_it_waits(lambda: self.computed(part, step), self.device)
        if result is not None:
            return result
        known.waits = True
        torch._foreach_copy_(self.gradients, before)
        torch.cuda.set_rng_state(drawn, self.device)
        return self.computed(part, step)

    def computed(self, part: Batch[Tensor], step: int) -> tuple[Tensor, Heard]:
        """The same op by op."""
        with self.repeatably(), nullcontext([]) if self.gate is None else overheard(self.gate) as heard:
            figures = self.backward(part, over=self.over, step=step)
        self.names = list(figures)
        return self.with_norm(figures), heard[0] if heard else None

    def with_norm(self, figures: Mapping[str, Tensor]) -> Tensor:
        """What a pass says, and the gradients' length so far."""
        self.norm.copy_(gradient_norm(self.parameters))
        return torch.stack([*(value.reshape(()).float() for value in figures.values()), self.norm])

    def update(self, norm: float) -> None:
        if self.updating is not None:
            self.updating.replay()
        elif self.updated:
            self.updating = torch.cuda.CUDAGraph()
            with recording(self.updating, self.pool):
                self.move()
            self.updating.replay()
        else:
            self.move()
            self.updated = True

    def forget(self) -> None:
        torch._foreach_zero_(self.gradients)
        self.passes.clear()

    def move(self) -> None:
        """Update the weights by the gradients; these are zero then."""
        if self.options.clip is not None:
            # In double, as the processor divides: a bound that no float32 holds would be rounded before.
            shorter = (self.options.clip / self.norm.double()).clamp(max=1.0).to(self.norm)
            torch._foreach_mul_(self.gradients, shorter)
        for optimizer in self.optimizers:
            optimizer.step()
        torch._foreach_zero_(self.gradients)


class _Pass:
    """A pass over batches of one shape: how often it came, and once it is recorded, where it reads a batch."""

    graph: torch.cuda.CUDAGraph
    batch: Batch[Tensor]
    result: Tensor
    heard: Heard
    staged: dict[str, Tensor]
    copied: torch.cuda.Event

    def __init__(self) -> None:
        self.seen, self.waits = 0, False

    def read_from(self, part: Batch[np.ndarray], device: torch.device) -> None:
        """Make room for batches such as this."""
        self.graph, self.copied = torch.cuda.CUDAGraph(), torch.cuda.Event()
        self.batch = part.to(device)
        self.staged = {name: torch.as_tensor(value).pin_memory() for name, value in part.items()}

    def take(self, part: Batch[np.ndarray]) -> None:
        """Let it read this batch; the processor does not wait for the work before."""
        self.copied.synchronize()
        for name, value in part.items():
            staged = self.staged[name]
            staged.copy_(torch.as_tensor(value))
            getattr(self.batch, name).copy_(staged, non_blocking=True)
        self.copied.record()


def unless_it_waits(work: Callable[[], A], device: torch.device) -> A | None:
    """What some work gives; None, of work half done, where it makes the GPU wait for the processor: so it cannot be
    recorded."""
    torch.cuda.synchronize(device)
    torch.cuda.set_sync_debug_mode("error")
    try:
        return work()
    except RuntimeError as error:
        if "synchronizing" not in str(error):
            raise
        return None
    finally:
        torch.cuda.set_sync_debug_mode("default")


def recording(graph: torch.cuda.CUDAGraph, pool: object) -> torch.cuda.graph:
    """The context in which kernels are recorded instead of run."""
    return torch.cuda.graph(graph, pool=pool, capture_error_mode="thread_local")  # pyrefly: ignore
