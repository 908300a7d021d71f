"""What a training would take on another machine: time, memory and money, computed from an estimated step.

docs/design/planning.md has the formulae, and says what is assumed.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

import torch

from octavo.config import Recipe
from octavo.model.base import FLOAT_BYTES, ModelConfig
from octavo.planning.machines import Machine
from octavo.training.estimate import Memory, StepEstimate
from octavo.training.memory import estimated, ways

OVERLAP = 0.8  # of the time in which exchange and computation could overlap, how much they do
USABLE = 0.92  # of a device's memory; the rest is the driver's, and what the allocator loses


@dataclass(frozen=True)
class Seconds:
    """Of one optimizer step.

    Attributes:
        compute: forward and backward passes of all of a device's parts.
        update: the optimizer's.
        exchange: gradients, and weights where they are shared out, between devices.
        waiting: the part of the exchange that computation does not hide.
    """

    compute: float
    update: float
    exchange: float
    waiting: float

    @property
    def step(self) -> float:
        return self.compute + self.update + self.waiting


def part_seconds(step: StepEstimate, machine: Machine, precision: str) -> float:
    """Forward and backward pass over one part: products at the share of the peak, the rest at the memory's bandwidth.

    Starting operations adds to that on a processor; an accelerator starts them while it computes, so the longer counts.
    """
    busy = step.part.flops / (machine.share * machine.flops[precision]) + step.part.moved / machine.bandwidth
    starting = step.part.operations * machine.launch
    return busy + starting if machine.device == "cpu" else max(busy, starting)


def update_seconds(step: StepEstimate, machine: Machine, precision: str, *, shards: int = 1) -> float:
    """The optimizer's update of one device's share."""
    flops = step.update.flops / (machine.share * machine.flops[precision])
    busy = (flops + step.update.moved / machine.bandwidth) / shards
    starting = step.update.operations * machine.launch
    return busy + starting if machine.device == "cpu" else max(busy, starting)


def collective_seconds(size: float, machine: Machine) -> float:
    """One all-gather or reduce-scatter of `size` bytes in a ring: inside the nodes, and a node's share between them.

    An all-reduce is one of each.
    """
    inside = (machine.count - 1) / machine.count * size / machine.link if machine.count > 1 else 0.0
    share = size / machine.count
    between = (machine.nodes - 1) / machine.nodes * share / machine.network if machine.nodes > 1 else 0.0
    return inside + between


def exchange_seconds(weights: float, machine: Machine, parallel: str, *, parts: int) -> float:
    """Of a step: ddp reduces all gradients once; fsdp gathers weights twice and scatters gradients, for every part."""
    collectives = {"none": 0, "ddp": 2, "fsdp": 3 * parts}[parallel]
    return collectives * collective_seconds(weights, machine) if collectives else 0.0


def teaching(teachers: Sequence[ModelConfig], model: ModelConfig, *, vocab_size: int) -> float:
    """What asking a teacher adds to a step's own passes, as a share of these: a forward pass of one of them a step."""
    if not teachers:
        return 0.0
    flops = [teacher.training_flops(vocab_size=vocab_size) / 3 for teacher in teachers]
    return sum(flops) / len(flops) / model.training_flops(vocab_size=vocab_size)


def step_seconds(
    step: StepEstimate, machine: Machine, precision: str, parallel: str, *, parts: int, taught: float = 0.0
) -> Seconds:
    """Of one step in which every device computes `parts` parts; `taught` is what `teaching` says."""
    own = parts * part_seconds(step, machine, precision)
    compute = own * (1 + taught)
    exchange = exchange_seconds(step.memory.weights, machine, parallel, parts=parts)
    together = compute if parallel == "fsdp" else own * 2 / 3 / parts  # ddp: the last part's backward pass
    return Seconds(
        compute=compute,
        update=update_seconds(step, machine, precision, shards=machine.devices if parallel == "fsdp" else 1),
        exchange=exchange,
        waiting=max(0.0, exchange - OVERLAP * together),
    )


def device_memory(memory: Memory, *, parallel: str, devices: int, layers: int) -> Memory:
    """Bytes of one device. fsdp shares weights, gradients and state out; two blocks at a time are whole."""
    if parallel != "fsdp":
        return memory
    whole = 2 * memory.weights // layers
    return replace(
        memory,
        weights=math.ceil(memory.weights / devices) + whole,
        gradients=math.ceil(memory.gradients / devices) + whole,
        optimizer=math.ceil(memory.optimizer / devices),
    )


