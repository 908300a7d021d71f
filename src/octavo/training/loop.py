"""The training loop: a generator that takes one optimizer step and tells about it, nothing else.

Everything random in a step follows from (seed, step), so a run that stops after any step and resumes is the same run.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from octavo.dataset.batch import Batch
from octavo.errors import DivergedError
from octavo.model.kind import trained
from octavo.training.objective import NEXT_TOKEN, Objective
from octavo.training.parallel import gradients_sent
from octavo.training.sharding import held, is_part
from octavo.training.world import ALONE, World

LOSS = "loss"

DIVERGED_REMEDY = (
    "start a new run with a third of training.optimizer.learning_rate, or a longer training.schedule.warmup"
)


@dataclass(frozen=True)
class StepInfo:
    """What one step did. `step` counts finished steps: the first is 1."""

    step: int
    loss: float  # in the objective's unit, before the update
    gradient_norm: float  # before clipping
    learning_rate: float
    tokens: int  # scored in this step
    metrics: Mapping[str, float] = field(default_factory=dict)  # the objective's own


@dataclass(frozen=True)
class StepOptions:
    """How a step is computed.

    Attributes:
        accumulation: batches of a step.
        micro_batch: sequences of a batch at once; None: all of them. The step is the same.
        clip: length to which a longer gradient is shortened; None: it is not.
        autocast: the arithmetic of the forward pass.
        world: the processes that share each batch.
    """

    accumulation: int = 1
    micro_batch: int | None = None
    clip: float | None = None
    autocast: Callable[[], AbstractContextManager[Any]] = nullcontext
    world: World = ALONE


def training_steps(
    model: nn.Module,
    optimizers: Sequence[Optimizer],
    batch: Callable[[int, int], Batch[np.ndarray]],
    *,
    steps: Iterable[int],
    seed: int,
    schedule: Callable[[int], float],
    objective: Objective = NEXT_TOKEN,
    options: StepOptions = StepOptions(),
) -> Iterator[StepInfo]:
    """Train through `steps`, counted from 0, yielding after every update.

    `batch(step, micro)` gives the batch of all processes of the world together; each takes its rows of it. The device
    is waited for once a step. Raises DivergedError, before any weight is touched, when the loss or a gradient is not
    finite.
    """
    parameters = trained(model.parameters())
    device, world = parameters[0].device, options.world
    for step in steps:
        world.beat(f"step {step + 1}")
        seed_dropout(device, _mix(seed, step) + world.rank)
        factor = schedule(step)
        for optimizer in optimizers:
            for group in optimizer.param_groups:
                group["lr"] = group["base_lr"] * factor
        model.train()
        batches = [batch(step, micro) for micro in range(options.accumulation)]
        tokens = sum(whole.scored for whole in batches)
        weight = sum(whole.weight for whole in batches)  # of the whole step, whichever part a token stands in
        parts = [part for whole in batches for part in world.shard(whole).parts(options.micro_batch)]
        found = []
        for number, part in enumerate(parts, start=1):
            here = part.to(device)
            with gradients_sent(model, now=number == len(parts)):
                with options.autocast():
                    loss = objective.loss(model, here, step=step)
                    mean = loss.total / (weight / world.size)
                world.beat()
                mean.backward()
            said = mean if loss.reported is None else loss.reported / (weight / world.size)
            found.append({LOSS: said.detach()} | {name: each.detach() for name, each in loss.metrics.items()})
        loss, norm, metrics = told(found, parameters, world)
        if not (math.isfinite(loss) and math.isfinite(norm)):
            raise diverged(step, loss, norm, factor)
        if options.clip is not None and norm > options.clip:
            torch._foreach_mul_(gradients(parameters), options.clip / norm)
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        rate = optimizers[0].param_groups[0]["lr"]
        means = {name: total / tokens for name, total in metrics.items()}
        yield StepInfo(step + 1, loss, norm, learning_rate=rate, tokens=tokens, metrics=means)


def told(
    found: Sequence[Mapping[str, Tensor]], parameters: Sequence[nn.Parameter], world: World
) -> tuple[float, float, dict[str, float]]:
    """A step's loss, the length of its gradient, and its metrics, over all processes; waits for the device once."""
    tensors = [tensor.reshape(1) for part in found for tensor in part.values()]
    *values, norm = torch.cat([*tensors, gradient_norm(parameters).reshape(1)]).tolist()
    sums = dict.fromkeys(found[0], 0.0)
    for name, value in zip((name for part in found for name in part), values, strict=True):
        sums[name] += value  # as double numbers, in the parts' order
    loss = world.mean(sums.pop(LOSS))
    if any(map(is_part, parameters)):  # each process holds a part of the gradient
        norm = math.sqrt(world.all_reduce(norm * norm)[0])
    return loss, norm, dict(zip(sums, world.all_reduce(*sums.values()), strict=True)) if sums else {}


def seed_dropout(device: torch.device, seed: int) -> None:
    """Set the generator that dropout draws from. (`torch.manual_seed` sets every device's, much slower.)"""
    if device.type == "cpu":
        torch.default_generator.manual_seed(seed)
    else:
        torch.manual_seed(seed)


def gradients(parameters: Sequence[nn.Parameter]) -> list[Tensor]:
    """The numbers of all gradients that this process holds; of a sparse one each row once."""
    found = []
    for parameter in parameters:
        if parameter.grad is None:
            continue
        if parameter.grad.is_sparse:
            parameter.grad = parameter.grad.coalesce()
            found.append(parameter.grad.values())
        else:
            found.append(held(parameter.grad))
    return found


def gradient_norm(parameters: Sequence[nn.Parameter]) -> Tensor:
    """Euclidean length of all gradients that this process holds."""
    return torch.stack(torch._foreach_norm(gradients(parameters))).norm()


def diverged(step: int, loss: float, norm: float, factor: float) -> DivergedError:
    """The error for a step whose loss or gradient is not a finite number."""
    what = f"the loss is {loss}"
    if math.isfinite(loss):
        what = f"the gradient's length is {norm} (the loss is {loss:.4g})"
    why = f"{what}, on batch {step} at {factor:.3g} of the full learning rate"
    return DivergedError(step + 1, why, remedy=DIVERGED_REMEDY)


def _mix(seed: int, step: int) -> int:
    """One 64-bit seed from two numbers (splitmix64's finalizer), so that neighbouring steps share nothing."""
    z = (seed * 0x9E3779B97F4A7C15 + step + 1) & 0xFFFFFFFFFFFFFFFF
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & 0xFFFFFFFFFFFFFFFF
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & 0xFFFFFFFFFFFFFFFF
    return (z ^ (z >> 31)) >> 1
