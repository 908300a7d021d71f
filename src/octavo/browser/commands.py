"""Commands that the page starts: ordinary ones, each in a process that outlives page and server.

.octavo/jobs/0001/ job.json · log.txt · .lock (held while it runs) · stop · ended.json
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from octavo.browser.errands import complaint
from octavo.browser.runs import NOTHING, Stamp, stamp
from octavo.config.parts import command
from octavo.errors import StorageError
from octavo.serving.errors import Refusal
from octavo.util.files import is_held, replace_text, storage_errors
from octavo.util.records import json_text, parse_json
from octavo.util.terminal import shown

WRITERS = ("train", "demo", "more", "tune")
"""Kinds that write the run that they are about."""
MOST_RUNNING = 4
LISTED = 40
"""Jobs that are listed, the newest."""
TAIL = 6000
"""Bytes of a log's end that are looked at."""
LINES = 14
STARTING = 10.0
"""Seconds in which the process of a job has taken its lock, or it never will."""


@dataclass(frozen=True)
class JobCard:
    """A command as the page lists it.

    Attributes:
        kind: train, more, demo, explain, export or tune.
        command: to copy into a terminal.
        about: the run that it writes or reads, as a path.
        code: with which it ended; None while it runs, or where it was killed with its supervisor.
        said: its last lines.
        error: what went wrong, in its words.
    """

    id: str
    kind: str
    command: str
    about: str
    began: float
    running: bool = False
    stopping: bool = False
    code: int | None = None
    ended: float | None = None
    said: tuple[str, ...] = ()
    error: str | None = None


class Jobs:
    """The jobs of a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._over: dict[str, JobCard] = {}  # nothing changes about them any more
        self._read: dict[str, tuple[Stamp, tuple[str, ...]]] = {}

    def cards(self) -> Iterator[tuple[str, JobCard]]:
        """The newest."""
        for path in self._newest():
            if (card := self.card(path)) is not None:
                yield f"job:{card.id}", card

    def start(self, kind: str, words: Sequence[str], about: Path) -> JobCard:
        """Start `octavo WORDS`. Raises Refusal where too many run, or one for the same run; StorageError."""
        running = [card for _, card in self.cards() if card.running]
        same = [card.kind for card in running if card.about == str(about)]
        if kind in same or (kind in WRITERS and any(other in WRITERS for other in same)):
            raise Refusal(409, "Another command that was started here is at work on this run.")
        if len(running) >= MOST_RUNNING:
            raise Refusal(
                429, f"{MOST_RUNNING} commands run already, and share this machine; wait for one of them."
            )
        with storage_errors(self.folder):
            folder = self._new()
            told = {"kind": kind, "words": list(words), "about": str(about), "began": time.time()}
            replace_text(folder / "job.json", json_text(told, ensure_ascii=False))
            with (folder / "log.txt").open("ab") as log:
                subprocess.Popen(
                    [sys.executable, "-P", "-m", "octavo.browser.command_child", str(folder.absolute())],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,  # Ctrl-C is for the server
                    close_fds=True,
                )
        card = self.card(folder)
        if card is None:
            raise StorageError(f"{folder} could not be written.")
        return card

    def stop(self, id: str) -> None:
        """Ask a job to save and end. Raises Refusal where it does not run."""
        path = self.folder / id
        card = self.card(path) if id.isdecimal() and id.isascii() else None
        if card is None or not card.running:
            raise Refusal(409, "This command does not run any more.")
        with storage_errors(path):
            (path / "stop").touch()

    def log(self, id: str, most: int) -> bytes:
        """The end of what a job said. Raises Refusal."""
        path = self.folder / id / "log.txt"
        if not (id.isdecimal() and id.isascii() and path.is_file()):
            raise Refusal(404, "There is no such command.")
        return tail(path, most)

    def card(self, folder: Path) -> JobCard | None:
        """A job; None where the folder holds none."""
        if (known := self._over.get(folder.name)) is not None:
            return known
        try:
            told = parse_json((folder / "job.json").read_bytes())
            words = [str(word) for word in told["words"]]
            began = float(told["began"])
            card = JobCard(
                folder.name, str(told["kind"]), command("octavo", *words), str(told["about"]), began
            )
        except (OSError, ValueError, KeyError, TypeError):
            return None
        ended = self._ended(folder)
        running = ended is None and (is_held(folder / ".lock") or time.time() - began < STARTING)
        said = self._said(folder)
        code = None if ended is None else ended.get("code")
        stopped = (folder / "stop").exists()
        wrong = not running and code != 0 and not (stopped and code == 130)
        card = JobCard(
            card.id,
            card.kind,
            card.command,
            card.about,
            began,
            running=running,
            stopping=running and stopped,
            code=code if isinstance(code, int) else None,
            ended=None if ended is None else float(ended.get("ended") or 0),
            said=said[-LINES:],
            error=(complaint(said) or "") if wrong else None,
        )
        if ended is not None:
            self._over[folder.name] = card
        return card

    def _ended(self, folder: Path) -> Any:
        try:
            return parse_json((folder / "ended.json").read_bytes())
        except (OSError, ValueError):
            return None

    def _said(self, folder: Path) -> tuple[str, ...]:
        """The last lines of its log, clean of control characters."""
        path = folder / "log.txt"
        now = stamp(path)
        kept = self._read.get(folder.name)
        if kept is None or kept[0] != now:
            text = tail(path, TAIL).decode("utf-8", "replace") if now != NOTHING else ""
            lines = tuple(shown(line) for line in text.split("\n") if line.strip())
            self._read[folder.name] = kept = (now, lines)
        return kept[1]

    def _newest(self) -> list[Path]:
        try:
            names = [entry.name for entry in os.scandir(self.folder) if entry.name.isdecimal()]
        except OSError:
            return []
        return [self.folder / name for name in sorted(names, key=int)[-LISTED:]]

    def _new(self) -> Path:
        """A folder of the next number; two that are started at once get two."""
        self.folder.mkdir(parents=True, exist_ok=True)
        while True:
            newest = self._newest()
            path = self.folder / f"{int(newest[-1].name) + 1 if newest else 1:04d}"
            try:
                path.mkdir()
                return path
            except FileExistsError:
                continue


def tail(path: Path, most: int) -> bytes:
    """The end of a file, from the beginning of a line where it is cut."""
    with path.open("rb") as file:
        length = file.seek(0, os.SEEK_END)
        file.seek(max(0, length - most))
        read = file.read(most)
    return read if length <= most else read[read.find(b"\n") + 1 :]