def parallels(machine: Machine) -> tuple[str, ...]:
    """How a machine's devices can share a training."""
    return ("none",) if machine.devices == 1 else ("ddp", "fsdp")


@dataclass(frozen=True)
class Prediction:
    """What a training would take on a machine.

    Attributes:
        parallel: how its devices share it.
        micro_batch, recompute: sequences at once, and whether activations are computed again.
        memory, logits, room: bytes of one device: what it needs, the logits in that, and what it has.
        utilization: useful operations as a share of the peak.
        hours, price: None where steps are not known.
    """

    machine: str
    parallel: str
    devices: int
    idle_devices: int
    precision: str
    micro_batch: int
    recompute: bool
    fits: bool
    memory: Memory
    logits: int
    room: int
    seconds: Seconds
    tokens_per_second: float
    utilization: float
    hours: float | None
    price: float | None

    def as_dict(self) -> dict[str, Any]:
        """For --json, with the sums."""
        facts = asdict(self)
        memory = {"logits": facts.pop("logits"), "total": self.memory.total, "room": facts.pop("room")}
        facts["memory"] |= memory
        facts["seconds"] |= {"step": self.seconds.step}
        return facts


def predict(
    recipe: Recipe,
    machine: Machine,
    *,
    parallel: str,
    vocab_size: int,
    steps: int | None,
    price: float | None = None,
    teachers: Sequence[ModelConfig] = (),
) -> Prediction:
    """Speed, memory, hours and money. `price` (an hour of one device) goes before the catalogue's."""
    training, model = recipe.training, recipe.model
    precision = machine.precision(training.precision)
    if precision not in machine.flops:  # without such arithmetic: see training/precision.py `times`
        machine = replace(machine, flops=machine.flops | {precision: machine.flops["float32"]})
    sequences = training.batch * training.accumulation
    devices = min(machine.devices, sequences)
    share = math.ceil(sequences / devices)
    rows = math.ceil(share / min(training.accumulation, share))
    settings = training.model_copy(update={"batch": rows, "accumulation": math.ceil(share / rows)})
    room = USABLE * machine.memory
    device = torch.device(machine.device)
    estimate = partial(estimated, recipe, settings, vocab_size=vocab_size, precision=precision, device=device)
    for way in ways(rows, micro_batch=training.micro_batch, recompute=training.recompute):
        step = estimate(way)
        layers = getattr(model, "layers", 1)
        memory = device_memory(step.memory, parallel=parallel, devices=machine.devices, layers=layers)
        if memory.total <= room:
            break
    at_once = min(way.micro_batch or rows, rows)
    work = {"parts": math.ceil(share / at_once), "taught": teaching(teachers, model, vocab_size=vocab_size)}
    seconds = step_seconds(step, machine, precision, parallel, **work)
    hours = None if steps is None else training.teachers.whole(steps) * seconds.step / 3600
    tokens = sequences * recipe.batches.predictions(model.context)
    useful = sequences * model.context * model.training_flops(vocab_size=vocab_size)
    hourly = machine.devices * (machine.price if price is None else price)
    return Prediction(
        machine=machine.name,
        parallel=parallel,
        devices=machine.devices,
        idle_devices=machine.devices - devices,
        precision=precision,
        micro_batch=at_once,
        recompute=way.recompute,
        fits=memory.total <= room,
        memory=memory,
        logits=FLOAT_BYTES * at_once * model.context * vocab_size,
        room=int(room),
        seconds=seconds,
        tokens_per_second=tokens / seconds.step,
        utilization=useful / seconds.step / machine.devices / machine.flops[precision],
        hours=hours,
        price=None if hours is None else hours * hourly,
    )


def predictions(
    recipe: Recipe,
    machines: Iterable[Machine],
    *,
    vocab_size: int,
    steps: int | None,
    price: float | None = None,
    teachers: Sequence[ModelConfig] = (),
) -> list[Prediction]:
    """One for every machine and way in which its devices can share the training."""
    return [
        predict(
            recipe,
            machine,
            parallel=parallel,
            vocab_size=vocab_size,
            steps=steps,
            price=price,
            teachers=teachers,
        )
        for machine in machines
        for parallel in parallels(machine)
    ]
