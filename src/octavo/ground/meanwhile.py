"""Work that a second thread does while the first goes on: packing and numpy mostly hold no interpreter lock."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextvars import copy_context
from typing import Generic, TypeVar

T = TypeVar("T")


class Meanwhile(Generic[T]):
    """A call that has begun in a thread of its own; an end of the program does not wait for it."""

    def __init__(self, work: Callable[[], T]) -> None:
        self._work, self._found, self._error = work, list[T](), list[BaseException]()
        self._thread = threading.Thread(target=copy_context().run, args=(self._run,), daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._found.append(self._work())
        except BaseException as error:
            self._error.append(error)

    def result(self) -> T:
        """What the call returns, once it does; raises what it raises."""
        self._thread.join()
        for error in self._error:
            raise error
        return self._found[0]
