"""The training loop: a generator that takes one optimizer step and tells about it, nothing else.

Everything random in a step follows from (seed, step), so a run that stops after any step and resumes is the same run.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import nn
from torch.optim import Optimizer

from octavo.data.batch import Batch
from octavo.errors import DivergedError
from octavo.model.base import trained
from octavo.training.objective import NEXT_TOKEN, Objective
from octavo.training.step import GradientStep, StepOptions, records

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
    kind: type[GradientStep] = GradientStep
    if options.record and records(model, optimizers, objective, world):
        from octavo.training.cuda_graph import Recorded

        kind = Recorded
    work = kind(model, optimizers, objective, options)
    for step in steps:
        world.beat(f"step {step + 1}")
        seed_dropout(device, _mix(seed, step) + world.rank)
        factor = schedule(step)
        work.set_rates(factor)
        model.train()
        batches = [batch(step, micro) for micro in range(options.accumulation)]
        tokens = sum(whole.scored for whole in batches)
        weight = sum(whole.weight for whole in batches)  # of the whole step, whichever part a token stands in
        parts = [part for whole in batches for part in world.shard(whole).parts(options.micro_batch)]
        loss, norm, metrics = work.learn(parts, over=weight / world.size, step=step)
        if not (math.isfinite(loss) and math.isfinite(norm)):
            raise diverged(step, loss, norm, factor)
        work.update(norm)
        rate = optimizers[0].param_groups[0]["base_lr"] * factor
        means = {name: total / tokens for name, total in metrics.items()}
        yield StepInfo(step + 1, loss, norm, learning_rate=rate, tokens=tokens, metrics=means)


def seed_dropout(device: torch.device, seed: int) -> None:
    """Set the generator that dropout draws from. (`torch.manual_seed` sets every device's, much slower.)"""
    if device.type == "cpu":
        torch.default_generator.manual_seed(seed)
    elif device.type == "cuda":
        torch.cuda.default_generators[device.index or 0].manual_seed(seed)
    else:
        torch.manual_seed(seed)


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
