"""What a training step does with its batches: gradients from them, then the update of the weights. Op by op."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim import AdamW, Optimizer

from octavo.data.batch import Batch
from octavo.model.base import sparse_parameters, trained
from octavo.training.distributed.parallel import ALONE, World, gradients_sent, held, is_part
from octavo.training.graph_gate import Mixing, gate_of, halves_of, overheard
from octavo.training.objective import Model, Objective
from octavo.training.optimizers import Muon
from octavo.util.kernels import native_wanted

LOSS = "loss"
NOT_REPEATABLE = "does not have a deterministic implementation"

TAKE_TENSORS = (AdamW, Muon)
"""Optimizers whose rate may be a tensor, which a recorded step reads anew each time."""


def has_graphs(device: torch.device) -> bool:
    """Whether work on a device can be recorded as a graph, and replayed."""
    return device.type == "cuda"


def records(model: nn.Module, optimizers: Sequence[Optimizer], objective: Objective, world: World) -> bool:
    """Whether a step can be recorded: on one GPU, with nothing in it that is looked up or decided on the processor but
    what a gate learns apart from the network."""
    device = next(model.parameters()).device
    looked_up = bool(sparse_parameters(model))
    known = all(isinstance(optimizer, TAKE_TENSORS) for optimizer in optimizers)
    alone = world.size == 1 and native_wanted()
    return has_graphs(device) and alone and known and objective.recordable and not looked_up


@dataclass(frozen=True)
class StepOptions:
    """How a step is computed.

    Attributes:
        accumulation: batches of a step.
        micro_batch: sequences of a batch at once; None: all of them. The step is the same.
        clip: length to which a longer gradient is shortened; None: it is not.
        autocast: the arithmetic of the forward pass.
        world: the processes that share each batch.
        record: on a GPU, record the step where that can be done, and replay it. The step is the same, to the bit.
    """

    accumulation: int = 1
    micro_batch: int | None = None
    clip: float | None = None
    autocast: Callable[[], AbstractContextManager[Any]] = nullcontext
    world: World = ALONE
    record: bool = True


class GradientStep:
    """The work of one step after the other, on a model and its optimizers.

    On a GPU rates are tensors, as a recorded step needs them, and kernels are such as give the same bits again.
    """

    def __init__(
        self, model: nn.Module, optimizers: Sequence[Optimizer], objective: Objective, options: StepOptions
    ) -> None:
        self.model, self.optimizers, self.objective, self.options = model, optimizers, objective, options
        self.parameters = trained(model.parameters())
        self.device = self.parameters[0].device
        self.groups = [group for optimizer in optimizers for group in optimizer.param_groups]
        self.repeats = has_graphs(self.device)
        alone = options.world.size == 1
        self.gate = gate_of(model) if self.repeats and alone else None
        if self.repeats and alone and all(isinstance(each, TAKE_TENSORS) for each in optimizers):
            for group in self.groups:
                group["lr"] = torch.zeros((), device=self.device)

    def set_rates(self, factor: float) -> None:
        """Let every group learn at so much of its full rate."""
        for group in self.groups:
            if isinstance(group["lr"], Tensor):
                group["lr"].fill_(group["base_lr"] * factor)
            else:
                group["lr"] = group["base_lr"] * factor

    def learn(
        self, parts: Sequence[Batch[np.ndarray]], *, over: float, step: int
    ) -> tuple[float, float, dict[str, float]]:
        """Gradients of the parts' losses, summed and divided by `over`. Returns the loss, the gradient's length and the
        sums of the metrics, over all processes; waits for the device once."""
        try:
            return self.learned(parts, over=over, step=step)
        except RuntimeError as error:
            if not self.repeats or NOT_REPEATABLE not in str(error):
                raise
            operation = str(error).partition(NOT_REPEATABLE)[0].strip()
            warnings.warn(
                f"This training cannot be repeated to the bit on a GPU, for {operation} cannot.", stacklevel=2
            )
        self.repeats = False
        self.forget()
        return self.learned(parts, over=over, step=step)

    def learned(
        self, parts: Sequence[Batch[np.ndarray]], *, over: float, step: int
    ) -> tuple[float, float, dict[str, float]]:
        """The same once."""
        passes, world = [], self.options.world
        whole = torch.full((), over, device=self.device) if has_graphs(self.device) else over
        for number, part in enumerate(parts, start=1):
            with self.repeatably(), gradients_sent(self.model, now=number == len(parts)):
                passes += self.passes_over(part, over=whole, step=step)
        return step_figures(passes, self.parameters, world)

    def passes_over(
        self, part: Batch[np.ndarray], *, over: float | Tensor, step: int
    ) -> list[dict[str, Tensor]]:
        """Add the gradients of a part, in one pass, or where a gate learns apart in two; what each says."""
        halves = None if self.gate is None else halves_of(part)
        if self.gate is None or halves is None:
            return [self.backward(part.to(self.device), over=over, step=step)]
        with overheard(self.gate) as heard:
            passes = [self.backward(halves.network.to(self.device), over=over, step=step)]
        if halves.gate is not None:
            passes.append(self.mixed(*halves.gate, heard[0], over=over, step=step))
        return passes

    def mixed(
        self,
        rows: np.ndarray,
        part: Batch[np.ndarray],
        heard: tuple[Tensor, Tensor],
        *,
        over: float | Tensor,
        step: int,
    ) -> dict[str, Tensor]:
        """Add the gate's gradients, of its rows; what it says. See `training.apart`."""
        assert self.gate is not None
        model = Mixing(self.gate, rows, heard)
        return self.backward(part.to(self.device), over=over, step=step, model=model)

    def repeatably(self) -> AbstractContextManager[None]:
        """On a GPU, as long as that can be done: only kernels that give the same bits again."""
        return repeatable() if self.repeats else nullcontext()

    def forget(self) -> None:
        """Let no gradients be left of a step that is taken again."""
        self.model.zero_grad(set_to_none=True)

    def backward(
        self, part: Batch[Tensor], *, over: float | Tensor, step: int, model: Model | None = None
    ) -> dict[str, Tensor]:
        """Add the gradients of a part's loss; returns what it says, by name, the loss first."""
        with self.options.autocast():
            loss = self.objective.loss(model or self.model, part, step=step)
            mean = loss.total / over
        self.options.world.beat()
        mean.backward()
        reported = mean if loss.reported is None else loss.reported / over
        return {LOSS: reported.detach()} | {name: each.detach() for name, each in loss.metrics.items()}

    def update(self, norm: float) -> None:
        """Move the weights by the gradients, whose length is `norm`, and forget these."""
        clip = self.options.clip
        if clip is not None and norm > clip:
            torch._foreach_mul_(gradients(self.parameters), clip / norm)
        for optimizer in self.optimizers:
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)


