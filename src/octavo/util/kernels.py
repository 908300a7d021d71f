"""Small kernels in C: compiled once by the machine's own compiler, kept in the cache, never needed.

Where there is no compiler, `library` gives None and torch does the work. `OCTAVO_NATIVE=0` asks for that.
What is loaded is a copy of bytes that were checked: only this user can have kept them, and they are whole.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import platform
import secrets
import shutil
import signal
import stat
import subprocess
import tempfile
import threading
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from octavo.errors import StorageError
from octavo.util.cache import default_cache

if TYPE_CHECKING:
    from torch import Tensor

Floats = ctypes.POINTER(ctypes.c_float)

# Tried in this order until one works: not every compiler knows the processor it runs on.
MACHINES = (("-march=native",), ("-mcpu=native",), ())
OPTIONS = ("-O3", "-fno-math-errno", "-fno-trapping-math", "-pthread", "-fPIC")
PATIENCE = 120.0
"""Seconds that the compiler has; it takes six, or twice that on one core."""
PACKAGE = Path(__file__).parents[1]
_one_at_a_time = threading.Lock()
"""Threads that need the kernels do not compile them side by side."""


def native_wanted() -> bool:
    """Whether fast ways may be taken beside torch's plain ones: these kernels, and what a GPU replays."""
    return os.environ.get("OCTAVO_NATIVE", "1") != "0"


def library() -> ctypes.CDLL | None:
    """All kernels, from the cache or compiled now (some seconds). None if that cannot be done."""
    with _one_at_a_time:
        return _library()


def sources() -> list[Path]:
    """The kernels' files in C."""
    return sorted(PACKAGE.rglob("*.c"))


@cache
def _library() -> ctypes.CDLL | None:
    compiler = next(filter(None, map(shutil.which, ("cc", "gcc", "clang"))), None)
    if compiler is None or not native_wanted():
        return None
    folder, file = _folder(), f"kernels-{_key(compiler)}.so"
    try:
        kept = None if folder is None else folder.read(file)
    except OSError as error:
        assert folder is not None
        _say_not_kept(folder.path, error)
        kept = folder = None
    if kept is not None and (found := _loaded(kept)) is not None:
        return found
    built, found = _first_that_loads(compiler)
    if found is not None and folder is not None:
        try:
            folder.keep(file, built)
        except OSError as error:
            _say_not_kept(folder.path, error)
    return found


def _key(compiler: str) -> str:
    """What a build depends on: sources, compiler and processor."""
    digest = hashlib.sha256(
        repr((compiler, MACHINES, OPTIONS, platform.uname().machine, _processor())).encode()
    )
    for path in sorted({*sources(), *PACKAGE.rglob("*.h")}):
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]


def address(tensor: Tensor | None) -> ctypes._Pointer[ctypes.c_float] | None:
    """Where a contiguous float32 tensor lies; whoever holds the address has to hold the tensor."""
    return None if tensor is None else ctypes.cast(tensor.data_ptr(), Floats)


def _first_that_loads(compiler: str) -> tuple[bytes, ctypes.CDLL | None]:
    try:
        for built in _builds(compiler):
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


def _builds(compiler: str) -> Iterator[bytes]:
    """The library, by the best flags that the compiler takes, then by plainer ones."""
    with _temporary() as folder:
        built = Path(folder) / "kernels.so"
        for machine in MACHINES:
            objects = [Path(folder) / f"{number}.o" for number, _ in enumerate(sources())]
            compile_each = [
                [compiler, *OPTIONS, *machine, "-c", "-o", str(to), str(source)]
                for source, to in zip(sources(), objects, strict=True)
            ]
            link = [compiler, *OPTIONS, *machine, "-shared", "-o", str(built), *map(str, objects), "-lm"]
            if _succeed(compile_each) and _succeed([link]):
                yield built.read_bytes()


