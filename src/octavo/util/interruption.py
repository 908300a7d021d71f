"""Ctrl-C, and what compiled code makes of it: where a KeyboardInterrupt is raised in Python that it calls back, it may
end with an error of its own."""

from __future__ import annotations

from types import FrameType
from typing import NoReturn

from octavo.errors import OctavoError

_came: list[int] = []


def interrupt(number: int, _frame: FrameType | None) -> NoReturn:
    """Handle a signal as Python handles Ctrl-C, and remember that it came. Raises KeyboardInterrupt."""
    _came.append(number)
    raise KeyboardInterrupt


def is_interruption(error: BaseException | None) -> bool:
    """Whether an error is an interruption, or what became of one: it came after `interrupt`, and is neither an error
    of Octavo's nor of the system's, such as a full disk."""
    if isinstance(error, KeyboardInterrupt):
        return True
    return (
        bool(_came)
        and isinstance(error, Exception)
        and not isinstance(error, (OctavoError, OSError, MemoryError))
    )