def step_figures(
    passes: Sequence[Mapping[str, Tensor]], parameters: Sequence[nn.Parameter], world: World
) -> tuple[float, float, dict[str, float]]:
    """A step's loss, the length of its gradient, and its metrics, over all processes; waits for the device once."""
    tensors = [tensor.reshape(1) for part in passes for tensor in part.values()]
    *values, norm = torch.cat([*tensors, gradient_norm(parameters).reshape(1)]).tolist()
    sums = summed(list(passes[0]), values)
    loss = world.mean(sums.pop(LOSS))
    if any(map(is_part, parameters)):  # each process holds a part of the gradient
        norm = math.sqrt(world.all_reduce(norm * norm)[0])
    return loss, norm, dict(zip(sums, world.all_reduce(*sums.values()), strict=True)) if sums else {}


@contextmanager
def repeatable() -> Iterator[None]:
    """Only kernels that give the same bits again, so that a run that resumes is the same run. Raises RuntimeError with
    NOT_REPEATABLE in it for an operation that has none."""
    before = (
        torch.are_deterministic_algorithms_enabled(),
        torch.is_deterministic_algorithms_warn_only_enabled(),
    )
    memory: Any = torch.utils.deterministic  # its stub lacks the setting
    filled = memory.fill_uninitialized_memory
    torch.use_deterministic_algorithms(True)
    memory.fill_uninitialized_memory = False
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before[0], warn_only=before[1])
        memory.fill_uninitialized_memory = filled


def summed(names: Sequence[str], values: Sequence[float]) -> dict[str, float]:
    """What several parts say, one after the other: as double numbers, in the parts' order."""
    sums = dict.fromkeys(names, 0.0)
    for number, value in enumerate(values):
        sums[names[number % len(names)]] += value
    return sums


def gradients(parameters: Sequence[nn.Parameter]) -> list[Tensor]:
    """The numbers of all gradients that this process holds; of a sparse one each row once."""
    listed = []
    for parameter in parameters:
        if parameter.grad is None:
            continue
        if parameter.grad.is_sparse:
            parameter.grad = parameter.grad.coalesce()
            listed.append(parameter.grad.values())
        else:
            listed.append(held(parameter.grad))
    return listed


def gradient_norm(parameters: Sequence[nn.Parameter]) -> Tensor:
    """Euclidean length of all gradients that this process holds."""
    return torch.stack(torch._foreach_norm(gradients(parameters))).norm()
