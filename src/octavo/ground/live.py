"""The line that is drawn in place during long work, and how long it will take."""

from __future__ import annotations

import re
import time
from collections import deque
from collections.abc import Iterator
from typing import TYPE_CHECKING

from octavo.ground.shown import duration, shown

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult

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

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
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
