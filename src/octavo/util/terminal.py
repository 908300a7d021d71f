"""Text as a reader sees it, and the console that a run tells its progress to.

A terminal obeys control characters, and texts, file names and replies of servers can hold any: on terminals, in logs
and on pages they stand as escapes. Files and pipes get the text itself. The console draws a live line on a terminal,
writes plain lines elsewhere, and everything into log.txt.
"""

from __future__ import annotations

import codecs
import errno
import html
import math
import os
import re
import sys
import textwrap
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO, cast

from octavo.errors import in_python
from octavo.util.files import storage_errors

if TYPE_CHECKING:
    from rich.console import Console as RichConsole
    from rich.console import ConsoleOptions, RenderResult
    from rich.live import Live

# All control characters but newline and tab; what ends a line or turns its direction unseen; half characters.
_UNSEEN = re.compile("[\\x00-\\x08\\x0b-\\x1f\\x7f-\\x9f\\u2028-\\u202e\\u2066-\\u2069\\ud800-\\udfff]")
_LEAD = re.compile(r"\s*(?:→ )?")
_COMMAND = re.compile(r"(?:octavo|pip|torchrun|make) ")
COLUMNS = 80  # of a terminal that does not say how wide it is


def shown(text: str) -> str:
    """The text with its control characters as escapes, such as \\x1b; newline and tab stay."""
    return _UNSEEN.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def shown_in_json(document: str) -> str:
    """A JSON document that means the same, with nothing in it that a terminal obeys or UTF-8 cannot hold."""
    return _UNSEEN.sub(lambda found: f"\\u{ord(found[0]):04x}", document)


