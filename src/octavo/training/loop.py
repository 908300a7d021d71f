"""The training loop: a generator that takes one optimizer step and tells about it, nothing else.

Everything random in a step follows from (seed, step), so a run that stops after any step and goes on is the same run.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.optim import Optimizer

from octavo.dataset.batch import Batch
from octavo.errors import DivergedError
from octavo.training.objective import logits_of
from octavo.training.parallel import gradients_sent
from octavo.training.sharding import held, is_part
from octavo.training.teaching import Lesson, Teachers
from octavo.training.world import ALONE, World

DIVERGED_REMEDY = (
    "start a new run with a third of training.optimizer.learning_rate, or a longer training.schedule.warmup"
)


@dataclass(frozen=True)
class StepInfo:
    """What one step did. `step` counts finished steps: the first is 1."""

    step: int
    loss: float  # nats per token, before the update
    gradient_norm: float  # before clipping
    learning_rate: float
    tokens: int  # scored in this step


def loss_of(model: nn.Module, batch: Batch[Tensor], *, scored: float, lesson: Lesson | None = None) -> Tensor:
    """Cross-entropy (nats) summed over the targets that are not −1, each with its weight, divided by `scored`.

    Of a `lesson` its share: that much is cross-entropy with what the teacher predicts instead.
    """
    logits = logits_of(model, batch)  # (B, T, V)
    logits = logits.to(torch.promote_types(logits.dtype, torch.float32)).flatten(0, 1)
    targets, weights = batch.targets.flatten(), None if batch.weights is None else batch.weights.flatten()
    if weights is None:
        nats = F.cross_entropy(logits, targets, ignore_index=-1, reduction="sum")
    else:
        nats = (F.cross_entropy(logits, targets, ignore_index=-1, reduction="none") * weights).sum()
    if lesson is not None:
        taught = F.cross_entropy(logits, lesson.predicted.flatten(0, 1), reduction="none")
        counted = targets >= 0 if weights is None else weights * (targets >= 0)
        nats = torch.lerp(nats, (taught * counted).sum(), lesson.weight)
    return nats / scored


def training_steps(
    model: nn.Module,
    optimizers: Sequence[Optimizer],
    batch: Callable[[int, int], Batch[np.ndarray]],
    *,
    schedule: Callable[[int], float],
    seed: int,
    start: int,
    steps: int,
    accumulation: int = 1,
    micro_batch: int | None = None,
    clip: float | None = None,
    autocast: Callable[[], AbstractContextManager[Any]] = nullcontext,
    teachers: Teachers | None = None,
    world: World = ALONE,
) -> Iterator[StepInfo]:
    """Train from finished step `start` to `steps`, yielding after every update.

    `batch(step, micro)` gives the batch of all processes of the `world` together; each takes its rows of it, and
    computes `micro_batch` of these at once. With `teachers` it learns from these too. Raises DivergedError, before any
    weight is touched, when the loss or a gradient is not finite.
    """
    parameters = [p for p in model.parameters() if p.requires_grad]
    device = parameters[0].device
    for step in range(start, steps):
        world.beat(f"step {step + 1}")
        seed_dropout(device, _mix(seed, step) + world.rank)
        factor = schedule(step)
        for optimizer in optimizers:
            for group in optimizer.param_groups:
                group["lr"] = group["base_lr"] * factor
        model.train()
        batches = [batch(step, micro) for micro in range(accumulation)]
        tokens = sum(whole.scored for whole in batches)
        weight = sum(
            whole.weight for whole in batches
        )  # of the step: in which part a token stands is nothing to it
        parts = [part for whole in batches for part in world.share(whole).parts(micro_batch)]
        loss = 0.0
        for number, part in enumerate(parts, start=1):
            here = part.to(device)
            with gradients_sent(model, now=number == len(parts)):
                with autocast():
                    lesson = teachers.lesson(step, here) if teachers else None
                    part_loss = loss_of(model, here, scored=weight / world.size, lesson=lesson)
                world.beat()
                part_loss.backward()
            loss += part_loss.item()
        loss = world.mean(loss)
        norm = gradient_norm(parameters, world)
        if not (math.isfinite(loss) and math.isfinite(norm)):
            raise diverged(step, loss, norm, factor)
        if clip is not None and norm > clip:
            torch._foreach_mul_(gradients(parameters), clip / norm)
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        rate = optimizers[0].param_groups[0]["lr"]
        yield StepInfo(step=step + 1, loss=loss, gradient_norm=norm, learning_rate=rate, tokens=tokens)


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


def gradient_norm(parameters: Sequence[nn.Parameter], world: World = ALONE) -> float:
    """Euclidean length of all gradients together, over all processes that hold a part of them."""
    norm = torch.stack(torch._foreach_norm(gradients(parameters))).norm().item()
    return math.sqrt(world.sums(norm * norm)[0]) if any(map(is_part, parameters)) else norm


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
