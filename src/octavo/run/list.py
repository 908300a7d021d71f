"""What runs there are, and what each came to. Whatever is wrong with one is said of that one; no run hides another."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from octavo.config import Recipe, check, parse_yaml, stored_recipe, stored_tree
from octavo.config.schema import shape_in_words
from octavo.errors import CheckpointError, OctavoError, RunFolderError
from octavo.run.folder import Progress, RunFolder
from octavo.training.checkpoint_folder import MANIFEST, CheckpointFolder, follow, list_checkpoints
from octavo.util.records import read_record
from octavo.util.terminal import finite

# What a run is and how far it came, as plain data.


def run_info(path: Path) -> dict[str, Any]:
    """Facts about a run folder or a checkpoint folder; every checkpoint is verified."""
    alone = (path / MANIFEST).is_file()
    folder = RunFolder(path) if alone else RunFolder.open(path)
    saved = folder.settings_as_saved()
    recipe = stored_tree(folder.config) if saved else stored_recipe(folder.config).model_dump(mode="json")
    manifest = folder.made_by() or {}
    checkpoints = [CheckpointFolder(path)] if alone else list_checkpoints(folder.checkpoints)
    marks = {} if alone else {"best": follow(folder.best), "last": follow(folder.last)}
    states = {}
    for checkpoint in checkpoints:
        names = [
            name for name, target in marks.items() if target and target.folder == checkpoint.folder.resolve()
        ]
        states[checkpoint.folder.name] = ", ".join([condition(checkpoint), *names])
    newest = next((c for c in reversed(checkpoints) if condition(c) == "whole"), None)
    state = Progress.of(newest) if newest else None
    data = manifest.get("data", {})
    taught_by = [teacher["checkpoint"] for teacher in manifest.get("teachers", [])]
    imported = manifest.get("imported")
    start, saved = manifest.get("start_from"), manifest.get("saved_from")
    return {
        "run": str(path),
        "description": recipe["description"],
        "octavo": manifest.get("octavo"),
        "seed": recipe["seed"],
        **read_as(recipe, data),
        "shape": shape_in_words(recipe["model"]),
        **({"teachers": taught_by} if taught_by else {}),
        **({"imported_from": f"{imported['path']}, {imported['form']}"} if imported else {}),
        **({"saved_from": saved["checkpoint"]} if saved else {}),
        **({"start_from": start["checkpoint"]} if start else {}),
        "step": state.step if state else 0,
        "finished": state.finished if state else False,
        "training_seconds": state and state.seconds,
        "best_step": state and state.best_step,
        "best_validation_loss": state and (None if state.best_loss == math.inf else state.best_loss),
        **({"loss_unit": unit} if (unit := loss_unit(folder)) else {}),
        "report": str(folder.report / "index.html") if (folder.report / "index.html").is_file() else None,
        "checkpoints": states,
    }


def loss_unit(folder: RunFolder) -> str | None:
    """What its loss is told in, as its evaluation says, where that is not nats per token."""
    try:
        return json.loads(folder.evaluation.read_text(encoding="utf-8")).get("unit")
    except (OSError, ValueError, AttributeError):
        return None


def read_as(recipe: Mapping[str, Any], data: Mapping[str, Any]) -> dict[str, Any]:
    """What the model reads, and how much of it it learned from."""
    train = data.get("splits", {}).get("train", {})
    count = train.get("tokens")
    if (columns := data.get("columns")) is not None:
        return {
            "channels": columns["channels"],
            "covariates": columns["covariates"],
            "training_rows": count - train["documents"],  # a row of NaN stands after each series
        }
    return {
        "tokenizer": recipe["tokenizer"]["kind"],
        "vocabulary": data.get("vocab_size"),
        "training_tokens": count,
    }


def condition(checkpoint: CheckpointFolder) -> str:
    """whole, or what is wrong."""
    try:
        checkpoint.verify()
    except CheckpointError as error:
        return error.what
    return "whole"


DEPTH = 3  # folders below the one that is asked for

State = Literal["finished", "unfinished", "damaged"]


@dataclass
class Seen:
    """A run as its folder tells it. What could not be read is None or empty; `damage` says why."""

    path: Path
    state: State = "unfinished"
    damage: str | None = None
    settings: Mapping[str, Any] | None = None
    """config.yaml as plain data, checked."""
    manifest: Mapping[str, Any] = field(default_factory=dict)
    figures: Mapping[str, Any] = field(default_factory=dict)
    """The best validation row of metrics.jsonl, under the whole evaluation."""
    curve: list[tuple[float, float]] = field(default_factory=list)
    """(step, bits per byte) of every evaluation while training."""
    steps: int = 0
    tokens: float | None = None
    seconds: float | None = None
    """Of training."""

    @cached_property
    def config(self) -> Recipe | None:
        """The recipe; what it is made of imports torch."""
        return None if self.settings is None else check(self.settings)

    @property
    def bits_per_byte(self) -> float | None:
        """The best, on the validation split."""
        return finite(self.figures.get("bits_per_byte"))

    @property
    def recipe(self) -> str:
        """The recipe's name, where the run says it."""
        name = self.manifest.get("recipe")
        return name if isinstance(name, str) else ""

    def describe(self) -> dict[str, Any]:
        changed = datetime.fromtimestamp(last_written(self.path), tz=UTC)
        return {
            "run": str(self.path),
            "recipe": self.recipe,
            "description": self.settings.get("description", "") if self.settings is not None else None,
            "state": self.state,
            "damage": self.damage,
            "steps": self.steps,
            "bits_per_byte": self.bits_per_byte,
            "validation_loss": finite(self.figures.get("val_loss")),
            "written": changed.isoformat(timespec="seconds"),
            "bytes": size(self.path),
        }


