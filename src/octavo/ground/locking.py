"""Holding a file against other processes. The system lets go when a process dies, however it dies."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

_LOOK = 0.5  # seconds between two looks at a lock that another process holds


def take(handle: int) -> bool:
    """Lock an open file without waiting; whether that worked. It is held until the file is closed."""
    try:
        import fcntl
    except ImportError:  # Windows
        import msvcrt

        try:
            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)  # pyrefly: ignore
            return True
        except OSError:
            return False
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    except OSError:
        return False


@contextmanager
def one_at_a_time(
    path: Path, waiting: Callable[[], None], pause: Callable[[float], object]
) -> Iterator[None]:
    """Within the context no other process is in one for the same path; `waiting` is called once where another has to
    be waited for. Raises OSError if the file cannot be written.
    """
    handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        if not take(handle):
            waiting()
            while not take(handle):
                pause(_LOOK)
        yield
    finally:
        os.close(handle)
