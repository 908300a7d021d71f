"""Which files a corpus is made of: folders walked in an order that never changes, each file once, stdin
kept.
"""

from __future__ import annotations

import os
import shutil
import stat
import sys
import tempfile
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from octavo.corpus.documents import Report
from octavo.errors import CorpusError

STDIN = "-"


@dataclass(frozen=True)
class FoundFile:
    """A file of the corpus.

    Attributes:
        name: what messages call it: its path as given, or as seen from the folder that was given.
        named: whether the user named the file itself, not only a folder that holds it.
    """

    path: Path
    name: str
    named: bool


class Spool:
    """Keeps what can be read only once (stdin, a pipe) in a temporary folder, so that it can be read
    again.
    """

    def __init__(self) -> None:
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._kept: dict[str, Path] = {}

    def keep(self, path: str) -> Path:
        """The file with all that came through `path`."""
        if path not in self._kept:
            # Removed by its finalizer, with the source that owns this.
            self._folder = self._folder or tempfile.TemporaryDirectory(prefix="octavo-")
            kept = Path(self._folder.name) / str(len(self._kept))
            with kept.open("wb") as file:
                if path == STDIN:
                    shutil.copyfileobj(sys.stdin.buffer, file)
                else:
                    with Path(path).open("rb") as pipe:
                        shutil.copyfileobj(pipe, file)
            self._kept[path] = kept
        return self._kept[path]


def find_files(
    paths: Sequence[str], suffixes: Collection[str], spool: Spool, report: Report
) -> list[FoundFile]:
    """All files of the corpus, in order: paths as given, folders by relative path; hidden files are passed
    over.

    Raises:
        CorpusError: a path does not exist or cannot be read, or a folder holds no file with one of the
            suffixes.
    """
    found: list[FoundFile] = []
    seen: dict[tuple[int, int], str] = {}
    for given in paths:
        for file in _at(given, suffixes, spool):
            try:
                status = file.path.stat()
            except OSError as error:
                raise CorpusError(f"{file.name} cannot be read: {error.strerror}.") from error
            identity = status.st_dev, status.st_ino
            if identity in seen:
                first = seen[identity]
                same = "named twice" if first == file.name else f"the same file as {first}"
                report(f"{file.name} is {same}; read once")
            else:
                seen[identity] = file.name
                found.append(file)
    return found


def _at(given: str, suffixes: Collection[str], spool: Spool) -> list[FoundFile]:
    if given == STDIN:
        return [FoundFile(spool.keep(given), "stdin", named=True)]
    path = Path(given).expanduser()
    try:
        mode = path.stat().st_mode
    except (OSError, ValueError) as error:
        missing = isinstance(error, FileNotFoundError | NotADirectoryError)
        what = f"There is no file or folder {given}" if missing else f"{given} cannot be read ({error})"
        raise CorpusError(
            f"{what}.", remedy="Check the path; it is taken from the folder you are in."
        ) from error
    if stat.S_ISFIFO(mode):
        return [FoundFile(spool.keep(str(path)), given, named=True)]
    if stat.S_ISREG(mode):
        return [FoundFile(path, given, named=True)]
    if not stat.S_ISDIR(mode):
        raise CorpusError(
            f"{given} is neither a file nor a folder.", remedy="Give a text file or a folder of them."
        )
    inside = sorted(_inside(path, suffixes), key=lambda file: file.relative_to(path).parts)
    if not inside:
        raise CorpusError(
            f"The folder {given} holds no text to read: no file ends in {', '.join(sorted(suffixes))}.",
            remedy="Give another folder, or name the files themselves.",
        )
    return [FoundFile(file, file.relative_to(path).as_posix(), named=False) for file in inside]


def _inside(folder: Path, suffixes: Collection[str]) -> Iterator[Path]:
    def refuse(error: OSError) -> None:
        raise CorpusError(f"The folder {error.filename} cannot be read: {error.strerror}.") from error

    walked: set[tuple[int, int]] = set()  # links may lead back to a folder above
    for place, folders, files in os.walk(folder, followlinks=True, onerror=refuse):
        status = Path(place).stat()
        if (status.st_dev, status.st_ino) in walked:
            folders.clear()
            continue
        walked.add((status.st_dev, status.st_ino))
        # In a fixed order, so that of a folder and a link to it always the same one is walked.
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in files:
            path = Path(place, name)
            if not name.startswith(".") and path.suffix.lower() in suffixes and path.is_file():
                yield path
