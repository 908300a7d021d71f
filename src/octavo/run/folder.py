"""The run folder: one definition of where everything lies, who may write, and what stands in its way.

runs/<name>/ config.yaml · manifest.json · metrics.jsonl · log.txt · tokenizer/ · checkpoints/step-000500/
             best → · last → · samples/ · evaluation.json · report/index.html; written.safetensors by teachers,
             start.safetensors where it starts from another run, memory.json of planted passages; story/ of
             weights on the way; teachers/1 · 2 · …, each a run folder, where it trains its own
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from octavo import __version__
from octavo.errors import CheckpointError, InputError, RunFolderError
from octavo.evaluation.stored import Manifest, Row
from octavo.training.checkpoint_folder import CheckpointFolder, follow, list_checkpoints, newest_whole
from octavo.util.files import (
    Made,
    claim_folder,
    holder_of,
    kind_of,
    put_away,
    remove,
    storage_errors,
    take_soon,
)
from octavo.util.records import read_record, read_rows
from octavo.util.runs import found

PREPARING = "preparing"
"""State of a run in its manifest, until that is complete."""


def refuse_without_folder(out: str | Path | None, *, resume: bool, overwrite: bool) -> None:
    """Raise InputError where the folder is not named that a run resumes in or replaces, or where it is a part of
    something else that Octavo wrote. A study's own runs resume, too."""
    if (resume or overwrite) and out is None:
        wanted = "--resume needs the folder of the run."
        if overwrite:
            wanted = "--overwrite needs the folder of the run that it replaces."
        raise InputError(wanted, remedy="add --out DIR")
    if resume and overwrite:
        raise InputError("--resume continues a run and --overwrite replaces it: give one of them.")
    if out is None or not (resume or overwrite):
        return
    option = "--overwrite replaces" if overwrite else "--resume continues"
    if kind_of(out) == "checkpoint":
        raise RunFolderError(
            f"{out} is a checkpoint; {option} a run.", remedy="name the run's folder with --out"
        )
    holder = holder_of(Path(out))
    if holder and (overwrite or holder[1] != "study"):
        place, kind = holder
        raise RunFolderError(
            f"{out} is a part of the {kind} {place}; {option} a whole run.", remedy="choose another --out"
        )


