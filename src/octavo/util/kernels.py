"""Small kernels in C: compiled once by the machine's own compiler, kept in the cache, never needed.

Where there is no compiler, `library` gives None and torch does the work. `OCTAVO_NATIVE=0` asks for that.
What is loaded is a copy of bytes that were checked: only this user can have kept them, and they are whole.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import platform
import shutil
import signal
import subprocess
import tempfile
import threading
import warnings
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

from octavo.errors import StorageError
from octavo.util.cache import default_cache
from octavo.util.private import PrivateFolder, replaceable

if TYPE_CHECKING:
    from torch import Tensor

Floats = ctypes.POINTER(ctypes.c_float)

# Tried in this order until one works: not every compiler has OpenMP, or knows the processor it runs on.
MACHINES = (
    ("-march=native", "-fopenmp"),
    ("-mcpu=native", "-fopenmp"),
    ("-march=native",),
    ("-mcpu=native",),
    (),
)
OPTIONS = ("-O3", "-fno-math-errno", "-fno-trapping-math")
PATIENCE = 60.0
"""Seconds that the compiler has; it takes two."""
_one_at_a_time: dict[tuple[str, str], threading.Lock] = {}
"""By kernel: threads that need the same one do not compile it side by side."""


def native_wanted() -> bool:
    """Whether fast ways may be taken beside torch's plain ones: these kernels, and what a GPU replays."""
    return os.environ.get("OCTAVO_NATIVE", "1") != "0"


def library(package: str, name: str) -> ctypes.CDLL | None:
    """The kernel `name`.c of a package, from the cache or compiled now (a second). None if that cannot be done."""
    with _one_at_a_time.setdefault((package, name), threading.Lock()):
        return _library(package, name)


@cache
def _library(package: str, name: str) -> ctypes.CDLL | None:
    compiler = next(filter(None, map(shutil.which, ("cc", "gcc", "clang"))), None)
    if compiler is None or not native_wanted():
        return None
    source = resources.files(package).joinpath(f"{name}.c").read_bytes()
    told = repr((compiler, MACHINES, OPTIONS, platform.uname().machine, _processor()))
    key = hashlib.sha256(source + told.encode()).hexdigest()[:16]
    folder, file = _folder(), f"{name}-{key}.so"
    try:
        kept = None if folder is None else folder.read(file)
    except OSError as error:
        assert folder is not None
        _say_not_kept(folder.path, error)
        kept = folder = None
    if kept is not None and (found := _loaded(kept)) is not None:
        return found
    built, found = _first_that_loads(compiler, source)
    if found is not None and folder is not None:
        try:
            folder.keep(file, built)
        except OSError as error:
            _say_not_kept(folder.path, error)
    return found


def address(tensor: Tensor | None) -> ctypes._Pointer[ctypes.c_float] | None:
    """Where a contiguous float32 tensor lies; whoever holds the address has to hold the tensor."""
    return None if tensor is None else ctypes.cast(tensor.data_ptr(), Floats)


def _first_that_loads(compiler: str, source: bytes) -> tuple[bytes, ctypes.CDLL | None]:
    try:
        for built in _builds(compiler, source):
            if (found := _loaded(built)) is not None:
                return built, found
        _say(f"The C compiler ({compiler}) makes no kernel that runs here: torch does their work, slower.")
    except subprocess.TimeoutExpired:
        _say(
            f"The C compiler ({compiler}) took more than {PATIENCE:.0f} s: torch does the kernels' work, slower."
        )
    except OSError as error:
        _say(f"Kernels cannot be compiled ({error}): torch does their work, slower.")
    return b"", None


def _builds(compiler: str, source: bytes) -> Iterator[bytes]:
    """The library, by the best flags that the compiler takes, then by plainer ones."""
    with _temporary() as folder:
        code, built = Path(folder) / "kernel.c", Path(folder) / "kernel.so"
        code.write_bytes(source)
        for machine in MACHINES:
            command = [compiler, *OPTIONS, *machine, "-shared", "-fPIC", "-o", str(built), str(code), "-lm"]
            if _succeeds(command):
                yield built.read_bytes()


def _succeeds(command: list[str]) -> bool:
    """Run the compiler; what it has started ends with it. Raises TimeoutExpired."""
    quiet = subprocess.DEVNULL
    with subprocess.Popen(
        command, stdin=quiet, stdout=quiet, stderr=quiet, start_new_session=True
    ) as process:
        try:
            return process.wait(PATIENCE) == 0
        except BaseException:
            if hasattr(os, "killpg"):
                with suppress(ProcessLookupError):  # it has just ended by itself
                    os.killpg(process.pid, signal.SIGKILL)
            else:
                process.kill()
            raise


def _loaded(built: bytes) -> ctypes.CDLL | None:
    """A copy of these very bytes, which no other process can change or cut, as a library."""
    handle = None
    try:
        handle = os.memfd_create("octavo-kernel")
        with os.fdopen(handle, "wb", closefd=False) as file:
            file.write(built)
        return ctypes.CDLL(
            f"/proc/self/fd/{handle}"
        )  # it stays open: the system knows libraries by their path
    except (AttributeError, OSError):  # a system without such files, or that runs none of them, or no library
        if handle is not None:
            os.close(handle)
    try:
        with _temporary() as folder:
            path = Path(folder) / "kernel.so"
            path.write_bytes(built)
            return ctypes.CDLL(str(path))
    except OSError:
        return None


def _temporary() -> tempfile.TemporaryDirectory[str]:
    """A folder of this process's own. Raises OSError if others could put theirs in its place."""
    if replaceable(Path(tempfile.gettempdir())):
        raise PermissionError(f"{tempfile.gettempdir()} can be changed by other users")
    return tempfile.TemporaryDirectory(prefix="octavo-", ignore_cleanup_errors=True)


def _folder() -> PrivateFolder | None:
    """Where kernels are kept; None for a user without a home."""
    try:
        return PrivateFolder(default_cache() / "native")
    except StorageError as error:
        _say(f"Every process compiles its kernels again: {error}")
        return None


def _say_not_kept(folder: Path, error: OSError) -> None:
    _say(
        f"Kernels cannot be kept in {folder}, so every process compiles them again ({error.strerror or error}). "
        "OCTAVO_CACHE can name a folder of your own."
    )


@cache
def _say(sentence: str) -> None:
    warnings.warn(sentence, stacklevel=2)


def _processor() -> str:
    """What tells processors apart: a library made for one may not run on another that shares the cache."""
    path = Path("/proc/cpuinfo")
    if not path.is_file():
        return platform.processor()
    lines = path.read_text(encoding="utf-8").splitlines()
    return "\n".join(sorted({line for line in lines if line.startswith(("flags", "Features", "model name"))}))
