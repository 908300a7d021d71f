"""What runs there are, and what each came to. Whatever is wrong with one is said of that one; no run hides another."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from octavo.config import Recipe, check, parse_yaml
from octavo.errors import OctavoError, RunFolderError
from octavo.ground.records import read_record
from octavo.report.data import finite
from octavo.runs.folder import RunFolder
from octavo.runs.progress import Progress
from octavo.training.checkpoint_folder import list_checkpoints

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
        """For --json."""
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
    found = [look(path) for path in run_folders(top)]
    return sorted(found, key=lambda run: (-last_written(run.path), str(run.path)))


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