class RunFolder:
    """Paths of one run; `made` is what this process made of it, as far as an input error takes it back."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.made = Made()
        self.config = path / "config.yaml"
        self.manifest = path / "manifest.json"
        self.metrics = path / "metrics.jsonl"
        self.log = path / "log.txt"
        self.tokenizer = path / "tokenizer"
        self.checkpoints = path / "checkpoints"
        self.best = path / "best"
        self.last = path / "last"
        self.samples = path / "samples"
        self.written = path / "written.safetensors"
        self.start = path / "start.safetensors"
        self.story = path / "story"
        self.evaluation = path / "evaluation.json"
        self.memory = path / "memory.json"
        self.teachers = path / "teachers"
        self.report = path / "report"

    @classmethod
    def create(cls, path: Path) -> RunFolder:
        """A new run folder; raises RunFolderError where something stands already."""
        cls.refuse_taken(path)
        folder = cls(path)
        with storage_errors(path):
            folder.made.folder(path)
        return folder

    @classmethod
    def refuse_taken(cls, path: Path) -> None:
        """Raise RunFolderError where something stands already."""
        config = path / "config.yaml"
        # One that ended before its recipe was written is in nobody's way.
        passing = () if config.is_file() or cls(path).begun else ("manifest.json",)
        claim_folder(path, "a run", is_one=lambda path: config.is_file(), passing=passing)
        if config.is_file():
            remedy = "choose another --out"
            if kind_of(path) != "checkpoint" and not holder_of(path):
                remedy = f"resume it with --resume, replace it with --overwrite, or {remedy}"
            raise RunFolderError(f"{path} holds a run already.", remedy=remedy)

    @classmethod
    def open(cls, path: Path) -> RunFolder:
        """An existing run folder; raises RunFolderError where there is none."""
        if not (path / "config.yaml").is_file():
            what = "is not a run folder (it has no config.yaml)" if path.exists() else "does not exist"
            remedy = "octavo runs lists the runs here; octavo train RECIPE --text PATH --out DIR makes one"
            if (other := found(path)) != path:
                remedy = f"there is {other}"
            raise RunFolderError(f"{path} {what}.", remedy=remedy)
        return cls(path)

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Hold the folder for writing; a second writer gets RunFolderError. The system lets go when a process dies."""
        with storage_errors(self.path):
            handle = os.open(self.made.file(self.path / ".lock"), os.O_RDWR | os.O_CREAT, 0o644)
        try:
            if not take_soon(handle):
                raise RunFolderError(
                    f"{self.path} is being written by another process.", remedy="wait until it ends"
                )
            yield
        finally:
            os.close(handle)

    def checkpoint(self, which: str = "best") -> tuple[CheckpointFolder | None, list[str]]:
        """The whole checkpoint that `which` (best, last, or a step) leads to, or the newest whole one.

        Also what was found damaged on the way. Raises RunFolderError for a step that is not there.
        """
        if which in ("best", "last"):
            wanted = follow(self.best if which == "best" else self.last)
        else:
            number = which.removeprefix("step-")
            wanted = (
                CheckpointFolder(self.checkpoints / f"step-{int(number):06d}") if number.isdecimal() else None
            )
            if wanted is None or not wanted.folder.is_dir():
                there = ", ".join(folder.name for folder in sorted(self.checkpoints.glob("step-*"))) or "none"
                raise RunFolderError(
                    f"{self.path} has no checkpoint '{which}' (there are: best, last, {there})."
                )
        complaints: list[str] = []
        if wanted is not None:
            try:
                wanted.verify()
                return wanted, []
            except CheckpointError as error:
                complaints.append(error.what)
        newest, more = newest_whole(self.checkpoints)
        return newest, complaints + [text for text in more if text not in complaints]

    def own_teachers(self) -> list[RunFolder]:
        """Those that the run trains itself, as far as they have begun, the first one first."""
        folders = [entry for entry in self.teachers.glob("*") if entry.name.isdecimal()]
        return [RunFolder(entry) for entry in sorted(folders, key=lambda entry: int(entry.name))]

    def settings_as_saved(self) -> bool:
        """Whether config.yaml is as this version of Octavo wrote it, going by the newest checkpoint: then it was
        checked, and need not be checked again, for which all parts would be imported, and torch with them.
        """
        newest = list_checkpoints(self.checkpoints)[-1:]
        return bool(newest) and newest[0].as_saved(self.config, version=__version__)

    def rows(self) -> list[dict[str, Any]]:
        """All whole rows of metrics.jsonl."""
        return read_rows(self.metrics, Row)

    @property
    def begun(self) -> bool:
        """Whether all was ready to train once: until then there is no manifest, or it says that the run is being
        prepared."""
        if not self.manifest.exists():
            return False
        with suppress(CheckpointError):
            return read_record(self.manifest).get("state") != PREPARING
        return True

    def made_by(self) -> dict[str, Any] | None:
        """manifest.json of a run that has begun. Raises CheckpointError if it is damaged."""
        return read_record(self.manifest, Manifest, of="the run") if self.begun else None


OF_A_RUN = (
    "config.yaml",
    ".told.json",
    "manifest.json",
    "metrics.jsonl",
    "log.txt",
    "evaluation.json",
    "words.json",
    "memory.json",
    "written.safetensors",
    "start.safetensors",
    ".lock",
    "best",
    "last",
    "tokenizer/*",
    "checkpoints/*step-*/*",
    "samples/step-*.txt",
    "story/step-*.safetensors",
    "samples/judged.jsonl",
    "prompts/*.json",
    "speakers/*.json",
    "report/index.html",
    "report/*.svg",
)
WRITTEN = (*OF_A_RUN, *(f"teachers/*/{each}" for each in OF_A_RUN))
"""The files of a run folder that Octavo writes."""


@contextmanager
def in_place_of(path: Path, say: Callable[[str], None]) -> Iterator[None]:
    """Put the run in `path` aside; within the context its name is free. Where a new run has begun there in the end, the
    old run's files are removed, and what is not Octavo's is kept; else the old one gets its name back.

    Raises RunFolderError if `path` holds something else than a run, or another process writes there.
    """
    if not path.exists():
        yield
        return
    with RunFolder.open(path).lock(), storage_errors(path.parent):
        old = put_away(path, "replaced")
    try:
        yield
    finally:
        if not path.exists():
            with storage_errors(path.parent):
                old.rename(path)
        elif not RunFolder(path).begun:
            say(f"the run that was to be replaced is kept in {old}")
        elif not remove(old, WRITTEN):
            say(f"{old} keeps what Octavo did not write")
