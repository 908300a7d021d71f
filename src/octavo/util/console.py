"""What a run tells while it works: a live line on a terminal, plain lines elsewhere, and everything in log.txt."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from octavo.errors import in_python
from octavo.util.files import storage_errors
from octavo.util.terminal import Line, columns_of, heedless, put, shown, wrapped

if TYPE_CHECKING:
    from rich.live import Live

PLAIN_SECONDS = 5.0  # between two plain lines of the same work


class ReadingTooLong(Exception):
    """A text that is not read in the time that it was given: `done` of `total` bytes are."""

    def __init__(self, done: int, total: int | None) -> None:
        super().__init__(f"{done} of {total} bytes")
        self.done, self.total = done, total


class Console:
    """Sentences and progress, to standard error, so that standard output stays clean for results.

    `words` puts sentences, which name commands and options, into the words of who reads them.
    """

    def __init__(
        self, *, quiet: bool = False, stream: TextIO | None = None, words: Callable[[str], str] = str
    ) -> None:
        self.quiet, self.words = quiet, words
        self.stream = heedless(stream or sys.stderr)
        self.log: Path | None = None
        self._held: list[str] = []  # said before there was a log
        self._once: set[str] = set()  # said, and not to be said again in this log
        self._live: Live | None = None
        self._line = Line()  # of the work in progress
        self._last_line = 0.0
        self.started = time.monotonic()
        # Seconds before and after the part of the work that is in progress.
        self._before, self._after = 0.0, 0.0
        self.reading_ends: float | None = None  # when reading a text is given up, by the monotonic clock
        self.first_loss_after: float | None = None  # seconds from the start to the first loss that was shown

    @classmethod
    def in_python(cls, *, quiet: bool = False) -> Console:
        """One for somebody who called a function."""
        return cls(quiet=quiet, words=in_python)

    @property
    def live(self) -> bool:
        """Whether progress is drawn in place."""
        return not self.quiet and self.stream.isatty()

    def keep_log(self, path: Path) -> None:
        """From now on write all sentences to this file too, also those said before."""
        if self.log is not None:
            self._once.clear()
        self.log = path
        for text in self._held:
            self._write_log(text)
        self._held.clear()

    def say(self, text: str) -> None:
        """A sentence for the reader and the log."""
        text = self.words(text)
        if self.log is None:
            self._held.append(text)
        else:
            self._write_log(text)
        if self.quiet:
            return
        if self._live is not None:
            lines = wrapped(shown(text), columns_of(self.stream))
            self._live.console.print(lines, markup=False, highlight=False, soft_wrap=True)
        else:
            with suppress(OSError):  # the log has it, and no work ends for what nobody can be told
                put(text, self.stream)

    def say_once(self, text: str) -> None:
        """A sentence that is of no more use the second time: of a text that is read anew."""
        if text not in self._once:
            self._once.add(text)
            self.say(text)

    def _write_log(self, text: str) -> None:
        assert self.log is not None
        with storage_errors(self.log.parent), self.log.open("a", encoding="utf-8") as file:
            file.write(shown(text) + "\n")

    @contextmanager
    def working(self, what: str, total: float | None) -> Iterator[None]:
        """Long work of `total` parts (None: unknown); report it with `advance`."""
        self._line = Line(what, total)
        if not self.live:
            yield
            return
        from rich.console import Console as RichConsole
        from rich.live import Live

        console = RichConsole(file=self.stream)
        try:
            with Live(self._line, console=console, refresh_per_second=4, transient=True) as self._live:
                yield
        finally:
            self._live = None

    def advance(self, done: float, note: str, *, first: bool = False) -> None:
        """How far the work is, with a note; a plain line now and then where nothing can be drawn in place."""
        if first and self.first_loss_after is None:
            self.first_loss_after = self._before + time.monotonic() - self.started
        self._line.move(done, note)
        self._plainly(self._line.plain, at_once=first)

    def expect(self, total: float, *, ends: float | None = None) -> None:
        """The work has so many parts now, and all is over then (monotonic seconds), where that is known."""
        self._line.total, self._line.ends = total, None if ends is None else ends + self._after

    @contextmanager
    def part(self, after: float) -> Iterator[None]:
        """Work that is a part of other work: in it time counts from now, and when it is over so many seconds come."""
        outer, now = (self.started, self._before, self._after), time.monotonic()
        self.started, self._before, self._after = now, self._before + now - self.started, after
        try:
            yield
        finally:
            self.started, self._before, self._after = outer

    def read(self, done: int, total: int | None) -> None:
        """How much of a text is read, in bytes; may be called as often as one likes. Raises ReadingTooLong."""
        if self.reading_ends is not None and time.monotonic() > self.reading_ends:
            raise ReadingTooLong(done, total)
        self._line.total = total
        self._line.move(done, f"{done / 1e6:,.0f} MB" if done >= 1e7 else f"{done / 1e3:,.0f} kB")
        if self._last_line:
            self._plainly(f"{self._line.what}: {self._line.plain}")
        else:  # texts that are read at once are not worth a line
            self._last_line = time.monotonic()

    def _plainly(self, line: str, *, at_once: bool = False) -> None:
        now = time.monotonic()
        if self._live is None and not self.quiet and (at_once or now - self._last_line >= PLAIN_SECONDS):
            self._last_line = now
            with suppress(OSError):
                put(line, self.stream)
