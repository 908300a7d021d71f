"""What the page knows of each run: followed by what has changed on the disk, and by no database.

metrics.jsonl is read by a cursor, new lines alone; everything else again where its file has another stamp.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from octavo.config import stored_recipe
from octavo.errors import OctavoError
from octavo.run.folder import Progress, RunFolder
from octavo.task import task_of
from octavo.training.checkpoint_folder import list_checkpoints
from octavo.util.files import is_held
from octavo.util.records import parse_json, read_record
from octavo.util.terminal import finite

State = Literal["preparing", "training", "stopped", "finished", "damaged"]
MOST_READ = 2**21
"""Bytes of metrics that an answer holds, at most."""
MOST_LISTED = 400
"""Samples and checkpoints of a run that are listed, the newest."""
Stamp = tuple[int, int, int]
NOTHING: Stamp = (0, 0, 0)


def stamp(path: Path) -> Stamp:
    """Which file this is, how long, and when it was written."""
    try:
        found = path.stat()
    except OSError:
        return NOTHING
    return (found.st_ino, found.st_size, found.st_mtime_ns)


@dataclass(frozen=True)
class Cursor:
    """A place in a file that only grows, until another one takes its name."""

    file: int
    offset: int

    @classmethod
    def of(cls, text: str) -> Cursor:
        """From a client. Raises ValueError."""
        file, _, offset = text.partition("-")
        if not (text.isascii() and file.isdecimal() and offset.isdecimal() and len(text) < 48):
            raise ValueError(text)
        return cls(int(file), int(offset))

    def __str__(self) -> str:
        return f"{self.file}-{self.offset}"


START = Cursor(0, 0)


def lines_after(path: Path, cursor: Cursor, most: int = MOST_READ) -> tuple[bytes, Cursor, bool]:
    """Whole lines of a file beyond a cursor, the cursor beyond these, and whether they are from the beginning, because
    it is another file or a shorter one. A line that is longer than all that is read at once is passed over."""
    try:
        with path.open("rb") as file:
            found = os.fstat(file.fileno())
            anew = found.st_ino != cursor.file or found.st_size < cursor.offset
            begin = 0 if anew else cursor.offset
            file.seek(begin)
            read = file.read(most)
    except OSError:
        return b"", START, cursor != START
    end = read.rfind(b"\n") + 1
    if not end and len(read) == most:
        return b"", Cursor(found.st_ino, begin + most), anew
    return read[:end], Cursor(found.st_ino, begin + end), anew


@dataclass(frozen=True)
class Promised:
    """What was promised before a training by the clock."""

    minutes: float
    bits: float
    within: float

    @classmethod
    def of(cls, told: Mapping[str, Any]) -> Promised | None:
        """From a manifest; None where it holds something else."""
        minutes, bits, within = (finite(told.get(key)) for key in ("minutes", "bits", "within"))
        return None if minutes is None or bits is None or within is None else cls(minutes, bits, within)


@dataclass(frozen=True)
class Card:
    """A run as the page lists it. What is not known is None.

    Attributes:
        path: as a command would name it.
        held: whether a process writes it now.
        began: seconds since 1970 at which its settings were written; `written`: its last figures.
        ends: when its training should be over, seconds since 1970.
        metrics: which metrics.jsonl, and how long: another one tells that there is something to read.
        counts: whether it counts beside its network; `counting`: the weight that this has, once it is known.
        verdict: what its report says of it, in sentences; `next`: the command for what comes next.
        changed: texts that are not as they were when the run began, or not there.
        damage: what could not be read.
    """

    id: str
    path: str
    state: State = "preparing"
    held: bool = False
    task: str | None = None
    description: str = ""
    recipe: str = ""
    texts: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    parameters: int | None = None
    step: int = 0
    steps: int | None = None
    minutes: float | None = None
    promise: Promised | None = None
    came_out: float | None = None
    bits: float | None = None
    loss: float | None = None
    unit: str | None = None
    counting: float | None = None
    counts: bool = False
    verdict: tuple[str, ...] = ()
    next: str = ""
    tokens_per_second: float | None = None
    began: float | None = None
    written: float | None = None
    ends: float | None = None
    metrics: str = ""
    samples: tuple[int, ...] = ()
    checkpoints: tuple[int, ...] = ()
    report: bool = False
    explained: bool = False
    study: str | None = None
    variant: str | None = None
    seed: int | None = None
    damage: str | None = None


@dataclass
class Facts:
    """What a card does not say.

    Attributes:
        stamps: of each file that was read; `damages`: what was wrong with it.
        progress: of the newest checkpoint; `saved`: when that was written.
        made: when the manifest was written.
        rate: steps, and seconds of training, at the last row of a training.
    """

    stamps: dict[str, Stamp] = field(default_factory=dict)
    damages: dict[str, str] = field(default_factory=dict)
    progress: Progress | None = None
    saved: float = 0.0
    made: float | None = None
    cursor: Cursor = START
    rate: tuple[int, float] | None = None


class Followed:
    """A run's folder, and what was read of it so far.

    Args:
        shown: its path as a command would name it.
        place: of a run of a study, that study's id, the variant and the seed.
    """

    def __init__(self, id: str, path: Path, shown: str, place: tuple[str, str, int] | None = None) -> None:
        self.path, self.folder, self._facts = path, RunFolder(path), Facts()
        study, variant, seed = place or (None, None, None)
        self.card = Card(id, shown, study=study, variant=variant, seed=seed)

    def look(self) -> Card:
        """What there is now."""
        folder, facts = self.folder, self._facts
        parts: tuple[tuple[Path, Callable[[], Card]], ...] = (
            (folder.config, self._settings),
            (folder.manifest, self._manifest),
            (folder.evaluation, self._evaluation),
            (folder.checkpoints, self._checkpoints),
            (folder.samples, self._samples),
            (folder.metrics, self._metrics),
        )
        for path, read in parts:
            now = stamp(path)
            if facts.stamps.get(path.name, NOTHING) == now:
                continue
            facts.stamps[path.name] = now
            facts.damages.pop(path.name, None)
            try:
                self.card = read()
            except OctavoError as error:
                facts.damages[path.name] = error.what
            except (OSError, ValueError) as error:
                facts.damages[path.name] = f"{path.name}: {error}"
        self.card = replace(
            self.card,
            damage=next(iter(facts.damages.values()), None),
            report=(folder.report / "index.html").is_file(),
            explained=(self.path / "explain.html").is_file(),
            held=is_held(self.path / ".lock"),
        )
        self.card = replace(self.card, state=self._state())
        self.card = replace(self.card, ends=self._ends(), changed=self._changed())
        return self.card

    def _state(self) -> State:
        card, progress = self.card, self._facts.progress
        if card.held:
            return "training" if card.metrics else "preparing"
        if progress is not None and progress.finished:
            return "finished"
        return "damaged" if card.damage else "stopped"

    def _settings(self) -> Card:
        recipe = stored_recipe(self.folder.config)
        training = recipe.training
        return replace(
            self.card,
            task=task_of(recipe).kind,
            description=recipe.description,
            texts=tuple(str(path) for path in getattr(recipe.corpus, "paths", None) or ()),
            steps=training.steps,
            minutes=training.minutes,
            counts=getattr(getattr(recipe.model, "counts", None), "kind", "none") != "none",
            began=self.folder.config.stat().st_mtime,
        )

    def _manifest(self) -> Card:
        manifest = read_record(self.folder.manifest)
        self._facts.made = self.folder.manifest.stat().st_mtime
        name, auto, looks = manifest.get("recipe"), manifest.get("auto"), manifest.get("test_looks")
        promised = auto.get("promise") if isinstance(auto, dict) else None
        last = looks[-1] if isinstance(looks, list) and looks else None
        return replace(
            self.card,
            recipe=name if isinstance(name, str) else "",
            promise=Promised.of(promised) if isinstance(promised, dict) else None,
            came_out=finite(last.get("bits_per_byte")) if isinstance(last, dict) else None,
        )

    def _evaluation(self) -> Card:
        found = read_record(self.folder.evaluation)
        counted, count, said, then = (found.get(key) for key in ("counted", "parameters", "verdict", "next"))
        return replace(
            self.card,
            parameters=count if isinstance(count, int) else None,
            counting=finite(counted.get("trust_in_counting")) if isinstance(counted, dict) else None,
            verdict=tuple(map(str, said)) if isinstance(said, list) else (),
            next=str(then.get("command", "")) if isinstance(then, dict) else "",
        )

    def _checkpoints(self) -> Card:
        there, facts, card = list_checkpoints(self.folder.checkpoints), self._facts, self.card
        if not there:
            facts.progress = None
            return replace(card, checkpoints=())
        facts.progress = progress = Progress.of(there[-1])
        facts.saved = there[-1].folder.stat().st_mtime
        return replace(
            card,
            step=progress.step if progress.finished else max(progress.step, card.step),
            steps=card.steps
            if card.minutes is None
            else int(progress.pace[-1][1])
            if progress.pace
            else progress.planned,
            checkpoints=tuple(one.step for one in there)[-MOST_LISTED:],
        )

    def _samples(self) -> Card:
        names = (path.name[5:-4] for path in self.folder.samples.glob("step-*.txt"))
        steps = sorted(int(name) for name in names if name.isdecimal())
        return replace(self.card, samples=tuple(steps)[-MOST_LISTED:])

    def _metrics(self) -> Card:
        facts = self._facts
        while True:
            lines, cursor, anew = lines_after(self.folder.metrics, facts.cursor)
            if anew:
                self.card = replace(self.card, step=0, bits=None, loss=None, unit=None)
                facts.rate = None
            if cursor == facts.cursor:
                break
            facts.cursor = cursor
            self._read(lines)
        now = stamp(self.folder.metrics)
        return replace(self.card, metrics=f"{now[0]}-{now[1]}", written=now[2] / 1e9)

    def _read(self, lines: bytes) -> None:
        """New rows: all that judge, of those of the training the last one."""
        rows = lines.splitlines()
        trained = next((at for at in reversed(range(len(rows))) if b'"train"' in rows[at]), -1)
        for at, line in enumerate(rows):
            if at != trained and b'"validation"' not in line:
                continue
            try:
                row = parse_json(line)
            except ValueError:
                continue
            step, loss, bits = (finite(row.get(key)) for key in ("step", "loss", "bits_per_byte"))
            card = replace(self.card, step=max(int(step or 0), self.card.step))
            if row.get("event") == "validation" and loss is not None and loss <= (card.loss or math.inf):
                unit = row.get("unit")
                card = replace(card, loss=loss, bits=bits, unit=unit if isinstance(unit, str) else None)
            if row.get("event") == "train" and step:
                seconds = finite(row.get("seconds"))
                card = replace(card, tokens_per_second=finite(row.get("tokens_per_second")))
                self._facts.rate = None if seconds is None else (int(step), seconds)
            self.card = card

    def _ends(self) -> float | None:
        card, facts = self.card, self._facts
        if not card.held:
            return None
        if card.minutes is not None:
            if facts.progress is None:
                return None
            return max(facts.saved, card.began or 0.0) + 60 * card.minutes - facts.progress.elapsed
        if card.steps is None or facts.rate is None or card.written is None:
            return None
        step, seconds = facts.rate
        return card.written + max(0, card.steps - step) * seconds / step

    def _changed(self) -> tuple[str, ...]:
        """Only where the run may still go on: what has ended has read its text."""
        made = self._facts.made
        if self.card.state != "stopped" or made is None:
            return ()
        return tuple(text for text in self.card.texts if text != "-" and _is_newer(text, made))


def _is_newer(text: str, than: float) -> bool:
    if ":" in text and not Path(text).exists():  # corpus:NAME, C:\…
        return False
    try:
        return Path(text).stat().st_mtime > than
    except (OSError, ValueError):
        return True
