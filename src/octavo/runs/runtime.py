"""Where and how a run computes: device, threads, precision, and how much of a batch at once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from octavo.config import Recipe
from octavo.dataset.batches import Batches
from octavo.errors import ConfigError
from octavo.ground.console import Console
from octavo.model.kind import LanguageModel
from octavo.runs.precision import precision_here
from octavo.training.fitting import Fit, attempted, open_ways, try_out
from octavo.training.recompute import recompute_blocks
from octavo.training.runtime import (
    Runtime,
    accelerator,
    choose_device,
    choose_threads,
    keep_memory,
    set_threads,
)
from octavo.training.world import ALONE, World


def choose_runtime(
    recipe: Recipe,
    model: LanguageModel,
    batches: Batches,
    console: Console,
    decided: Mapping[str, Any] | None = None,
    world: World = ALONE,
) -> Runtime:
    """Where and how to compute. What an earlier session of the same run `decided` is kept."""
    decided = decided or {}
    training = recipe.training
    most, asked = torch.get_num_threads(), training.threads or decided.get("threads")
    threads = set_threads(asked)
    keep_memory()
    if decided.get("threads") not in (None, threads):
        console.say(
            f"the run began with {decided['threads']} threads, now {threads}: results may differ in the last bits"
        )
    first = batches.batch(0, 0).to("cpu")
    if wrong := recipe.unread(name for name, _ in first.items()):
        raise ConfigError(f"{wrong[:1].upper()}{wrong[1:]}.")
    small = first.corner(2, 64)
    wanted = decided.get("device", "auto") if training.device == "auto" else training.device
    if wanted == "auto":
        wanted = accelerator() or "cpu"
    objective = recipe.objective.build()
    device = choose_device(world.place(wanted), model, small, console.say, objective=objective)
    if decided and device.type != decided["device"].partition(":")[0]:
        console.say(
            f"the run began on {decided['device']}, now {device}: results will differ in the last bits"
        )
    world.connect(device)
    if world.size == 1:
        threads = choose_threads(asked, model, first, device, console.say, objective=objective)
    rows = -(-training.batch // world.size)
    training = training.model_copy(update={"batch": rows})  # of this process

    def attempt(way: Fit) -> Runtime:
        if way.recompute:
            recompute_blocks(model)
        probe = first.rows_at(slice(min(way.micro_batch or rows, rows)))
        wanted = decided.get("precision", training.precision)
        precision = precision_here(wanted, recipe, model, probe, device, console, objective=objective)
        runtime = Runtime(device, precision, threads, way.micro_batch, way.recompute, world, most)
        if device.type == "cuda" and len(left) > 1:
            try_out(model, training, probe, runtime, objective=objective)
        if training.compile is True:
            refuse_to_compile(runtime)
        return runtime

    if not world.first:
        precision, micro_batch, recompute = world.broadcast(None)
        if recompute:
            recompute_blocks(model)
        return Runtime(device, precision, threads, micro_batch, recompute, world)
    left = open_ways(model, recipe, training, decided=decided, device=device, report=console.say)
    runtime = attempted(left, attempt, console.say)
    world.broadcast([runtime.precision, runtime.micro_batch, runtime.recompute])
    return runtime


def refuse_to_compile(runtime: Runtime) -> None:
    """Raise ConfigError if torch cannot compile the run."""
    if (runtime.recompute, runtime.device.type, runtime.precision) == (True, "cpu", "bfloat16"):
        raise ConfigError(
            "torch cannot compile blocks that recompute in bfloat16 on a CPU.",
            remedy="training.compile=false, or training.precision=float32",
        )
