"""A recorder of what a program does to a folder, and a model of the disk below it: which states a crash may leave.

The model promises what POSIX does and no more. A file's content is on the disk after its own fsync; until then it may
be lost, cut, or zeros of the right length, except what was there at its last fsync and was only appended to. A name is
on the disk after the fsync of its folder; until then changes of names arrive in any order, those of one name in theirs.
A rename is one change: the old name or the new one. The rest of the tree is a matter of inodes, as on a disk.
"""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

Tree = dict[str, bytes | str | None]
"""A state: by path the content of a file, the target of a link, or None for a folder."""

ROOT = 0
CHANGING = ("mkdir", "rename", "replace", "symlink", "link", "unlink", "remove", "rmdir", "open", "fsync")
KINDS = ("new", "lost", "torn", "zeros", "empty")


@dataclass(frozen=True)
class ContentChanged:
    """A file has another content."""

    inode: int
    content: bytes


@dataclass(frozen=True)
class Named:
    """One atomic change of names: (folder, name) leads to an inode, or nowhere."""

    changes: tuple[tuple[tuple[int, str], int | None], ...]


@dataclass(frozen=True)
class Synced:
    """An fsync, and the line that asked for it, as `site` names it."""

    inode: int
    site: str


@dataclass(frozen=True)
class Reached:
    """The program says that it is done with something."""

    step: int


Event = ContentChanged | Named | Synced | Reached


