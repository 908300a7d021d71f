"""What the processes of one training do together: one speaks, one prepares the text, all keep what was decided."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from octavo.config import Recipe
from octavo.dataset import Dataset, open_dataset
from octavo.errors import CorpusError
from octavo.ground.console import Console
from octavo.runs.data import build_dataset
from octavo.tokenizers import Tokenizer
from octavo.training.world import World


def heard(console: Console, world: World) -> Console:
    """The console of a process. Only the first of several processes speaks."""
    return console if world.first else Console(quiet=True)


def gather(world: World, recipe: Recipe, console: Console) -> None:
    """Connect the processes that train the recipe. Raises ConfigError if it does not suit them."""
    parallel = recipe.parallel
    world.admit(parallel.kind, recipe.training.batch)
    if world.size > 1:
        machines = world.meet(parallel.timeout)
        console.say(
            f"parallel={parallel.kind}: {world.size} processes on {machines} machine{'s' * (machines > 1)}, "
            f"{recipe.training.batch // world.size} of a batch's {recipe.training.batch} sequences each"
        )
    elif parallel.kind != "none":
        console.say(f"parallel={parallel.kind} with one process: torchrun starts several")


def prepared(recipe: Recipe, console: Console, world: World, tokenizer: Tokenizer | None = None) -> Dataset:
    """The dataset (see `build_dataset`); of several processes the first one makes it, and the others open it."""
    if world.first:
        with world.apart("busy", "the text"):
            dataset = build_dataset(recipe, console, tokenizer)
        world.broadcast(str(dataset.folder.absolute()))
        return dataset
    folder = Path(world.broadcast(None))
    here = folder.is_dir()  # or in the cache of another machine
    dataset = open_dataset(folder) if here else build_dataset(recipe, console, tokenizer)
    if dataset.folder.name != folder.name:
        raise CorpusError(
            f"Rank {world.rank} found another text than rank 0.", remedy="give all machines the same"
        )
    return dataset


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
