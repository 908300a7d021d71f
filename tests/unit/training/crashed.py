"""A recorded run, and the judge of what a crash leaves of it."""

from __future__ import annotations

import ast
import json
import os
import random
import shutil
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

import octavo
from octavo.errors import OctavoError
from octavo.run.folder import Progress, RunFolder, checkpoint_to_go_on_from, keep_rows
from octavo.run.trainer import Trainer
from octavo.training import checkpoint_folder
from octavo.training.checkpoint_folder import follow, list_checkpoints
from octavo.util.terminal import Console
from unit.training.crash import Disk, Event, Reached, Recorder, Synced, Tree, key, materialise, site
from unit.training.saving import contents

RECIPE: dict[str, Any] = {
    "tokenizer": "char",
    "model": {"layers": 1, "width": 8, "heads": 1, "context": 8, "dropout": 0.1},
    "training": {
        "batch": 2,
        "steps": 8,
        "checkpoint_every": 2,
        "keep": 1,
        "precision": "float32",
        "device": "cpu",
        "threads": 1,
        "optimizer": {"kind": "adamw", "learning_rate": 0.01},
    },
    "evaluation": {"every": 2},
    "sampling": {"every": 100, "tokens": 5},
    "logging": {"every": 1},
}
TEXT = "the cat sat on the mat and saw the rat; " * 12
UNREAD = ("log.txt", ".lock", "samples")  # nothing that goes on depends on them
KILLED = 6
"""The step whose save is broken off once."""

TIMES = ("seconds", "tokens_per_second")


@dataclass
class Recording:
    """A run with everything that it did to its folder, until its last save; `saved`: the files of each checkpoint.

    `whole` and `rows`: the same run, never stopped.
    """

    recorder: Recorder
    text: Path
    whole: Path
    saved: dict[int, dict[str, bytes]]
    rows: list[dict[str, Any]]
    config: str


def record(work: Path) -> Recording:
    """Train in a folder, and write down what happens to it: a session that is killed while it saves, and one more."""
    text, root = work / "text.txt", work / "disk"
    text.write_text(TEXT, encoding="utf-8")
    root.mkdir()
    recorder = Recorder(root, unread=UNREAD)
    saved: dict[int, dict[str, bytes]] = {}
    run, write = Trainer.fit, Trainer.write_checkpoint
    killed = mock.patch.object(
        checkpoint_folder, "seal", side_effect=KeyboardInterrupt
    )  # all but the manifest is there

    def written(trainer: Trainer, *arguments: Any) -> None:
        step = trainer.progress.step
        with killed if step == KILLED and trainer.earlier == 0 else nullcontext():
            write(trainer, *arguments)
        recorder.reached(step)
        saved[step] = contents(trainer.folder.checkpoints / f"step-{step:06d}")

    def trained(trainer: Trainer) -> None:
        run(trainer)
        watching.__exit__(None, None, None)

    with mock.patch.object(Trainer, "write_checkpoint", written), mock.patch.object(Trainer, "fit", trained):
        watching = recorder.recording()
        watching.__enter__()
        with pytest.raises(KeyboardInterrupt):
            octavo.train(RECIPE, text, root / "run", console=Console(quiet=True))
        octavo.train(RECIPE, text, root / "run", resume=True, console=Console(quiet=True))
    whole = octavo.train(RECIPE, text, work / "whole", console=Console(quiet=True))
    config = (root / "run" / "config.yaml").read_text(encoding="utf-8")
    return Recording(recorder, text, work / "whole", saved, timeless(whole.metrics), config)