class Recorder:
    """Writes down what happens below a folder, by looking at all of it around every call that changes names or syncs.

    So what libraries write by themselves is seen, too. `links`: targets of symbolic links; `files`: all other leaves.
    """

    def __init__(self, root: Path, *, unread: Collection[str] = ()) -> None:
        self.root, self.unread = root, unread
        self.events: list[Event] = []
        self.links: dict[int, str] = {}
        self.files: set[int] = set()
        self._inodes = {root.stat().st_ino: ROOT}
        self._count = ROOT
        self._names: dict[tuple[int, str], int] = {}
        self._contents: dict[int, bytes] = {}

    @contextmanager
    def recording(self) -> Iterator[None]:
        """Within the context everything is written down."""
        with mock.patch.multiple(os, **{name: self._watched(getattr(os, name)) for name in CHANGING}):
            yield
        self._look(at_once=False)

    def reached(self, step: int) -> None:
        """Write down that a step is saved, as the program says."""
        self._look(at_once=False)
        self.events.append(Reached(step))

    def _watched(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def watched(*arguments: Any, **options: Any) -> Any:
            self._look(at_once=False)  # what was written without such a call
            if call.__name__ == "fsync":
                inode = self._inodes.get(os.fstat(arguments[0]).st_ino)
                call(*arguments)
                if inode is not None:
                    self.events.append(Synced(inode, _site()))
                return None
            try:
                return call(*arguments, **options)
            finally:
                self._look(at_once=True)

        return watched

    def _look(self, *, at_once: bool) -> None:
        """Find what is different; changes of names are one change where one call made them."""
        names: dict[tuple[int, str], int] = {}
        contents: dict[int, bytes] = {}
        inodes = {number: inode for number, inode in self._inodes.items() if inode == ROOT}
        waiting = [(ROOT, str(self.root))]
        for folder, place in waiting:
            for entry in sorted(os.scandir(place), key=lambda entry: entry.name):
                if entry.name in self.unread:
                    continue
                number = entry.stat(follow_symlinks=False).st_ino
                if number not in self._inodes and number not in inodes:
                    self._count += 1
                inode = inodes[number] = inodes.get(number, self._inodes.get(number, self._count))
                names[folder, entry.name] = inode
                if entry.is_symlink():
                    self.links[inode] = str(Path(entry.path).readlink())
                elif entry.is_dir():
                    waiting.append((inode, entry.path))
                else:
                    self.files.add(inode)
                    contents[inode] = Path(entry.path).read_bytes()
        changed = [
            (place, names.get(place))
            for place in sorted(names.keys() | self._names.keys())
            if names.get(place) != self._names.get(place)
        ]
        if changed:
            groups = [changed] if at_once else [[change] for change in changed]
            self.events += [Named(tuple(group)) for group in groups]
        for inode, content in contents.items():
            if content != self._contents.get(inode, b""):
                self.events.append(ContentChanged(inode, content))
        self._inodes, self._names, self._contents = inodes, names, contents


def _site() -> str:
    """The line that asked for an fsync: not the helper that does it."""
    frame = sys._getframe(2)
    while frame.f_code.co_name in ("sync", "flush_to_disk") and frame.f_back is not None:
        frame = frame.f_back
    return site(Path(frame.f_code.co_filename), frame.f_lineno)


def site(source: Path, line: int) -> str:
    """How a line of the code is named: `training/checkpoint_folder.py:231`."""
    return f"{source.parent.name}/{source.name}:{line}"


class Disk:
    """What is on the disk for certain, and what is on its way, after some of the events."""

    def __init__(self, recorder: Recorder) -> None:
        self._links, self._files = recorder.links, recorder.files
        self._names: dict[tuple[int, str], int] = {}  # for certain
        self._pending: list[Named] = []
        self._certain: dict[int, bytes] = {}
        self._unsynced: dict[int, bytes] = {}

    def take(self, event: Event) -> None:
        """Follow one event."""
        if isinstance(event, Named):
            self._pending.append(event)
        elif isinstance(event, ContentChanged):
            self._unsynced[event.inode] = event.content
        elif isinstance(event, Synced) and event.inode in self._files:
            if event.inode in self._unsynced:
                self._certain[event.inode] = self._unsynced.pop(event.inode)
        elif isinstance(event, Synced):
            arrived = self._with_earlier(
                number
                for number, named in enumerate(self._pending)
                if any(folder == event.inode for (folder, _), _ in named.changes)
            )
            self._names = self._after(arrived)
            self._pending = [named for number, named in enumerate(self._pending) if number not in arrived]

    def states(self, draw: random.Random, *, drawn: int) -> Iterator[Tree]:
        """What a crash now may leave: all extremes, every pending change alone or missing, and some `drawn`."""
        everything = frozenset(range(len(self._pending)))
        for arrived in (everything, frozenset[int]()):
            for kind in KINDS:
                yield self._tree(arrived, dict.fromkeys(self._unsynced, kind))
        for number in everything:
            alone = self._with_earlier([number])
            without = frozenset(other for other in everything if number not in self._with_earlier([other]))
            for kind in ("new", "lost"):
                yield self._tree(alone, dict.fromkeys(self._unsynced, kind))
                yield self._tree(without, dict.fromkeys(self._unsynced, kind))
        for inode in self._unsynced:
            for kind in KINDS[1:]:
                yield self._tree(everything, {inode: kind})
        for _ in range(drawn):
            share = draw.random()
            arrived = self._with_earlier([number for number in everything if draw.random() < share])
            yield self._tree(arrived, {inode: draw.choice(KINDS) for inode in self._unsynced})

    def _with_earlier(self, numbers: Any) -> frozenset[int]:
        """Those changes and the earlier ones of the same names, without which they cannot arrive."""
        found: set[int] = set()
        waiting = list(numbers)
        while waiting:
            number = waiting.pop()
            if number not in found:
                found.add(number)
                places = {place for place, _ in self._pending[number].changes}
                waiting += [
                    earlier
                    for earlier in range(number)
                    if any(place in places for place, _ in self._pending[earlier].changes)
                ]
        return frozenset(found)

    def _after(self, arrived: Collection[int]) -> dict[tuple[int, str], int]:
        names = dict(self._names)
        for number in sorted(arrived):
            for place, inode in self._pending[number].changes:
                if inode is None:
                    names.pop(place, None)
                else:
                    names[place] = inode
        return names

    def _tree(self, arrived: Collection[int], kinds: Mapping[int, str]) -> Tree:
        inside: dict[int, list[tuple[str, int]]] = {}
        for (folder, name), inode in self._after(arrived).items():
            inside.setdefault(folder, []).append((name, inode))
        tree: Tree = {}
        waiting = [(ROOT, "")]
        for folder, place in waiting:
            for name, inode in inside.get(folder, ()):
                path = f"{place}{name}"
                if inode in self._links:
                    tree[path] = self._links[inode]
                elif inode in self._files:
                    tree[path] = self._content(inode, kinds.get(inode, "new"))
                else:
                    tree[path] = None
                    waiting.append((inode, f"{path}/"))
        return tree

    def _content(self, inode: int, kind: str) -> bytes:
        old = self._certain.get(inode, b"")
        new = self._unsynced.get(inode, old)
        kept = old if new.startswith(old) else b""  # else it was cut to nothing before it was written anew
        rest = new[len(kept) :]
        return {
            "new": new,
            "lost": old,
            "torn": kept + rest[: len(rest) // 2],
            "zeros": kept + bytes(len(rest)),
            "empty": kept,
        }[kind]


def key(tree: Tree, *, by_name: str) -> frozenset[tuple[str, bytes | str | None]]:
    """What makes two states the same: files whose path has `by_name` in it count by their names alone."""
    return frozenset((path, b"" if by_name in path and what else what) for path, what in tree.items())


def materialise(tree: Tree, root: Path) -> None:
    """Write a state into an empty folder."""
    for path, what in sorted(tree.items()):
        if what is None:
            (root / path).mkdir()
        elif isinstance(what, str):
            (root / path).symlink_to(what)
        else:
            (root / path).write_bytes(what)
