"""Where and how a run computes: device, threads, precision, and how much of a batch at once."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch
from torch import nn

import octavo
from octavo.config import Recipe
from octavo.data.batch import Batch
from octavo.data.batches import Batches
from octavo.errors import CheckpointError, ConfigError, OctavoError
from octavo.model.base import LanguageModel
from octavo.run.manifest import machine
from octavo.training.device import (
    Runtime,
    Watch,
    accelerator,
    choose_device,
    choose_precision,
    choose_threads,
    fast_bfloat16,
    keep_memory,
    set_threads,
)
from octavo.training.distributed.parallel import ALONE, World
from octavo.training.memory import Fit, attempted, open_ways, try_out
from octavo.training.objective import Objective
from octavo.training.recompute import recompute_blocks
from octavo.util.files import default_cache, replace_text
from octavo.util.records import Record, json_text, read_record
from octavo.util.terminal import Console


def choose_runtime(
    recipe: Recipe,
    objective: Objective,
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


def decisions(earlier: Mapping[str, Any] | None, world: World, console: Console) -> dict[str, Any]:
    """What the run's first session decided about device, precision and threads, if it holds for this world."""
    if earlier is None:
        return {}
    before = earlier.get("processes", 1)
    if before == world.size:
        return earlier["runtime"]
    console.say(
        f"number of processes: {before} when the run began, {world.size} now; results may differ in the last bits"
    )
    return {key: value for key, value in earlier["runtime"].items() if key != "threads"}


REMEMBERED = 24 * 3600.0
"""Seconds that a timed precision is remembered, for timing it takes half a second of a start: what else a machine does,
and what is installed on it, changes."""


class Faster(Record):
    """The precision that was faster."""

    precision: str


def precision_here(
    wanted: str,
    recipe: Recipe,
    model: nn.Module,
    probe: Batch[torch.Tensor],
    device: torch.device,
    console: Console,
    *,
    objective: Objective,
) -> str:
    """As `choose_precision`, but what was timed here within a day, of such a model and batch, is taken again. What was
    timed while others used the cores is not remembered.
    """
    timed = wanted == "auto" and fast_bfloat16(device)
    if not timed:
        return choose_precision(wanted, model, probe, device, console.say, objective=objective)
    path = _place(recipe, model, probe, device)
    if (known := _remembered(path)) is not None:
        console.say(f"precision: {known} (timed here before)")
        return known
    watch = Watch()
    precision = choose_precision(wanted, model, probe, device, console.say, objective=objective)
    if device.type == "cpu" and not watch.ours(torch.get_num_threads()):
        return precision
    with suppress(OSError, OctavoError):  # a cache is not worth failing for
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_text(path, json_text({"precision": precision}))
    return precision


def _remembered(path: Path) -> str | None:
    try:
        fresh = 0 <= time.time() - path.stat().st_mtime < REMEMBERED
        known = read_record(path, Faster)["precision"] if fresh else None
    except (OSError, CheckpointError):
        return None
    return known if known in ("float32", "bfloat16") else None


def _place(recipe: Recipe, model: nn.Module, probe: Batch[torch.Tensor], device: torch.device) -> Path:
    """A file for all that the choice depends on: code, machine, model and the shape of its batches."""
    sizes = {name: list(weight.shape) for name, weight in model.named_parameters()}
    asked = recipe.model_dump(mode="json", include={"model", "objective"})
    here = [octavo.__version__, torch.__version__, machine(), torch.get_num_threads(), str(device)]
    key = json_text([here, asked, sizes, list(probe.inputs.shape)], sort_keys=True)
    return default_cache() / "precision" / f"{hashlib.sha256(key.encode()).hexdigest()[:16]}.json"