def fenced(text: str, language: str = "text") -> str:
    """A Markdown code block that ends where the text does: its fence is longer than any run of backticks inside.
    Control characters stand in it as escapes."""
    longest = max(map(len, re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{shown(text).rstrip()}\n{fence}"


def in_markdown(text: str, *, table: bool = False) -> str:
    """A text as one line of Markdown in which nothing is a mark, a link or HTML; `table`: nor the end of a cell."""
    text = html.escape(shown(text.replace("\r", "").replace("\n", " ")), quote=False)
    return re.sub(r"([\\`*_\[\]#~|])" if table else r"([\\`*_\[\]#~])", r"\\\1", text)


def wrapped(text: str, columns: int) -> str:
    """Each line broken at spaces where it is too long. A command stays whole, so that it can be copied."""
    return "\n".join(_folded(line, columns) for line in text.split("\n"))


def _folded(line: str, columns: int) -> str:
    lead = _LEAD.match(line)
    assert lead is not None
    if len(line) <= columns or _COMMAND.match(line, lead.end()):
        return line
    return textwrap.fill(
        line,
        columns,
        subsequent_indent=" " * lead.end(),
        expand_tabs=False,
        replace_whitespace=False,
        break_long_words=False,
        break_on_hyphens=False,
    )


def columns_of(stream: TextIO) -> int:
    """How many columns a terminal has."""
    try:
        return os.get_terminal_size(stream.fileno()).columns or COLUMNS
    except (OSError, ValueError):  # it only plays a terminal
        return COLUMNS


class Heedless:
    """A text stream that falls silent for good when its reader is gone, as behind `| head`: then writing does nothing,
    where a plain stream would raise BrokenPipeError in whatever work is being told about.

    Attributes:
        unread: whether the reader is gone.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream, self._terminal, self.unread = stream, stream.isatty(), False

    def write(self, text: str) -> int:
        with self._noticing():
            self._stream.write(text)
        return len(text)

    def writelines(self, lines: list[str]) -> None:
        self.write("".join(lines))

    def flush(self) -> None:
        with self._noticing():
            self._stream.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    @contextmanager
    def _noticing(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            hung_up = self._terminal and error.errno == errno.EIO
            if not (hung_up or isinstance(error, ConnectionError)):
                raise
            self.unread = True
            self._lead_nowhere()

    def _lead_nowhere(self) -> None:
        """Let libraries, child processes and what is buffered write to the same descriptor without an error."""
        with suppress(OSError, ValueError):  # a stream that has no descriptor
            handle = self._stream.fileno()
            if handle in (1, 2):
                nowhere = os.open(os.devnull, os.O_WRONLY)
                os.dup2(nowhere, handle)
                os.close(nowhere)


def heedless(stream: TextIO | None) -> TextIO:
    """The stream as one that no lost reader makes fail. None, a stream that was closed when the program was started, is
    one that nobody reads."""
    if isinstance(stream, Heedless):
        return cast(TextIO, stream)
    if stream is None:
        stream = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115
    return cast(TextIO, Heedless(stream))


def put(text: str, stream: TextIO | None, *, end: str = "\n", wrap: bool = True) -> None:
    """Write text: for reading on a terminal, there wrapped at words too (`wrap`), and as it is elsewhere. None is the
    stream of a program that was started with it closed."""
    if stream is None:
        return
    if stream.isatty():
        text = shown(text)
        text = wrapped(text, columns_of(stream)) if wrap else text
    stream.write(text + end)
    stream.flush()


def duration(seconds: float) -> str:
    """A time as people say it beforehand, when nobody knows it better."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 90 * 60:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h" if seconds < 48 * 3600 else f"{seconds / 86400:.1f} days"


def in_minutes(minutes: float) -> str:
    """A time that somebody gave in minutes, as they gave it."""
    return f"{minutes:g} minute{'s' * (minutes != 1)}"


def exact_duration(seconds: float) -> str:
    """A time as people say it that was measured."""
    if seconds < 100:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def _bytes_or_escape(error: UnicodeError) -> tuple[str | bytes, int]:
    """What an encoding lacks: the byte of a path that is no UTF-8, else an escape."""
    try:
        return codecs.lookup_error("surrogateescape")(error)
    except UnicodeError:
        return codecs.lookup_error("backslashreplace")(error)


ERRORS = "octavo-bytes-or-escape"
"""For `errors=` of a stream that may never fail for what it is to show."""
codecs.register_error(ERRORS, _bytes_or_escape)


def listed(names: Sequence[str]) -> str:
    """`a, b and c`."""
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def significant(number: float, digits: int = 4) -> str:
    """A number in so many significant digits, whatever its size: 1,013.2 in five, 84.43 and 1.234e-06 in four."""
    if not number or not math.isfinite(number):
        return f"{number:g}"
    places = digits - 1 - math.floor(math.log10(abs(number)))
    if -digits <= places <= digits + 2:
        return f"{number:,.{max(0, places)}f}"
    return f"{number:.{digits - 1}e}"


def finite(value: Any) -> float | None:
    """The number, or None if there is none that can be drawn."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return float(value)


# The line that is drawn in place during long work, and how long it will take.

BAR = 8  # the least columns of a bar
WINDOW = 120.0  # seconds over which the pace is taken
EARLY = 2.0  # seconds before which nothing is foretold


def fitted(what: str, share: float | None, note: str, left: str, columns: int) -> tuple[str, int, str]:
    """What stands before the bar, the bar's columns, and what stands after it, so that the line fits.

    Where there is little room, first the name goes, then parts of the note from its end, then the bar.
    """
    percent = "" if share is None else f"{share:4.0%}".replace("%", " %")
    for before, middle in ((what, note), *(("", cut) for cut in cuts(note)), ("", "")):
        after = "  ".join(part for part in (percent, middle, left) if part)
        room = columns - len(before) - len(after) - bool(before) - bool(after)
        if room >= BAR:
            return before, room, after
    after = "  ".join(part for part in (percent, left) if part)
    return ("", 0, after) if len(after) <= columns else ("", max(columns, 0), "")


def cuts(note: str) -> Iterator[str]:
    """The note, then without its last part, and so on; parts stand apart by a comma or two spaces."""
    yield note
    for end in reversed([found.start() for found in re.finditer(r", |  ", note)]):
        yield note[:end]


class Line:
    """How far something is. `rich` draws it: a sign of life, a name, a bar as wide as there is room, a note, the time
    left. `ends`: when all is over (monotonic seconds), where that is known better than by the pace of late."""

    def __init__(self, what: str = "", total: float | None = None) -> None:
        self.ends: float | None = None
        self._began = time.monotonic()
        self.what, self.total, self.done, self.note = shown(what), total, 0.0, ""
        self._marks: deque[tuple[float, float]] = deque()  # (seconds, done), a second or more apart

    def move(self, done: float, note: str) -> None:
        """So far now."""
        now = time.monotonic()
        self.done, self.note = done, note
        if not self._marks or now - self._marks[-1][0] >= 1:
            self._marks.append((now, done))
        while now - self._marks[0][0] > WINDOW and len(self._marks) > 1:
            self._marks.popleft()

    @property
    def share(self) -> float | None:
        """How much of it is over: of the time, where its end is known, else of the parts; None where nothing tells."""
        if self.ends is not None:
            now = time.monotonic()
            return min(1.0, (now - self._began) / max(self.ends - self._began, 1e-9))
        return min(self.done / self.total, 1.0) if self.total else None

    @property
    def left(self) -> str:
        """How long the rest takes, by the pace of late; nothing while that is not known."""
        if self.ends is not None:
            return f"{duration(max(0.0, self.ends - time.monotonic()))} left"
        if self.total is None or not self._marks:
            return ""
        then, before = self._marks[0]
        seconds, gained = time.monotonic() - then, self.done - before
        if seconds < EARLY or gained <= 0:
            return ""
        return f"{duration(max(0.0, self.total - self.done) * seconds / gained)} left"

    @property
    def plain(self) -> str:
        """The note and the time left, for where nothing is drawn in place."""
        return "  ".join(part for part in (self.note, self.left) if part)

    def __rich_console__(self, console: RichConsole, options: ConsoleOptions) -> RenderResult:
        from rich.progress_bar import ProgressBar
        from rich.spinner import Spinner
        from rich.table import Table
        from rich.text import Text

        share = self.share
        room = (
            options.max_width - 5
        )  # the sign of life with its space; what Ctrl-C echoes must not begin a line
        before, width, after = fitted(self.what, share, shown(self.note), self.left, room)
        cells = [Spinner("dots").render(time.monotonic()), before]
        if width:
            cells.append(ProgressBar(1.0, share or 0.0, width=width, pulse=share is None))
        cells = [cell for cell in (*cells, after) if cell != ""]
        grid = Table.grid(padding=(0, 1, 0, 0), pad_edge=False)
        for _ in cells:
            grid.add_column(no_wrap=True)
        grid.add_row(*(Text(cell) if isinstance(cell, str) else cell for cell in cells))
        yield grid


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
