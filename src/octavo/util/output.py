"""Files that a command writes where its user says: never over what it reads, over nothing else unless asked, and whole
or not at all.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TextIO

from octavo.errors import InputError, OctavoError, StorageError
from octavo.util.files import Made, circular, from_home, of_the_system, written_aside


class Output:
    """A file to write.

    Args:
        inputs: files and folders that are read for it, `~` in them or not.
        force: replace a file that exists; of a link, the link and not what it leads to.

    Attributes:
        new: whether it was written, where nothing was before.

    Raises InputError, before any work is done, where it may not be written.
    """

    def __init__(self, path: Path, *, inputs: Iterable[str | Path] = (), force: bool = False) -> None:
        self.path, self.force, self.new = path, force, False
        if not os.path.lexists(path):
            return
        if path.is_dir():
            raise InputError(f"{path} is a folder; a file is written.", remedy="name a file in it")
        if path.exists() and not path.is_file():
            raise InputError(f"{path} is no ordinary file.", remedy="choose another name")
        if any(_holds(from_home(source), path) for source in inputs):
            raise InputError(
                f"{path} is read; it cannot be written at the same time.", remedy="choose another name"
            )
        if not force:
            raise self._taken()

    def _taken(self) -> InputError:
        return InputError(
            f"{self.path} exists.", remedy="choose another name, or add --force to write over it"
        )

    @contextmanager
    def writing(self) -> Iterator[TextIO]:
        """The text file to write into, as `filling` keeps it."""
        with self.filling() as aside, aside.open("w", encoding="utf-8", newline="\n") as file:
            yield file

    @contextmanager
    def filling(self) -> Iterator[Path]:
        """An empty file for a library to fill; it has its name when the context is left without an error. Raises
        StorageError."""
        made, there = Made(), os.path.lexists(self.path)
        try:
            made.folder(self.path.parent)
            with written_aside(self.path, over=self.force) as aside:
                yield aside
            self.new = not there
        except BaseException as error:
            made.take_back()
            if isinstance(error, FileExistsError) and os.path.lexists(self.path) and not self.force:
                raise self._taken() from error
            if not isinstance(error, OctavoError) and (system := of_the_system(error)) is not None:
                why = system.strerror or system
                raise StorageError(f"{self.path} cannot be written: {why}.") from error
            raise


@contextmanager
def all_or_none(*outputs: Output | None) -> Iterator[None]:
    """Where something is raised within the context, none of these files is left new: the command can be run again."""
    try:
        yield
    except BaseException:
        for output in outputs:
            if output is not None and output.new:
                with suppress(OSError):
                    output.path.unlink()
        raise


def _holds(source: Path, path: Path) -> bool:
    """Whether `path` is what is read from `source`, or lies in it."""
    try:
        if source.is_dir():
            return not circular(path) and path.resolve().is_relative_to(source.resolve())
        return source.exists() and path.exists() and source.samefile(path)
    except (OSError, RuntimeError):  # a name that is no path
        return False
