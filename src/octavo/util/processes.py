"""What runs beside the program, and what ends it: the environment of its children, work on other threads, and requests
to stop, of which the first lets the step end and saves, the second ends at once."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import copy_context
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any, Generic, Self, TypeVar

_NEEDED = frozenset(
    (
        *("PATH", "HOME", "USERPROFILE", "APPDATA", "LOCALAPPDATA", "SYSTEMROOT", "WINDIR", "VIRTUAL_ENV"),
        *("PYTHONPATH", "PYTHONHOME", "PYTHONUSERBASE", "PYTHONNOUSERSITE", "PYTHONHASHSEED"),
        *("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "DYLD_FALLBACK_LIBRARY_PATH"),
        *("TMPDIR", "TEMP", "TMP", "LANG", "LC_ALL", "LC_CTYPE", "TZ"),
        *("OMP_NUM_THREADS", "OMP_WAIT_POLICY", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"),
    )
)

TOLD = {"OCTAVO_PARTS": "[]"}
"""Variables that every child process of ours gets, whatever our own environment holds."""


def plain_environment(**more: str) -> dict[str, str]:
    """The environment for a child that handles what others wrote: where programs and libraries lie, language, threads
    what it is `TOLD`, and `more`. Keys, tokens and passwords stay here, whatever their variables are called."""
    return {**{name: value for name, value in os.environ.items() if name.upper() in _NEEDED}, **TOLD, **more}


def git(folder: Path, *arguments: str) -> str | None:
    """What git says about a folder; None where it says nothing."""
    command = ["git", "-C", str(folder), *arguments]
    try:
        done = subprocess.run(
            command, capture_output=True, encoding="utf-8", errors="replace", check=True, timeout=10
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()


def threads() -> int:
    """How many compute at once: as torch would, where it is in this process, else what OMP_NUM_THREADS says, or one for
    each processor that the process may use."""
    if (known := getattr(sys.modules.get("torch"), "get_num_threads", None)) is not None:
        return known()
    asked = os.environ.get("OMP_NUM_THREADS", "").split(",")[0]
    if asked.isdecimal() and int(asked):
        return int(asked)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


_WAITING = 4  # calls that may wait, so that memory stays bounded


class Behind:
    """Calls made one after another in the order in which they were given; an error in one is raised by a later
    call, or on leaving the context, after which none is made any more.
    """

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(1)
        self._waiting: deque[Future[Any]] = deque()

    def __enter__(self) -> Self:
        return self

    def call(self, function: Callable[..., Any], *arguments: Any) -> None:
        """Have a call made once those before it are done."""
        self._waiting.append(self._pool.submit(function, *arguments))
        if len(self._waiting) > _WAITING:
            self._waiting.popleft().result()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            while error is None and self._waiting:
                self._waiting.popleft().result()
        finally:
            self._pool.shutdown(cancel_futures=True)


# Work that a second thread does while the first goes on: packing and numpy mostly hold no interpreter lock.

T = TypeVar("T")


class Meanwhile(Generic[T]):
    """A call that has begun in a thread of its own; an end of the program does not wait for it."""

    def __init__(self, work: Callable[[], T]) -> None:
        self._future: Future[T] = Future()
        threading.Thread(target=copy_context().run, args=(self._run, work), daemon=True).start()

    def _run(self, work: Callable[[], T]) -> None:
        try:
            self._future.set_result(work())
        except BaseException as error:
            self._future.set_exception(error)

    def result(self, seconds: float | None = None) -> T:
        """What the call returns, once it does; raises what it raises, and TimeoutError if it takes longer than
        `seconds`. Its thread then goes on, for nothing can end it."""
        return self._future.result(seconds)


HANG_UP = getattr(signal, "SIGHUP", None)  # Windows has none
STOP_SIGNALS = [signal.SIGINT, signal.SIGTERM] + ([HANG_UP] if HANG_UP else [])


class StopRequest:
    """Whether someone asked for an end, and by which signal."""

    def __init__(self) -> None:
        self.name: str | None = None

    def __bool__(self) -> bool:
        return self.name is not None


@contextmanager
def stop_requests() -> Iterator[StopRequest]:
    """Within the context the first signal is noted; a second one has its ordinary effect. Under nohup no
    terminal that is closed is a request."""
    request = StopRequest()
    if threading.current_thread() is not threading.main_thread():  # only the main thread may handle signals
        yield request
        return
    before = {number: signal.getsignal(number) for number in STOP_SIGNALS}
    if before.get(HANG_UP) == signal.SIG_IGN:  # by nohup: the terminal may be closed
        del before[HANG_UP]

    earlier = before[signal.SIGINT]
    again = earlier if callable(earlier) else signal.default_int_handler

    def note(number: int, _frame: FrameType | None) -> None:
        request.name = signal.Signals(number).name
        for other in before:
            signal.signal(other, again if other == signal.SIGINT else signal.SIG_DFL)

    for number in before:
        signal.signal(number, note)
    try:
        yield request
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
