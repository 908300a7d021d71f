"""Limits of the process that reads documents: memory, the processor's time, and no file may be written.

Time is the processor's, so that what is read does not depend on what else a machine does. A document may take long
in all, as a book of a thousand pages does, but no part of it may.
"""

from __future__ import annotations

from importlib.util import find_spec
from math import ceil

AVAILABLE = find_spec("resource") is not None
"""Whether this system has such limits: Windows has none."""
_IN_ALL = 4  # times what a document may take without getting on that it may take when it gets on


def allowed(seconds: float, size: int) -> float:
    """Seconds that a file of so many bytes may take without getting on: as many again for each megabyte after the
    first.
    """
    return seconds * max(1.0, size / 1e6)


def in_all(seconds: float, size: int) -> float:
    """Seconds that a file of so many bytes may take when it gets on."""
    return _IN_ALL * allowed(seconds, size)


class _Time:
    """What this process may still use of the processor."""

    step = 0.0
    end = 0.0


def hold(seconds: float, megabytes: int, size: int) -> None:
    """Hold this process to its limits while it reads a file of so many bytes; no file can be written at all."""
    if not AVAILABLE:
        return
    import resource

    _Time.step, _Time.end = allowed(seconds, size), _used() + in_all(seconds, size)
    wanted = {resource.RLIMIT_AS: megabytes << 20, resource.RLIMIT_FSIZE: 0, resource.RLIMIT_CORE: 0}
    for kind, most in wanted.items():
        _set(kind, most)
    _set(resource.RLIMIT_CPU, ceil(_used() + _Time.step))  # also ends a child whose parent is gone


def got_on() -> None:
    """Say that a part of the document was read: the time for the next begins."""
    if AVAILABLE and _Time.step:
        import resource

        _set(resource.RLIMIT_CPU, ceil(min(_used() + _Time.step, _Time.end)))


def _used() -> float:
    import resource

    return sum(resource.getrusage(resource.RUSAGE_SELF)[:2])


def _set(kind: int, most: int) -> None:
    import resource

    hard = resource.getrlimit(kind)[1]
    try:
        resource.setrlimit(kind, (most if hard < 0 else min(most, hard), hard))
    except (ValueError, OSError):  # macOS refuses limits on address space
        return