def _succeed(commands: list[list[str]]) -> bool:
    """Run compilers side by side; what they have started ends with them. Raises TimeoutExpired."""
    quiet, running, until = subprocess.DEVNULL, [], time.monotonic() + PATIENCE
    try:
        for command in commands:
            running.append(
                subprocess.Popen(command, stdin=quiet, stdout=quiet, stderr=quiet, start_new_session=True)
            )
        codes = [process.wait(max(0.0, until - time.monotonic())) for process in running]
        return not any(codes)
    except BaseException:
        for process in running:
            _end(process)
        raise


def _end(process: subprocess.Popen[bytes]) -> None:
    if hasattr(os, "killpg"):
        with suppress(ProcessLookupError):  # it has just ended by itself
            os.killpg(process.pid, signal.SIGKILL)
    else:
        process.kill()
    process.wait()


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


# A folder for what may be run later: only its user can have written what is read from it, and it is whole.

_DIGEST = hashlib.sha256().digest_size


class PrivateFolder:
    """Files of this user's alone, each with the SHA-256 of its content at its end.

    Files are reached through the open folder, not by its path: whatever others do with the folders above, what is
    checked is what is read. (On Windows by the path; there a user's folders are his by default.)
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def read(self, name: str) -> bytes | None:
        """The content, as it was kept; None if there is no such file, or it is not whole, or not only the user's.

        Raises OSError if others could write to the folder.
        """
        with self._opened() as folder:
            try:
                handle = os.open(self._at(name, folder), os.O_RDONLY | _NO_LINK, dir_fd=folder)
            except OSError:
                return None
            with os.fdopen(handle, "rb") as file:
                if not stat.S_ISREG(os.fstat(handle).st_mode) or _others(os.fstat(handle)):
                    return None
                whole = file.read()
        content, digest = whole[:-_DIGEST], whole[-_DIGEST:]
        return content if hashlib.sha256(content).digest() == digest else None

    def keep(self, name: str, content: bytes) -> None:
        """Write a file in one atomic step, in the place of an earlier one. Raises OSError if that cannot be done."""
        aside = f".{name}-{secrets.token_hex(4)}"
        with self._opened() as folder:
            new = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
            handle = os.open(self._at(aside, folder), new, 0o600, dir_fd=folder)
            try:
                with os.fdopen(handle, "wb") as file:
                    file.write(content + hashlib.sha256(content).digest())
                    file.flush()
                    os.fsync(handle)
                places = self._at(aside, folder), self._at(name, folder)
                os.replace(*places, src_dir_fd=folder, dst_dir_fd=folder)
            except BaseException:
                with suppress(OSError):
                    os.unlink(self._at(aside, folder), dir_fd=folder)
                raise
            if folder is not None:
                os.fsync(folder)

    def _at(self, name: str, folder: int | None) -> str:
        return str(self.path / name) if folder is None else name

    @contextmanager
    def _opened(self) -> Iterator[int | None]:
        self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        if os.open not in os.supports_dir_fd:
            yield None
            return
        folder = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | _NO_LINK)
        try:
            if reason := _others(os.fstat(folder)):
                raise PermissionError(f"it {reason}")
            yield folder
        finally:
            os.close(folder)


_NO_LINK = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)


def _others(found: os.stat_result) -> str:
    """What others could do with a file or folder, in words; nothing where only its user can write to it."""
    if not hasattr(os, "geteuid"):
        return ""
    if found.st_uid != os.geteuid():
        return "belongs to another user"
    return "can be written to by other users" if found.st_mode & 0o022 else ""


def replaceable(path: Path) -> bool:
    """Whether another user (but root) could put something else in the place of a new entry of this folder."""
    if not hasattr(os, "geteuid"):
        return False
    whole = Path(os.path.realpath(path))
    for folder in (whole, *whole.parents):
        found = folder.stat()
        open_to_all = found.st_mode & 0o022 and not found.st_mode & stat.S_ISVTX
        if open_to_all or found.st_uid not in (0, os.geteuid()):
            return True
    return False
