"""What a run tells while it works: a live line on a terminal, plain lines elsewhere, and everything in log.txt."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from rich.console import Console as RichConsole
    from rich.progress import Progress, TaskID

PLAIN_SECONDS = 5.0  # between two plain lines of the same work
LIVE_SECONDS = 0.1  # between two drawings of a bar that moves fast


class Console:
    """Sentences and progress, to standard error, so that standard output stays clean for results."""

    def __init__(self, *, quiet: bool = False, stream: TextIO | None = None) -> None:
        self.quiet = quiet
        self.stream = stream or sys.stderr
        self.log: Path | None = None
        self._held: list[str] = []  # said before there was a log
        self._progress: Progress | None = None
        self._task: TaskID | None = None
        self._last_line = 0.0
        self.started = time.monotonic()
        self.first_loss_after: float | None = None  # seconds from the start to the first loss that was shown

    @property
    def live(self) -> bool:
        """Whether progress is drawn in place."""
        return not self.quiet and self.stream.isatty()

    def keep_log(self, path: Path) -> None:
        """From now on write all sentences to this file too, also those said before."""
        self.log = path
        for text in self._held:
            self._write_log(text)
        self._held.clear()

    def say(self, text: str) -> None:
        """A sentence for the reader and the log."""
        if self.log is None:
            self._held.append(text)
        else:
            self._write_log(text)
        if self.quiet:
            return
        if self._progress is not None:
            self._progress.console.print(text, markup=False, highlight=False, soft_wrap=True)
        else:
            print(text, file=self.stream, flush=True)

    def _write_log(self, text: str) -> None:
        from octavo.training.checkpoint import storage_errors  # torch, which no line without a log needs

        assert self.log is not None
        with storage_errors(self.log.parent), self.log.open("a", encoding="utf-8") as file:
            file.write(text + "\n")

    @contextmanager
    def working(self, what: str, total: float | None) -> Iterator[None]:
        """Long work of `total` parts (None: unknown); report it with `advance`."""
        if not self.live:
            yield
            return
        from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeRemainingColumn

        with Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(bar_width=30),
            TextColumn("{task.percentage:>3.0f} %"),
            TextColumn("{task.fields[note]}"),
            TimeRemainingColumn(compact=True),
            console=self._rich(),
            refresh_per_second=4,
            transient=True,
        ) as self._progress:
            self._task = self._progress.add_task(what, total=total, note="")
            try:
                yield
            finally:
                self._progress_done()
        self._progress = None

    def _progress_done(self) -> None:
        self._task = None

    def _rich(self) -> RichConsole:
        from rich.console import Console as RichConsole

        return RichConsole(file=self.stream)

    def advance(self, done: float, note: str, *, first: bool = False) -> None:
        """How far the work is, with a note; a plain line now and then where nothing can be drawn in place."""
        if first and self.first_loss_after is None:
            self.first_loss_after = time.monotonic() - self.started
        if self._progress is not None and self._task is not None:
            self._progress.update(self._task, completed=done, note=note)
        elif not self.quiet:
            now = time.monotonic()
            if first or now - self._last_line >= PLAIN_SECONDS:
                self._last_line = now
                print(note, file=self.stream, flush=True)

    def read(self, done: int, total: int | None) -> None:
        """How much of a text is read, in bytes; may be called as often as one likes."""
        now = time.monotonic()
        if self._progress is not None and self._task is not None:
            if now - self._last_line >= LIVE_SECONDS or done == total:
                self._last_line = now
                self._progress.update(self._task, completed=done, total=total, note=f"{done / 1e6:,.0f} MB")
        elif not self.quiet and now - self._last_line >= PLAIN_SECONDS:
            if self._last_line:  # not for texts that are read at once
                print(f"reading the text: {done / 1e6:,.0f} MB", file=self.stream, flush=True)
            self._last_line = now