def timeless(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows without what the clock says."""
    return [{name: row[name] for name in row if name not in TIMES} for row in rows]


def states(
    recording: Recording, seen: set[Any], *, without: str = "", drawn: int = 3
) -> Iterator[tuple[Event, int, Tree]]:
    """Every state that is not `seen` yet: the event that the crash came after, the last step saved by then, the tree.

    The fsyncs of the line `without` are taken not to have happened. What is written aside counts by its names alone:
    it is removed, never read.
    """
    draw, disk, reached = random.Random(0), Disk(recording.recorder), 0
    for event in recording.recorder.events:
        if isinstance(event, Synced) and event.site == without:
            continue
        if isinstance(event, Reached):
            reached = event.step
        disk.take(event)
        for tree in disk.states(draw, drawn=drawn):
            same = (reached, key(tree, by_name=".tmp-"))
            if same not in seen:
                seen.add(same)
                yield event, reached, tree


def problem(recording: Recording, reached: int, tree: Tree, root: Path) -> str | None:
    """What is wrong with a state, as a run that goes on finds it; None where nothing is. `root` is empty after it."""
    root.mkdir()
    try:
        materialise(tree, root)
        with mock.patch.object(os, "fsync"):  # nobody pulls the plug while we look
            return _problem(recording, reached, RunFolder(root / "run"))
    except OctavoError as error:
        return f"{type(error).__name__}: {error.what}"
    finally:
        shutil.rmtree(root)


def _problem(recording: Recording, reached: int, folder: RunFolder) -> str | None:
    if not folder.config.is_file():
        return f"step {reached} was saved, and there is no run" if reached else None
    if folder.config.read_text(encoding="utf-8") != recording.config:
        return "the recipe is not what it was"
    if folder.made_by() is None and reached:
        return "the manifest is gone"
    for each in list_checkpoints(folder.checkpoints):
        each.verify()
        if contents(each.folder) != recording.saved[each.step]:
            return f"step {each.step} is not what was saved"
    for link in (folder.best, folder.last):
        led = follow(link)
        if led is None and reached:
            return f"{link.name} leads nowhere"
        if led is not None:
            led.verify()
    last, best = follow(folder.last), follow(folder.best)
    if reached and last is not None and last.step < reached:
        return f"last leads to step {last.step}, and {reached} was saved"
    found = checkpoint_to_go_on_from(folder, Console(quiet=True))
    if found is None:
        return f"step {reached} was saved, and no checkpoint is found" if reached else None
    if found.step < reached:
        return f"step {reached} was saved, and {found.step} is found"
    if best is not None and reached and best.step < best_of(recording, reached):
        return f"best leads to step {best.step}"
    best = follow(folder.best)
    if best is None or best.step != Progress.of(found).best_step:
        return "best does not lead to the best"
    keep_rows(folder, found.step)
    if timeless(folder.rows()) != [row for row in recording.rows if row["step"] <= found.step]:
        return f"rows until step {found.step} are missing"
    return None


def best_of(recording: Recording, step: int) -> int:
    """The best step until then."""
    return int(json.loads(recording.saved[step]["state.json"])["best_step"])


def resumed(recording: Recording, tree: Tree, root: Path) -> str | None:
    """What differs from the run that was never stopped, when the state is gone on with to the end."""
    root.mkdir()
    try:
        materialise(tree, root)
        out = root / "run"
        run = octavo.train(
            RECIPE, recording.text, out, resume=(out / "config.yaml").is_file(), console=Console(quiet=True)
        )
        if timeless(run.metrics) != recording.rows:
            return "other rows"
        for name in ("last", "best"):
            ours, theirs = ((folder / name).resolve() for folder in (out, recording.whole))
            for file in ("model.safetensors", "state.safetensors"):
                if (ours / file).read_bytes() != (theirs / file).read_bytes():
                    return f"other bits in {name}/{file}"
        return None
    finally:
        shutil.rmtree(root)


def fsyncs(source: Path, function: str | None = None) -> list[str]:
    """The lines that ask for an fsync in a file, or in one function of it, as a recording names them."""
    tree = ast.parse(source.read_text(encoding="utf-8"))
    return [
        site(source, node.lineno)
        for place in ast.walk(tree)
        if (isinstance(place, ast.FunctionDef) and place.name == function) or (not function and place is tree)
        for node in ast.walk(place)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "sync"
    ]
