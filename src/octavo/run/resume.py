"""Where a run goes on from: the newest whole checkpoint, and the metrics up to it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from octavo.errors import CheckpointError
from octavo.run.folder import RunFolder
from octavo.run.progress import Progress
from octavo.training.checkpoint import Checkpoint
from octavo.training.checkpoint_folder import (
    CheckpointFolder,
    follow,
    list_checkpoints,
    newest_whole,
    point,
    sweep,
)
from octavo.training.distributed.world import World
from octavo.util.console import Console
from octavo.util.files import drop_asides, put_away, replace_text, storage_errors
from octavo.util.records import json_text


def source_of(folder: RunFolder, console: Console, world: World) -> Checkpoint | None:
    """The checkpoint to resume from, which the first process finds for all."""
    found = checkpoint_to_go_on_from(folder, console) if world.first else None
    place = world.broadcast(found and str(found.folder))
    return Checkpoint(Path(place)) if place else None


def checkpoint_to_go_on_from(folder: RunFolder, console: Console) -> CheckpointFolder | None:
    """The newest whole checkpoint; damaged newer ones are named and set aside, so that they can be written again.

    Raises CheckpointError when there are checkpoints and none is whole.
    """
    sweep(folder.checkpoints)
    for place in (folder.path, folder.samples):
        drop_asides(place)
    checkpoint, complaints = newest_whole(folder.checkpoints)
    for complaint in complaints:
        console.say(f"damaged: {complaint}")
    if checkpoint is None:
        if complaints:
            raise CheckpointError(
                f"No checkpoint of {folder.path} is whole.", remedy="start a new run with another --out"
            )
        return None
    for damaged in list_checkpoints(folder.checkpoints):
        if damaged.step > checkpoint.step:
            with storage_errors(folder.checkpoints):
                kept = put_away(damaged.folder, "damaged")
            console.say(f"{damaged.folder.name} is kept as {kept.name}")
    console.say(f"resuming after step {checkpoint.step}")
    point(folder.last, checkpoint)
    best = folder.checkpoints / f"step-{Progress.of(checkpoint).best_step:06d}"
    if best.is_dir():
        point(folder.best, CheckpointFolder(best))
    return checkpoint


def followed(like: RunFolder) -> Progress:
    """How far a run came, and how it changed its number of steps on its way."""
    newest = follow(like.last)
    return Progress() if newest is None else Progress.of(newest)


def keep_rows(folder: RunFolder, step: int) -> None:
    """Drop the metrics of steps after `step`: these steps are done again."""
    rows = [row for row in folder.rows() if row["step"] <= step]
    if folder.metrics.is_file():
        replace_text(folder.metrics, "".join(json_text(row) + "\n" for row in rows))


def ends_before(planned: int, pace: Sequence[Sequence[float]]) -> set[int]:
    """The steps at which a run of so many `planned` steps had ended before it got more: there it did what is done at an
    end. `pace`: its changes, see `training.pace`."""
    found, total = set(), float(planned)
    for since, until, _ in pace:
        if since == total:
            found.add(int(since))
        total = until
    return found
