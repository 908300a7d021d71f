"""What may be taken away: what Octavo made, file by file. Whatever else lies there stays where it is.

Nothing in Octavo removes a whole tree; a guard test sees to that.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from fnmatch import fnmatchcase
from itertools import count
from pathlib import Path

from octavo.errors import RunFolderError
from octavo.ground.files import sync


class Made:
    """The files and folders that this process made at a place, so that it can take back these and no others."""

    def __init__(self) -> None:
        self._paths: list[Path] = []

    def folder(self, path: Path) -> Path:
        """Make a folder, with those above it that are missing. Raises OSError."""
        for each in [*reversed(path.parents), path]:
            try:
                each.mkdir()
            except OSError:
                if not each.is_dir():
                    raise
            else:
                self._paths.append(each.absolute())
                sync(each.parent)  # or a power cut takes the folder, with all that was synced in it
        return path

    def file(self, path: Path) -> Path:
        """Note a file that is about to be written, unless it is there already."""
        if not os.path.lexists(path):
            self._paths.append(path.absolute())
        return path

    def take_back(self) -> None:
        """Remove what was made; a folder only where it is empty."""
        for path in reversed(self._paths):
            with suppress(OSError):
                path.rmdir() if path.is_dir() and not path.is_symlink() else path.unlink()
        self._paths.clear()


def files_of(folder: Path) -> list[str]:
    """All files and links below a folder, relative to it, with / between names; links are not followed. OSError."""

    def failed(error: OSError) -> None:
        raise error

    found = []
    for place, folders, files in os.walk(folder, onerror=failed):
        links = [name for name in folders if Path(place, name).is_symlink()]
        found += [Path(place, name).relative_to(folder).as_posix() for name in files + links]
    return sorted(found)


def strange(folder: Path, ours: Iterable[str]) -> list[str]:
    """The files below a folder that are not `ours`: names relative to it, or patterns such as `tokenizer/*`."""
    patterns = list(ours)
    return [name for name in files_of(folder) if not any(fnmatchcase(name, each) for each in patterns)]


def remove(folder: Path, ours: Iterable[str]) -> bool:
    """Remove those files below a folder that are `ours` (see `strange`), one by one, and the folders that are empty
    then. Returns whether all of it is gone; errors of the system only leave something.
    """
    if folder.is_symlink():
        return False
    with suppress(OSError):
        kept = set(strange(folder, ours))
        for name in files_of(folder):
            if name not in kept:
                (folder / name).unlink()
    for place, folders, _ in os.walk(folder, topdown=False):
        for path in [*(Path(place, name) for name in folders), Path(place)]:
            with suppress(OSError):
                path.rmdir()
    return not folder.exists()


def put_away(path: Path, word: str) -> Path:
    """Give what is in the way the first free name like `WORD-NAME`, and return that. Raises OSError."""
    names = (path.with_name(f"{word}-{path.name}" + (f"-{n}" if n > 1 else "")) for n in count(1))
    free = next(name for name in names if not os.path.lexists(name))
    return path.rename(free)


_KINDS = {
    "run": (("config.yaml", ".lock", "samples"), ("config.yaml", "manifest.json", "checkpoints")),
    "study": (("study.yaml", ".lock"), ("study.yaml", "runs")),
    "export": (("certificate.json", "README.md"),),
    "checkpoint": (("config.yaml", "MANIFEST.json", "state.json"),),
}
"""By kind the names that stand together in such a folder: of a run that begins, and of one that has begun or was
copied."""


def kind_of(folder: str | Path) -> str | None:
    """What Octavo wrote as this folder: a run, study, export or checkpoint; None for any other folder."""
    for kind, marks in _KINDS.items():
        if any(all(os.path.lexists(f"{folder}{os.sep}{name}") for name in names) for names in marks):
            return kind
    return None


def holder_of(path: Path) -> tuple[Path, str] | None:
    """The nearest run, study, export or checkpoint that a path lies in, as written or as links lead, and its kind."""
    for above in (*Path(os.path.abspath(path)).parents, *Path(os.path.realpath(path)).parents):  # noqa: PTH100 — links stay
        if kind := kind_of(above):
            return above, kind
    return None


def refuse_no_folder(path: Path, what: str) -> None:
    """Raise RunFolderError if `path` cannot be the folder that `what` (a run, a study) needs."""
    for place in [path, *path.parents]:
        if place.is_dir():
            return
        if place.is_symlink() and not place.exists():
            raise RunFolderError(
                f"{place} is a link to {place.readlink()}, which does not exist.",
                remedy="make that folder, or choose another --out",
            )
        if place.exists():
            kind = "a file" if place.is_file() else "no folder"
            raise RunFolderError(f"{place} is {kind}; {what} needs a folder.", remedy="choose another --out")
