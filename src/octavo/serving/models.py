"""The models that are served: found by name, loaded when they are asked for, and put away when memory is short."""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import os
import re
import warnings
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from octavo.errors import InputError, OctavoError, RunFolderError
from octavo.generation.drafts import Drafts
from octavo.generation.engine import Engine, fastest_decoder
from octavo.generation.sampling import BYTES, Precision
from octavo.model.adapters import merged
from octavo.run.folder import Progress, RunFolder
from octavo.run.list import run_folders
from octavo.run.run import Run
from octavo.serving.errors import Refusal, wrong
from octavo.serving.scheduler import Scheduler
from octavo.task import task_of
from octavo.training.checkpoint_folder import MANIFEST, CheckpointFolder, follow, list_checkpoints
from octavo.util.memory import in_words
from octavo.util.runs import found

LOG = logging.getLogger("octavo.serve")
SLOTS = 64
WEIGHTS = "model.safetensors"
LEAST_SLOTS = 1
Key = tuple[Path, str]
"""What is loaded: a checkpoint's folder, and the hash of its manifest."""
NAME = re.compile(r"[^\w./+-]+")


@dataclass(frozen=True)
class Place:
    """A run on disk, or a checkpoint alone, and what it is called."""

    name: str
    path: Path

    @property
    def alone(self) -> bool:
        """Whether it is a checkpoint."""
        return (self.path / MANIFEST).is_file()

    def link(self, which: str) -> Path:
        """What says which folder best, last or a step means."""
        if self.alone:
            return self.path
        folder = RunFolder(self.path)
        if which in ("best", "last"):
            return folder.best if which == "best" else folder.last
        return folder.checkpoints / f"step-{int(which):06d}"

    def checkpoint(self, which: str) -> Path | None:
        """The folder that best, last or a step means now."""
        link = self.link(which)
        if self.alone:
            return link if which == "best" else None
        if which in ("best", "last"):
            wanted = follow(link)
            return None if wanted is None else wanted.folder
        return link if link.is_dir() else None

    @property
    def steps(self) -> list[int]:
        """Of the kept checkpoints."""
        kept = [] if self.alone else list_checkpoints(RunFolder(self.path).checkpoints)
        return [checkpoint.step for checkpoint in kept]

    @property
    def finished(self) -> bool:
        """Whether its training has ended, as far as its newest checkpoint says."""
        kept = [] if self.alone else list_checkpoints(RunFolder(self.path).checkpoints)
        try:
            return not kept or Progress.of(kept[-1]).finished
        except OctavoError:
            return True


TRIES = 5
"""How often a model is read whose files a training replaces each time."""


@dataclass(eq=False)
class Served:
    """A model that is loaded.

    Attributes:
        key: what it was loaded from.
        scheduler: None of a model that goes on from no text.
        users: requests that use it now; only one without any is put away.
        memory: bytes that it takes.
        floor: the entropy of its source in nats per token, where that is known.
        files: what it was loaded from, as it was then.
        told: what users should know of it.
    """

    name: str
    key: Key
    run: Run
    engine: Engine
    scheduler: Scheduler | None
    task: str
    memory: int
    files: Seen
    floor: float | None = None
    told: str | None = None
    users: int = 0
    used: int = 0
    load: int = 0
    """Texts under way or waiting."""
    kept: dict[str, Any] = field(default_factory=dict)
    """What endpoints keep of it."""

    @property
    def notice(self) -> str | None:
        """What users should know of it now."""
        return self.told if self.files.still() else CHANGED

    @property
    def fingerprint(self) -> str:
        """Which weights these are."""
        return f"step-{self.run.step}-{self.key[1][:12]}"


