"""The precision that is faster here, timed once and remembered for a day: timing it takes half a second of a start."""

from __future__ import annotations

import hashlib
import time
from contextlib import suppress
from pathlib import Path

import torch
from torch import nn

import octavo
from octavo.config import Recipe
from octavo.data.batch import Batch
from octavo.errors import CheckpointError, OctavoError
from octavo.run.manifest import machine
from octavo.training.device import choose_precision
from octavo.training.objective import Objective
from octavo.training.precision import fast_bfloat16
from octavo.training.threads import Watch
from octavo.util.cache import default_cache
from octavo.util.console import Console
from octavo.util.files import replace_text
from octavo.util.records import Record, json_text, read_record

REMEMBERED = 24 * 3600.0
"""Seconds: what else a machine does, and what is installed on it, changes."""


class Faster(Record):
    """What is remembered."""

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
    found = choose_precision(wanted, model, probe, device, console.say, objective=objective)
    if device.type == "cpu" and not watch.ours(torch.get_num_threads()):
        return found
    with suppress(OSError, OctavoError):  # a cache is not worth failing for
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_text(path, json_text({"precision": found}))
    return found


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
