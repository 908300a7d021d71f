"""Parts in a Python file of the user's own. A file is loaded only when the user names it, never because a run does."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import shlex
import sys
import traceback
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from importlib.abc import SourceLoader
from pathlib import Path
from typing import Any

from octavo.config.parts import registered, restore
from octavo.errors import ConfigError
from octavo.util.files import from_home
from octavo.util.processes import TOLD

VARIABLE = "OCTAVO_PARTS"  # what child processes are told


@dataclass(frozen=True)
class OwnParts:
    """A file that was loaded.

    Attributes:
        sha256: of what was run.
        parts: what it registers, as "room.kind".
        neighbours: whether it imports what stands in its folder, which Python looked into.
    """

    path: str
    sha256: str
    parts: tuple[str, ...]
    neighbours: bool = False


_loaded: dict[str, OwnParts] = {}


class _Read(SourceLoader):
    """Runs the bytes that were read, so that the hash is that of the code that runs."""

    def __init__(self, path: str, content: bytes) -> None:
        self.path, self.content = path, content

    def get_filename(self, fullname: str) -> str:
        return self.path

    def get_data(self, path: str | bytes) -> bytes:
        if path != self.path:
            raise OSError  # no compiled twin is looked for
        return self.content


def load_parts(path: str | Path) -> OwnParts:
    """Run a Python file whose config classes register themselves (`octavo.config.parts.register`), also after configs
    were checked. A function `reward(prompt, text)` in it becomes a reward of the file's name. A file that has changed
    since is run again, and its new parts take the place of the old.

    Raises ConfigError if it cannot be read, fails, registers nothing, or takes a name that there is already; then
    nothing of it stays registered.
    """
    place = str(from_home(path).absolute())
    try:
        content = Path(place).read_bytes()
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}.") from error
    digest = hashlib.sha256(content).hexdigest()
    known = _loaded.get(place)
    if known is not None and known.sha256 == digest:
        return known
    before, modules = registered(), set(sys.modules)
    name = f"octavo_own_{hashlib.sha256(place.encode()).hexdigest()[:12]}"
    loader = _Read(place, content)
    spec = importlib.util.spec_from_loader(name, loader, origin=place)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    earlier = sys.modules.get(name)
    sys.modules[name] = module  # where pydantic and dataclasses look names up
    try:
        loader.exec_module(module)
        if callable(getattr(module, "reward", None)):
            rewards = importlib.import_module("octavo.tuning.rewards.own")
            rewards.adopt(module, Path(place).stem)
        added = {
            f"{room}.{kind}" for (room, kind), config in registered().items() if config.__module__ == name
        }
        if not added:
            what = (
                "it registers no part; put @register(ROOM) on a config class, or define reward(prompt, text)"
            )
            raise ConfigError(what)
    except BaseException as error:
        restore(before)
        sys.modules.pop(name)
        if earlier is not None:
            sys.modules[name] = earlier
        if not isinstance(error, Exception | SystemExit):
            raise
        what = f"{path} cannot be loaded: {_where(error, place)}{_said(error)}."
        raise ConfigError(what, remedy="docs/extending.md shows a file of parts") from error
    folder = Path(place).parent
    files = (getattr(sys.modules[each], "__file__", None) for each in set(sys.modules) - modules - {name})
    neighbours = any(file and folder in Path(file).absolute().parents for file in files)
    _loaded[place] = OwnParts(place, digest, tuple(sorted(added)), neighbours)
    TOLD[VARIABLE] = json.dumps([asdict(own) for own in _loaded.values()])
    return _loaded[place]


def loaded_parts() -> list[OwnParts]:
    """The files that this process has loaded, in that order."""
    return list(_loaded.values())


def load_told_parts() -> None:
    """In a child process of ours: load what its parent has loaded. Raises ConfigError if that has changed since."""
    for told in json.loads(os.environ.get(VARIABLE) or "[]"):
        if told.get("neighbours"):
            # Behind all else, so that none of them stands in for another module of its name.
            sys.path.append(str(Path(told["path"]).parent))
        if load_parts(told["path"]).sha256 != told["sha256"]:
            raise ConfigError(f"{told['path']} has changed since it was loaded.")


def command(*words: str | Path) -> str:
    """A command as it can be typed here: quoted for a shell, and with the files of parts that are loaded."""
    own = [word for each in _loaded for word in ("--parts", each)]
    return shlex.join([*map(str, words), *own])


def how_to_load(described: Iterable[object]) -> str | None:
    """What to add to a command for a run whose manifest names such files; None if all of them are loaded."""
    there = {own.sha256 for own in _loaded.values()}
    missing = [
        own
        for own in described
        if isinstance(own, dict) and isinstance(own.get("path"), str) and own.get("sha256") not in there
    ]
    options = shlex.join(word for own in missing for word in ("--parts", own["path"]))
    return f"look at what is in it, and add {options}" if options else None


def changed_parts(described: Iterable[Mapping[str, Any]]) -> list[str]:
    """Of the files that a run's manifest names, those that are loaded with another content now."""
    now = {own.path: own.sha256 for own in _loaded.values()}
    return [own["path"] for own in described if now.get(own["path"], own["sha256"]) != own["sha256"]]


def _said(error: BaseException) -> str:
    if isinstance(error, ConfigError):
        return error.what.rstrip(".")
    text = str(error.msg if isinstance(error, SyntaxError) else error).rstrip(".")
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _where(error: BaseException, place: str) -> str:
    """The line of the file at which it failed."""
    if isinstance(error, SyntaxError) and error.filename == place:
        return f"line {error.lineno}: "
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == place]
    return f"line {lines[-1]}: " if lines else ""
