"""A folder of somebody's work: where its runs, studies and texts lie, and what they are called in the page.

FOLDER/ runs/ · studies/ · texts/ (what was dropped) · preferences/ (what was judged) · exports/ · .octavo/jobs/
A folder that holds runs itself, such as runs/, is taken as it is: new ones come beside them.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from octavo.config.parts import command
from octavo.errors import InputError
from octavo.serving.models import named
from octavo.util.files import kind_of, no_device
from octavo.util.runs import free_name

DEPTH = 6
"""Folders below the work folder that are looked into: studies/NAME/runs/CHANGE/seed-1."""
MOST_FOLDERS = 5000
"""Folders that are looked into, at most: somebody may open a whole home."""
MARKS = frozenset(("config.yaml", "metrics.jsonl", "checkpoints"))
FIRST = ("runs", "studies")
"""Are looked into before anything else."""
OURS = ("texts", "exports", "preferences")


@dataclass(frozen=True)
class Found:
    """What is there, by the names that the page calls it by. `cut`: whether there was more than is looked into."""

    runs: dict[str, Path] = field(default_factory=dict)
    studies: dict[str, Path] = field(default_factory=dict)
    cut: bool = False


class Work:
    """The folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.texts, self.exports = folder / "texts", folder / "exports"
        self.preferences, self.jobs = folder / "preferences", folder / ".octavo" / "jobs"

    @classmethod
    def open(cls, folder: Path) -> Work:
        """An existing folder. Raises InputError for anything else, and for a run or a study, which lie in one."""
        if not folder.is_dir():
            what = "is not a folder" if folder.exists() else "does not exist"
            raise InputError(f"{folder} {what}.", remedy="make it first, or leave the folder out")
        if (kind := kind_of(folder)) is not None:
            above = folder.resolve().parent if folder.parent == folder else folder.parent
            raise InputError(
                f"{folder} is a {kind}; the page shows a folder of them.",
                remedy=command("octavo", "open", str(above)),
            )
        return cls(folder)

    @property
    def holds_runs(self) -> bool:
        """Whether runs lie in the folder itself, and not in its runs/."""
        try:
            inside = [entry.path for entry in os.scandir(self.folder) if entry.is_dir(follow_symlinks=False)]
        except OSError:
            return False
        return self.folder.resolve().name == "runs" or any(kind_of(path) == "run" for path in inside)

    @property
    def runs(self) -> Path:
        """Where a new run goes."""
        return self.folder if self.holds_runs else self.folder / "runs"

    def free_run(self, name: str) -> Path:
        """The path of a new run, by a name that is cleaned."""
        name = no_device(named(name.replace("/", "-")).strip(".-")[:60] or "run")
        return free_name(f"{name}-run" if name in OURS else name, self.runs)

    def look(self) -> Found:
        """All runs and studies, by unlike names."""
        runs: dict[str, Path] = {}
        studies: dict[str, Path] = {}
        seen = 0
        for kind, path in self._walk(self.folder, DEPTH):
            seen += 1
            if seen > MOST_FOLDERS:
                return Found(runs, studies, cut=True)
            if kind is None:
                continue
            into = runs if kind == "run" else studies
            name = base = named(path.relative_to(self.folder).as_posix())
            number = 2
            while name in into:
                name, number = f"{base}-{number}", number + 1
            into[name] = path
        return Found(runs, studies)

    def _walk(self, folder: Path, depth: int) -> Iterator[tuple[str | None, Path]]:
        """Each folder with what it is; a run is not looked into, nor what is hidden or no run by our own hand."""
        try:
            entries = sorted(os.scandir(folder), key=lambda entry: (entry.name not in FIRST, entry.name))
        except OSError:  # somebody else's, or gone
            return
        names = {entry.name for entry in entries}
        top = folder == self.folder
        if not top and names & MARKS:
            yield "run", folder
            return
        yield ("study" if not top and "study.yaml" in names else None), folder
        for entry in entries if depth else ():
            hidden = entry.name.startswith((".", "_")) or entry.name == "node_modules"
            if hidden or (top and entry.name in OURS) or not entry.is_dir(follow_symlinks=False):
                continue
            yield from self._walk(folder / entry.name, depth - 1)
