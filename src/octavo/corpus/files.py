"""Which files a corpus is made of: folders walked in an order that never changes, each file once, stdin
kept.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import stat
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from octavo.config.plain import recipe_names
from octavo.corpus.documents import NAMED, Report
from octavo.errors import CorpusError
from octavo.util.files import default_cache, from_home, kind_of, replace_text, storage_errors
from octavo.util.records import json_text

STDIN = "-"

Wanted = Callable[[str], bool]
"""Whether the file at a path is one to read."""


@dataclass(frozen=True, slots=True)
class FoundFile:
    """A file of the corpus.

    Attributes:
        name: what messages call it: its path as given, or as seen from the folder that was given.
        named: whether the user named the file itself, not only a folder that holds it.
        size: in bytes.
    """

    path: str
    name: str
    named: bool
    size: int


class Spool:
    """Keeps what can be read only once (stdin, a pipe) in a temporary folder, so that it can be read
    again.
    """

    def __init__(self) -> None:
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._kept: dict[str, Path] = {}

    @staticmethod
    def of_source() -> Spool:
        """A source's own, or within `kept_pipes` the one of all."""
        return _shared[-1] if _shared else Spool()

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

    def holds(self, path: str) -> bool:
        """Whether a file is one that is kept here."""
        return Path(path) in self._kept.values()


_shared: list[Spool] = []


@contextmanager
def kept_pipes() -> Iterator[None]:
    """Within the context sources find again what another read from stdin or a pipe."""
    _shared.append(_shared[-1] if _shared else Spool())
    try:
        yield
    finally:
        _shared.pop()


def kept_texts(texts: str | Iterable[str]) -> Path:
    """A file of texts that are in memory, each a document, without white space at its ends.

    It stands in the cache under a name by its content, so that a run on the same texts resumes, and finds them again.

    Raises CorpusError for what is no text.
    """
    lines = []
    for number, text in enumerate([texts] if isinstance(texts, str) else texts):
        if not isinstance(text, str):
            raise CorpusError(f"documents[{number}] is {type(text).__name__}, not a text.")
        lines.append(json_text({"text": text}) + "\n")
    if not lines:
        raise CorpusError("documents= holds no text.")
    content = "".join(lines)
    path = default_cache() / "texts" / f"{hashlib.sha256(content.encode()).hexdigest()[:16]}.jsonl"
    if not path.is_file():
        with storage_errors(path.parent):
            path.parent.mkdir(parents=True, exist_ok=True)
            replace_text(path, content)
    return path


def settled(*times: int) -> bool:
    """Whether a change of a file from now on will show in its times (nanoseconds): the last one is longer ago than the
    resolution of the file system's times, which are whole seconds, or even pairs of them, in some."""
    resolution = 2_000_000_000 if max(times) % 1_000_000_000 == 0 else 100_000_000
    return max(times) + resolution < time.time_ns()


def find_files(paths: Sequence[str], wanted: Wanted, spool: Spool, report: Report) -> list[FoundFile]:
    """All files of the corpus, in order: paths as given, folders by relative path; hidden and
    temporary files are passed over.

    Args:
        wanted: whether a file in a folder is one to read; one that is named always is.

    Raises:
        CorpusError: a path does not exist or cannot be read, or a folder holds no file that is wanted.
    """
    found: list[FoundFile] = []
    seen: dict[tuple[int, int], str] = {}
    taken: set[str] = set()
    for given in paths:
        for path, name, named in _at(given, wanted, spool):
            try:
                status = Path(path).stat()
            except OSError as error:
                raise CorpusError(f"{name} cannot be read: {error.strerror}.") from error
            identity = status.st_dev, status.st_ino
            if identity in seen:
                first = seen[identity]
                same = "named twice" if first == name else f"the same file as {first}"
                report(f"{name} is {same}; read once")
            else:
                if name in taken:  # in another folder
                    name = f"{given.rstrip('/')}/{name}"
                taken.add(name)
                seen[identity] = name
                found.append(FoundFile(path, name, named, status.st_size))
    return found


def _at(given: str, wanted: Wanted, spool: Spool) -> Iterator[tuple[str, str, bool]]:
    if given == STDIN:
        yield str(spool.keep(given)), "stdin", True
        return
    if given.startswith(NAMED):
        from octavo.corpus.fetch.catalogue import named_path

        path = named_path(given)
    else:
        path = from_home(given)
    try:
        mode = path.stat().st_mode
    except (OSError, ValueError) as error:
        missing = isinstance(error, FileNotFoundError | NotADirectoryError)
        what = f"There is no file or folder {given}" if missing else f"{given} cannot be read ({error})"
        remedy = "Check the path; it is taken from the folder you are in."
        if missing and path.name in recipe_names() and path.absolute().parent == Path.cwd():
            remedy = f"'{path.name}' is a recipe; put it before --text."
        raise CorpusError(f"{what}.", remedy=remedy) from error
    if stat.S_ISFIFO(mode):
        yield str(spool.keep(str(path))), given, True
        return
    if stat.S_ISREG(mode):
        if path.name.startswith("~$"):
            raise CorpusError(
                f"{given} is the lock file of an office program, not a text.",
                remedy="Name the document itself; its program keeps this file beside it while it is open.",
            )
        yield str(path.absolute()), given, True
        return
    if not stat.S_ISDIR(mode):
        raise CorpusError(
            f"{given} is neither a file nor a folder.", remedy="Give a text file or a folder of them."
        )
    empty = True
    root = str(path.absolute())
    if kind_of(root) in ("run", "study"):
        raise CorpusError(
            f"{given} is what Octavo wrote of a text, not a text: a run or a study.",
            remedy="Name the text itself; of a run, corpus.paths in its config.yaml says where that is.",
        )
    for inside in _inside(root, wanted, set()):
        empty = False
        yield inside, inside[len(root) :].lstrip(os.sep).replace(os.sep, "/"), False
    if empty:
        raise CorpusError(
            f"The folder {given} holds no text to read: no file in it is of a kind that is known.",
            remedy="Give another folder, or name the files themselves.",
        )


def _inside(folder: str, wanted: Wanted, walked: set[tuple[int, int]]) -> Iterator[str]:
    """Files below a folder, by the parts of their paths; a folder that links lead back to is walked once."""
    try:
        status = Path(folder).stat()
        if (status.st_dev, status.st_ino) in walked:
            return
        walked.add((status.st_dev, status.st_ino))
        with os.scandir(folder) as listed:
            entries = sorted((entry.name, _is_folder(entry)) for entry in listed)
    except OSError as error:
        raise CorpusError(f"The folder {folder} cannot be read: {error.strerror}.") from error
    for name, is_folder in entries:
        path = f"{folder}{os.sep}{name}"  # for 200,000 files Path objects are slow and large
        if is_passed_over(name) or (is_folder and kind_of(path) in ("run", "study")):
            continue  # what Octavo wrote of a text is no part of it, and changes on the way
        if is_folder:
            yield from _inside(path, wanted, walked)
        elif wanted(path):
            yield path


_TEMPORARY = re.compile(
    r"~\$.*|.*~|#.*#|.*\.(tmp|temp|sw[a-p]|bak|part|partial|crdownload|download)|thumbs\.db|desktop\.ini",
    re.I,
)
"""Names of what programs keep beside a file while they work on it, or about a folder."""


def is_passed_over(name: str) -> bool:
    """Whether a name in a folder is hidden or belongs to another program, and so is not read as text."""
    return name.startswith(".") or _TEMPORARY.fullmatch(name) is not None


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a link that leads round in circles
        return False