class Models:
    """Runs by their names. Used from one event loop; loading happens in a thread of its own.

    Args:
        memory: bytes that loaded models may take together.
        slots: texts that a model writes at once, at most.
    """

    def __init__(
        self, places: Sequence[Place], *, memory: int, slots: int = SLOTS, precision: Precision = "float32"
    ) -> None:
        self.places = {place.name: place for place in places}
        self.memory, self.slots, self.precision = memory, slots, precision
        self.loaded: dict[Key, Served] = {}
        self._last: dict[str, Served] = {}  # what a name meant when it was last there
        self._seen: dict[tuple[Place, str], Seen] = {}
        self._clock = 0
        self._loading = asyncio.Lock()
        self._loads: dict[Key, asyncio.Task[Served]] = {}
        self._wanted: Counter[Key] = Counter()  # those that wait for a load
        self._loader = ThreadPoolExecutor(1, "octavo-loader")
        self.past: Counter[str] = Counter()  # tokens of models that were put away

    @property
    def taken(self) -> int:
        """Bytes of loaded models."""
        return sum(served.memory for served in self.loaded.values())

    @asynccontextmanager
    async def using(self, name: str | None) -> AsyncIterator[Served]:
        """A model that stays loaded within the context. Raises Refusal."""
        served = await self._get(self._meant(name))
        served.users += 1
        try:
            yield served
        finally:
            served.users -= 1
            self._clock += 1
            served.used = self._clock

    def _meant(self, name: str | None) -> tuple[Place, str]:
        """The run that a name means, and which of its checkpoints."""
        if name is None:
            if len(self.places) == 1:
                return next(iter(self.places.values())), "best"
            raise wrong(f"Which model? This server has {len(self.places)}; /v1/models lists them.", "model")
        run, at, which = name.partition("@")
        which = which if at else "best"
        place = self.places.get(run)
        known = which in ("best", "last") or (which.isascii() and which.isdecimal() and len(which) <= 12)
        if place is None or not known:
            raise unknown(name)
        return place, which

    async def _get(self, meant: tuple[Place, str]) -> Served:
        place, which = meant
        name = place.name if which == "best" else f"{place.name}@{which}"
        key = self._key(place, which)
        if key is None:
            if (served := self._last.get(name)) is not None and served.key in self.loaded:
                return served
            raise unknown(name) if which not in ("best", "last") else Refusal(503, NOT_THERE, param="model")
        if (served := self.loaded.get(key)) is None:
            served = await self._loaded(place, which, name, key)
        before = self._last.get(name)
        if before is not None and before is not served:
            LOG.warning("%s is step %d now; it was step %d", name, served.run.step, before.run.step)
        self._last[name] = served
        return served

    def _key(self, place: Place, which: str) -> Key | None:
        """As `key_of`, without reading what has not changed."""
        seen = self._seen.get((place, which))
        if seen is None or not seen.still():
            folder = place.checkpoint(which)  # before the key: what changes in between is seen next time
            seen = None if folder is None else Seen.now(place.link(which), folder / MANIFEST)
            key = key_of(place, which)
            if seen is None or key is None or key[0] != folder:
                return key
            self._seen[place, which] = seen = replace(seen, key=key)
        return seen.key

    async def _loaded(self, place: Place, which: str, name: str, key: Key) -> Served:
        """Wait until it is loaded, which goes on where the one that waits leaves."""
        if (task := self._loads.get(key)) is None:
            task = self._loads[key] = asyncio.create_task(self._load(place, which, name, key))
            task.add_done_callback(lambda _: self._loads.pop(key))
            task.add_done_callback(lambda task: task.cancelled() or task.exception())
        self._wanted[key] += 1
        try:
            return await asyncio.shield(task)
        finally:
            self._wanted[key] -= 1

    async def _load(self, place: Place, which: str, name: str, key: Key) -> Served:
        async with self._loading:
            return await self._load_alone(place, which, name, key)

    async def _load_alone(self, place: Place, which: str, name: str, key: Key, tries: int = TRIES) -> Served:
        self._make_room(least_memory(key[0]))
        try:
            loop = asyncio.get_running_loop()
            served = await loop.run_in_executor(self._loader, self._read, place, which, name, key)
        except OctavoError as error:
            now = self._key(place, which)
            if now is not None and now != key and tries > 1:
                # A training that goes on took its checkpoint away.
                return await self._load_alone(place, which, name, now, tries - 1)
            LOG.error("%s cannot be served: %s", name, error.what)
            raise Refusal(503, NOT_LOADED, param="model") from error
        self._make_room(served.memory)
        self.loaded[served.key] = served
        LOG.info("loaded %s, step %d, %s", name, served.run.step, in_words(served.memory))
        return served

    def _make_room(self, need: int) -> None:
        """Put models away that nobody uses, the one first that was used last the longest ago. Raises Refusal."""
        if need > self.memory:
            raise Refusal(
                503,
                f"This model takes {in_words(need)} of memory, and the server may use {in_words(self.memory)}.",
                param="model",
            )
        idle = [one for one in self.loaded.values() if not one.users and not self._wanted[one.key]]
        idle.sort(key=lambda one: one.used)
        for served in idle:
            if self.taken + need <= self.memory:
                break
            self._put_away(served)
        if self.taken + need > self.memory:
            raise Refusal(
                503,
                "Other models are in use and leave no memory for this one; try again later.",
                param="model",
                headers={"Retry-After": "5"},
            )

    def _put_away(self, served: Served) -> None:
        del self.loaded[served.key]
        if served.scheduler is not None:
            self.past.update(served.scheduler.counts)
        LOG.info("put away %s", served.name)

    def _read(self, place: Place, which: str, name: str, key: Key) -> Served:
        """Load a model; in the loader's thread. Raises OctavoError."""
        files = Seen.now(key[0] / MANIFEST, key[0] / WEIGHTS)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a damaged checkpoint is in `notices`
            run = Run.open(place.path, checkpoint=which)
        for notice in run.notices:
            LOG.warning("%s: %s", name, notice)
        told = f"Its checkpoint is damaged; step {run.step} is served in its place." if run.notices else None
        if told is None and not place.finished:
            told = f"Its training had not ended when it was loaded; step {run.step} is served."
        engine = Engine(run.model, run.tokenizer, precision=self.precision)
        try:
            run.refuse_no_text()
            writes = True
        except OctavoError:
            writes = False
        scheduler, own = None, 4 * sum(weight.numel() for weight in run.model.parameters())
        memory = 2 * own  # as they were loaded, and as a decoder has them
        if writes:
            each = (
                BYTES[self.precision] * run.model.cache_numbers * run.model.context
                + 4 * run.tokenizer.vocab_size
            )
            slots = max(LEAST_SLOTS, min(self.slots, (self.memory - memory) // 2 // max(1, each)))
            memory += slots * each
            model = merged(run.model.eval())
            window = run.config.sampling.window
            decoder = fastest_decoder(model)(model, slots=slots, precision=self.precision, window=window)
            scheduler = Scheduler(decoder, Drafts.of(decoder))
        return Served(
            name=name,
            key=key,
            run=run,
            engine=engine,
            scheduler=scheduler,
            task=task_of(run.config).kind,
            memory=memory,
            floor=floor_of(run) if writes else None,
            files=files,
            told=told,
        )

    def close(self) -> None:
        """Load nothing more."""
        self._loader.shutdown(wait=False, cancel_futures=True)


CHANGED = "The files of this model were changed or removed after it was loaded; what was loaded is served."
NOT_THERE = "This model has no checkpoint now: it has not begun, or its files were removed."
NOT_LOADED = "This model cannot be loaded; the server's log says why."


def unknown(name: str) -> Refusal:
    """A model that there is not."""
    shown = name if len(name) <= 100 else f"{name[:100]}…"
    return Refusal(
        404,
        f"There is no model '{shown}'; /v1/models lists those that there are.",
        param="model",
        code="model_not_found",
    )


@dataclass(frozen=True)
class Seen:
    """Files as they were when a key was made of them."""

    files: tuple[Path, ...]
    marks: tuple[object, ...]
    key: Key | None = None

    @classmethod
    def now(cls, *files: Path) -> Seen:
        """As they are."""
        return cls(files, tuple(map(mark, files)))

    def still(self) -> bool:
        """Whether they are so now."""
        return None not in self.marks and self.marks == tuple(map(mark, self.files))


def mark(path: Path) -> tuple[int, ...] | None:
    """What changes when a file is written or replaced; None where there is none."""
    try:
        found = os.lstat(path)
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def key_of(place: Place, which: str) -> Key | None:
    """What would be loaded now; None where nothing is there."""
    try:
        folder = place.checkpoint(which)
        if folder is None:
            return None
        return folder, hashlib.sha256((folder / MANIFEST).read_bytes()).hexdigest()
    except (OSError, OctavoError):
        return None


def least_memory(folder: Path) -> int:
    """Bytes that a checkpoint's model takes at least."""
    try:
        return 2 * (folder / WEIGHTS).stat().st_size
    except OSError:
        return 0


def floor_of(run: Run) -> float | None:
    """The entropy of the source that a run learned from, in nats per token, where its evaluation knows it."""
    if run.folder is None:
        return None
    try:
        told = json.loads(run.folder.evaluation.read_text(encoding="utf-8"))
        floor = told.get("source_entropy") if told.get("unit") in (None, "nats per token") else None
    except (OSError, ValueError, AttributeError):
        return None
    return float(floor) if isinstance(floor, int | float) else None


def places_of(paths: Sequence[Path]) -> list[Place]:
    """The runs that some paths mean: run folders, names in `runs`, checkpoint folders, folders of runs.

    Raises InputError where one means none, or two would have one name.
    """
    places: list[Place] = []
    for given in paths:
        path = found(given)
        if (path / MANIFEST).is_file():
            CheckpointFolder(path).verify(contents=False)
            places.append(Place(named(path.name), path))
        elif (path / "config.yaml").is_file():
            if not list_checkpoints(RunFolder(path).checkpoints):
                raise RunFolderError(f"{given} has no checkpoint yet.", remedy="let it train on for a while")
            places.append(Place(named(path.resolve().name), path))
        elif path.is_dir():
            inside = [one for one in run_folders(path) if list_checkpoints(RunFolder(one).checkpoints)]
            if not inside:
                raise RunFolderError(
                    f"{given} is no run, and holds none.", remedy="octavo runs lists the runs here"
                )
            places += [Place(named(one.relative_to(path).as_posix()), one) for one in inside]
        else:
            raise RunFolderError(f"{given} does not exist.", remedy="octavo runs lists the runs here")
    names = [place.name for place in places]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise InputError(
            f"Two runs would be called {twice[0]}.", remedy="give the folder that holds both, or rename one"
        )
    return places


def named(name: str) -> str:
    """A model's name, of letters, digits and ._/+-; @ stands before a step."""
    return NAME.sub("-", name).strip("-") or "model"