def list_runs(top: Path) -> list[Seen]:
    """The runs in a folder and some levels below it, the one written last first. RunFolderError where it is missing."""
    if not top.is_dir():
        raise RunFolderError(
            f"{top} is not a folder." if top.exists() else f"{top} does not exist.",
            remedy="octavo runs FOLDER, with the folder that your runs are in",
        )
    seen = [look(path) for path in run_folders(top)]
    return sorted(seen, key=lambda run: (-last_written(run.path), str(run.path)))


def newest_run(top: Path) -> Path | None:
    """The run in a folder that was written last, of those that have a checkpoint."""
    known = (path for path in run_folders(top, depth=1) if list_checkpoints(path / "checkpoints"))
    return max(known, key=lambda path: (last_written(path), str(path)), default=None)


def run_folders(top: Path, depth: int = DEPTH) -> Iterator[Path]:
    """Folders that are runs, or were; links are not followed."""
    if any((top / name).exists() for name in ("config.yaml", "metrics.jsonl", "checkpoints")):
        yield top
        return
    try:
        below = sorted(entry.path for entry in os.scandir(top) if entry.is_dir(follow_symlinks=False))
    except OSError:  # somebody else's
        return
    for path in below if depth else []:
        if not Path(path).name.startswith("."):
            yield from run_folders(Path(path), depth - 1)


def look(path: Path) -> Seen:
    """What a run folder tells. Sizes of checkpoints are compared, their content is not (`octavo info` does)."""
    seen = Seen(path)
    for part in (_settings, _manifest, _progress, _checkpoints, _evaluation):
        try:
            part(RunFolder(path), seen)
        except OctavoError as error:
            seen.damage = seen.damage or error.what
        except (OSError, ValueError) as error:
            seen.damage = seen.damage or f"{path}: {error}"
    if seen.damage:
        seen.state = "damaged"
    return seen


def _settings(folder: RunFolder, seen: Seen) -> None:
    if not folder.config.is_file():
        raise RunFolderError(f"{folder.config} is missing.")
    settings = parse_yaml(folder.config.read_text(encoding="utf-8"), str(folder.config))
    if not folder.settings_as_saved():
        check(settings)
    seen.settings = settings


def _manifest(folder: RunFolder, seen: Seen) -> None:
    seen.manifest = read_record(folder.manifest)


def _progress(folder: RunFolder, seen: Seen) -> None:
    rows = [row for row in folder.rows() if isinstance(row, dict)]
    seen.steps = int(max((finite(row.get("step")) or 0 for row in rows), default=0))
    judged = [row for row in rows if row.get("event") == "validation"]
    seen.curve = [
        (step, bits)
        for row in judged
        if (step := finite(row.get("step"))) is not None
        and (bits := finite(row.get("bits_per_byte"))) is not None
    ]
    losses = [(loss, row) for row in judged if (loss := finite(row.get("loss"))) is not None]
    if losses:
        loss, best = min(losses, key=lambda pair: pair[0])
        seen.figures = best | {"val_loss": loss}
    trained = [row for row in rows if row.get("event") == "train"]
    if trained:
        seen.tokens, seen.seconds = (finite(trained[-1].get(key)) for key in ("tokens", "seconds"))


def _checkpoints(folder: RunFolder, seen: Seen) -> None:
    checkpoints = list_checkpoints(folder.checkpoints)
    for checkpoint in checkpoints:
        checkpoint.verify(contents=False)
    if checkpoints:
        progress = Progress.of(checkpoints[-1])
        # Rows are written every few steps; a killed run has some beyond its checkpoint.
        if progress.step >= seen.steps:
            seen.steps, seen.tokens, seen.seconds = progress.step, progress.tokens, progress.seconds
        seen.state = "finished" if progress.finished else seen.state


def _evaluation(folder: RunFolder, seen: Seen) -> None:
    if folder.evaluation.is_file():
        seen.figures = {**seen.figures, **read_record(folder.evaluation)}


def last_written(path: Path) -> float:
    """When the run last wrote something, in seconds since 1970."""
    times = [
        entry.stat().st_mtime
        for name in ("metrics.jsonl", "log.txt", "manifest.json", "config.yaml")
        if (entry := path / name).exists()
    ]
    return max(times, default=path.stat().st_mtime)


def size(path: Path) -> int:
    """Bytes of all files; links are not followed."""
    return sum(
        os.lstat(os.path.join(folder, name)).st_size  # noqa: PTH118 — many, and bytes paths work
        for folder, _, names in os.walk(path)
        for name in names
    )
