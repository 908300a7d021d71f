"""Work on a thread of its own, behind the one that reads: writing and hashing hold no interpreter lock."""

from __future__ import annotations

import os
import sys
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from types import TracebackType
from typing import Any, Generic, Self, TypeVar


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
