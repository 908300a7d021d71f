"""The machine's memory: what is free, refusals before it is taken, its pages, and the system's errors in words."""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
import sys
from pathlib import Path

from octavo.errors import InputError, OctavoError

_WRONG_PATH = (errno.ENAMETOOLONG, errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.ELOOP)

_SAID = ("out of memory", "can't allocate memory", "invalid buffer size", "array is too big")

# glibc gives pieces below 32 MiB back late and not whole: measured, as much again as the activations, up to this.
KEPT_BY_ALLOCATOR = 96 << 20

SMALLER = "take a smaller model.width, model.layers, model.context or training.batch"


def available_memory() -> int | None:
    """Bytes of the machine's memory that are free for use, where the system tells."""
    found = _meminfo()
    return min([found["MemAvailable"], *_group_room()]) if "MemAvailable" in found else None


def room() -> int | None:
    """Bytes that could be had at the very most: what is free, and what can be swapped out; else all that there is."""
    found = _meminfo()
    if "MemAvailable" in found:
        own = found["MemAvailable"] + found.get("SwapFree", 0)
        return min([own, *(free + found.get("SwapFree", 0) for free in _group_room())])
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):  # Windows has no sysconf
        return _windows_memory() if sys.platform == "win32" else None


def refuse_beyond_memory(need: float, what: str, *, remedy: str = SMALLER) -> None:
    """Raise InputError if `what` takes at least `need` bytes, and there are not so many."""
    there = room()
    if there is not None and need > there:
        raise InputError(
            f"{what} at least {in_words(need)} of memory, and {in_words(there)} can be had.", remedy=remedy
        )


def own_pages(size: int, *, large: bool = False) -> mmap.mmap:
    """So many bytes of zeros of this process's own; what Python gives is shared with its children, and slower to
    take. `large`: in large pages where the system has them, which are slower to take and faster to read."""
    own = {"flags": mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS} if hasattr(mmap, "MAP_PRIVATE") else {}
    memory = mmap.mmap(-1, size, **own)
    if large and hasattr(mmap, "MADV_HUGEPAGE"):
        memory.madvise(mmap.MADV_HUGEPAGE)
    return memory


def in_words(size: float) -> str:
    """A size as people say it."""
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{size:,.0f} {unit}" if unit == "bytes" else f"{size:,.1f} {unit}"
        size /= 1024
    return f"{size:,.1f} TiB"


def out_of_memory(error: BaseException) -> bool:
    """Whether an error says that memory is not there: Python's, numpy's or torch's, of a processor or a device."""
    words = str(error).lower()
    return isinstance(error, MemoryError) or (
        isinstance(error, RuntimeError | ValueError) and any(said in words for said in _SAID)
    )


def fault_of_the_machine(error: BaseException) -> OctavoError | None:
    """The system's own errors as a sentence; None for what is a mistake of ours."""
    if out_of_memory(error):
        return OctavoError("This needs more memory than there is.", remedy=SMALLER)
    if not isinstance(error, OSError):
        return None
    place = "" if error.filename is None else f"{os.fsdecode(error.filename)}: "
    kind = InputError if error.errno in _WRONG_PATH else OctavoError
    return kind(f"{place}{error.strerror or error}.")


def _meminfo() -> dict[str, int]:
    """Sizes in bytes, where the system is Linux."""
    try:
        lines = Path("/proc/meminfo").read_text(encoding="utf-8").splitlines()
        return {line.partition(":")[0]: int(line.split()[1]) * 1024 for line in lines}
    except (OSError, ValueError, IndexError):
        return {}


def _group_room() -> list[int]:
    """Bytes that the control group of this process, such as a container or a cluster's job, may still take."""
    try:
        place = Path("/proc/self/cgroup").read_text(encoding="utf-8").partition("0::/")[2].split("\n")[0]
        group = Path("/sys/fs/cgroup", place)
        limit, used = (
            (group / name).read_text(encoding="utf-8") for name in ("memory.max", "memory.current")
        )
        statistics = (group / "memory.stat").read_text(encoding="utf-8").split()
        reclaimable = int(statistics[statistics.index("inactive_file") + 1])
        return [] if limit.strip() == "max" else [max(0, int(limit) - int(used) + reclaimable)]
    except (OSError, ValueError):
        return []


_WINDOWS = ("physical", "free", "pages", "free_pages", "own", "free_own", "more")


def _windows_memory() -> int | None:
    """What Windows says may be committed still."""

    class Status(ctypes.Structure):
        _fields_ = (
            ("size", ctypes.c_uint32),
            ("load", ctypes.c_uint32),
            *((name, ctypes.c_uint64) for name in _WINDOWS),
        )

    status = Status(size=ctypes.sizeof(Status))
    found = ctypes.windll.kernel32.GlobalMemoryStatusEx(ctypes.byref(status))  # pyrefly: ignore
    return status.free_pages if found else None
