"""Work that a second thread does while the first goes on: packing and numpy mostly hold no interpreter lock."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextvars import copy_context
from typing import Generic, TypeVar

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
