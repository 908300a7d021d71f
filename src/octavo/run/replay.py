"""A run repeated from its folder alone, and what differs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from octavo.config import stored_recipe
from octavo.evaluation.stored import Manifest
from octavo.run.folder import RunFolder, State
from octavo.run.run import Run
from octavo.run.train import train_in
from octavo.training.checkpoint_folder import follow
from octavo.training.device import changes_in_words
from octavo.training.distributed.parallel import ALONE
from octavo.util.files import file_hash
from octavo.util.records import read_record
from octavo.util.runs import free_name
from octavo.util.terminal import Console


def replay(
    run: str | Path, out: str | Path | None = None, *, quiet: bool = False, console: Console | None = None
) -> tuple[Run, list[str]]:
    """Repeat a run from its folder alone, in one process.

    Returns the new run and what differs; nothing means equal, bit for bit.
    """
    console = console or Console.in_python(quiet=quiet)
    first = RunFolder.open(Path(run))
    recipe = stored_recipe(first.config)
    before = read_record(first.manifest, Manifest, of="the run")
    default = free_name(f"{first.path.name}-replay", first.path.parent)
    folder = RunFolder.create(default if out is None else Path(out))
    with folder.lock():
        pinned = recipe.model_copy(
            update={"training": recipe.training.model_copy(update=dict(before["runtime"]))}
        )
        try:
            second = train_in(folder, pinned, console, ALONE, replay_of=first)
        except BaseException:
            if not folder.begun:  # nothing was trained, so the mended command can use the name
                folder.made.take_back()
            raise
    return second, differences(first, folder, before, read_record(folder.manifest, Manifest, of="the run"))


def differences(
    first: RunFolder, second: RunFolder, before: dict[str, Any], after: dict[str, Any]
) -> list[str]:
    """Sentences on what a repetition did not reproduce, with the likely reasons after them."""
    differing = []
    for link in ("last", "best"):
        targets = [follow(folder.path / link) for folder in (first, second)]
        hashes = [target and file_hash(target.folder / "model.safetensors") for target in targets]
        if hashes[0] != hashes[1]:
            differing.append(f"the weights of '{link}' differ")
    losses = [[(row["step"], row["loss"]) for row in folder.rows()] for folder in (first, second)]
    if losses[0] != losses[1]:
        pairs = zip(*losses, strict=False)
        where = next((one[0] for one, two in pairs if one != two), "the number of rows")
        differing.append(f"the losses differ (first at step {where})")
    if differing:
        for folder in (first, second):
            newest = follow(folder.last)
            if newest and (changes := newest.state(State).get("thread_changes")):
                differing.append(
                    f"a reason may be that {folder.path} went on with {changes_in_words(changes)}"
                )
        for key in ("octavo", "code", "parts", "versions", "machine", "runtime", "processes"):
            if before.get(key) != after.get(key):
                differing.append(
                    f"a reason may be that '{key}' was {before.get(key)} and is {after.get(key)}"
                )
    return differing
