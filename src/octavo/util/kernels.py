"""Small kernels in C, never needed: built with the package, or compiled once by the machine's own compiler.

Nothing is used that has not proven itself: a child process loads the library on this very processor and holds what it
computes against torch and numpy (`octavo doctor --prove`). A crash or a wrong number there costs that library, never a
run; the verdict is kept by processor and file. What is built comes first, the fastest that this processor knows, then
what is compiled here (the other way round with OCTAVO_COMPILE=1); where nothing works torch does it all. OCTAVO_KERNEL
names one that is built, a library file, which is taken as it is, or `none`.
"""

from __future__ import annotations

import ctypes
import hashlib
import json
import os
import platform
import secrets
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from octavo.errors import StorageError
from octavo.util.files import default_cache, flush_to_disk, take
from octavo.util.processes import git, plain_environment

if TYPE_CHECKING:
    from torch import Tensor

Floats = ctypes.POINTER(ctypes.c_float)

PACKAGE = Path(__file__).parents[1]
BUILT = PACKAGE / "_kernels"
"""What a wheel brings: libraries, and `built.json` with their hashes."""

# Tried in this order until one works: not every compiler knows the processor it runs on.
MACHINES = (("-march=native",), ("-mcpu=native",), ())
OPTIONS = ("-O3", "-fno-math-errno", "-fno-trapping-math", "-pthread", "-fPIC")
PATIENCE = 120.0
"""Seconds that the compiler has, which takes six, or twice that on one core; and that a proof has, which takes four."""
WAIT = 2 * PATIENCE
"""Seconds that a process waits for another one that compiles the same."""
DIFFERS = 3
"""What a proof's process ends with where results are not those of torch and numpy."""
PROVEN = "gives what torch gives"
"""What a proof's process says in the end where nothing is wrong."""
ITS_OWN = ("SIGILL", "SIGSEGV", "SIGBUS", "SIGFPE", "SIGTRAP", "SIGSYS")
"""Signals that a library brings upon its process; others are sent by somebody, or come when memory runs out."""
_one_at_a_time = threading.Lock()
"""Threads that need the kernels do not compile them side by side."""


@dataclass(frozen=True)
class Kernels:
    """What computes beside torch, and why. `native`: the library; None where torch does all the work."""

    native: ctypes.CDLL | None
    name: str
    why: str


def native_wanted() -> bool:
    """Whether fast ways may be taken beside torch's plain ones: these kernels, and what a GPU replays."""
    return os.environ.get("OCTAVO_NATIVE", "1") != "0"


def in_use() -> Kernels:
    """The kernels, chosen when they are first asked for: from then on they stay."""
    with _one_at_a_time:
        return _chosen()


def _loaded_at(path: Path) -> ctypes.CDLL:
    """A library, to which torch's OpenMP lends its threads where it is GNU's and in this process; see parallel.h."""
    return _with_threads(ctypes.CDLL(str(path)))


def _with_threads(native: ctypes.CDLL) -> ctypes.CDLL:
    try:
        openmp = ctypes.CDLL("libgomp.so.1", mode=os.RTLD_NOLOAD | os.RTLD_NOW)
        native.borrow_threads(openmp.GOMP_parallel, openmp.omp_get_thread_num, openmp.omp_get_num_threads)
    except (AttributeError, OSError):
        pass
    return native


def sources() -> list[Path]:
    """The kernels' files in C."""
    return sorted(PACKAGE.rglob("*.c"))


_TWINS: ContextVar[bool] = ContextVar("twins", default=False)


@contextmanager
def twins() -> Iterator[None]:
    """Within the context there is no kernel, so that its slow twin does the work."""
    token = _TWINS.set(True)
    try:
        yield
    finally:
        _TWINS.reset(token)


class kernel:  # noqa: N801  (a decorator)
    """Makes of a function that says what the library's functions take one that gives the library, so prepared, or None
    where there is none."""

    def __init__(self, prepare: Callable[[ctypes.CDLL], None]) -> None:
        self._prepare = prepare
        self._prepared: ctypes.CDLL | None = None
        self.__doc__ = prepare.__doc__

    def __call__(self) -> ctypes.CDLL | None:
        native = None if _TWINS.get() else in_use().native
        if native is not None and native is not self._prepared:
            self._prepare(native)
            self._prepared = native
        return native


@cache
def _chosen() -> Kernels:
    asked = os.environ.get("OCTAVO_KERNEL", "")
    if not native_wanted() or asked == "none":
        return Kernels(
            None, "none", f"{'OCTAVO_KERNEL=none' if asked == 'none' else 'OCTAVO_NATIVE=0'} asks for torch"
        )
    if asked and Path(asked).is_file():
        try:
            native = _loaded_at(Path(asked))
            if hasattr(native, "score"):
                return Kernels(native, Path(asked).stem, "OCTAVO_KERNEL names this file")
            _say(f"OCTAVO_KERNEL names {asked}, which is no library of kernels.")
        except OSError as error:
            _say(f"OCTAVO_KERNEL names {asked}, which is no library that loads here ({error}).")
        asked = ""
    ways = [_built, _compiled]
    if os.environ.get("OCTAVO_COMPILE", "0") not in ("", "0"):
        ways.reverse()
    refused: list[str] = []
    for way in ways:
        for found in way(asked, refused):
            return found
    return Kernels(None, "none", "; ".join(refused) or "there is no C compiler here")


# What is built with the package.


@dataclass(frozen=True)
class Variant:
    """A library for one level of processor."""

    file: str
    sha256: str


@dataclass(frozen=True)
class Built:
    """What a wheel says of itself. `commit`: with `+` where files had changed; None where that is not known."""

    commit: str | None = None
    compiler: str | None = None
    variants: Mapping[str, Variant] = field(default_factory=dict)


def built_facts() -> Built:
    """Of the wheel that this is; of a checkout nothing is known here."""
    path = BUILT / "built.json"
    try:
        facts = json.loads(path.read_text(encoding="utf-8"))
        variants = {
            str(name): Variant(str(one["file"]), str(one["sha256"]))
            for name, one in facts["variants"].items()
        }
        return Built(facts["commit"], facts["compiler"], variants)
    except FileNotFoundError:
        return Built()
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        _say(f"{path} is damaged, so kernels that came with the package are not used. Install Octavo again.")
        return Built()


def commit() -> str | None:
    """The commit that a wheel was built of, with `+` where files had changed, or that of this checkout."""
    return built_facts().commit or git(Path(__file__).parent, "rev-parse", "HEAD")


def _built(asked: str, refused: list[str]) -> Iterator[Kernels]:
    """Those of this processor, the fastest first, that proved themselves."""
    variants = built_facts().variants
    if asked and asked not in variants:
        allowed = f"one of {', '.join(sorted(variants))}, none" if variants else "none"
        _say(f"OCTAVO_KERNEL must be a file or {allowed}; this package has no kernels named {asked}.")
        asked = ""
    ranked = []
    for name in [asked] if asked else variants:
        path = BUILT / Path(variants[name].file).name
        try:
            whole = path.is_file() and hashlib.sha256(path.read_bytes()).hexdigest() == variants[name].sha256
            native = ctypes.CDLL(str(path)) if whole else None
            score = native.score() if native else 0  # nothing else of it is run in this process
        except (OSError, ValueError, AttributeError) as error:
            refused.append(f"{name} cannot be loaded ({getattr(error, 'strerror', None) or error})")
            continue
        if native is None:
            refused.append(f"{name} is damaged")
            _say(f"{path} is damaged, so it is not used. Install Octavo again.")
        elif score > 0:
            ranked.append((score, name, path, native))
        elif asked:
            refused.append(f"this processor has not what {name} needs")
    for _, name, path, native in sorted(ranked, key=lambda each: -each[0]):
        complaint = _complaint(path, variants[name].sha256)
        if complaint is None:
            why = "; ".join(["it came with the package and proved itself here", *refused])
            yield Kernels(_with_threads(native), name, why)
        else:
            refused.append(f"{name} {complaint}")
            _say(f"The kernels for {name} {complaint} on this processor: the next best are taken.")


# What is compiled on the spot.


def _compiled(asked: str, refused: list[str]) -> Iterator[Kernels]:
    compiler = next(filter(None, map(shutil.which, ("cc", "gcc", "clang"))), None)
    if compiler is None:
        refused.append("there is no C compiler here")
        return
    found = _made(compiler, refused)
    if found is not None:
        yield Kernels(
            found, "compiled here", "; ".join([f"{compiler} made it here, and it proved itself", *refused])
        )


def _made(compiler: str, refused: list[str]) -> ctypes.CDLL | None:
    """The library that is kept, or a new one; by one process alone of those that begin together."""
    file = f"kernels-{_key(compiler)}.so"
    folder, found = _loaded_from(_folder(), file)
    if found is None:
        with _alone(folder, file):
            folder, found = _loaded_from(folder, file)
            if found is None:
                built, found = _first_that_proves(compiler, refused)
                if found is not None:
                    _keep(folder, file, built)
    return found


def _loaded_from(folder: PrivateFolder | None, file: str) -> tuple[PrivateFolder | None, ctypes.CDLL | None]:
    folder, kept = _kept(folder, file)
    return folder, None if kept is None else _loaded(kept)


def _key(compiler: str) -> str:
    """What a build depends on: sources, compiler and processor."""
    told = repr((compiler, MACHINES, OPTIONS, platform.uname().machine, _processor()))
    digest = hashlib.sha256(told.encode())
    for path in sorted({*sources(), *PACKAGE.rglob("*.h")}):
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]


def address(tensor: Tensor | None) -> ctypes._Pointer[ctypes.c_float] | None:
    """Where a contiguous float32 tensor lies; whoever holds the address has to hold the tensor."""
    return None if tensor is None else ctypes.cast(tensor.data_ptr(), Floats)


def _first_that_proves(compiler: str, refused: list[str]) -> tuple[bytes, ctypes.CDLL | None]:
    complaint: str | None = "does not load here"
    try:
        with _temporary() as folder:
            for number, built in enumerate(_builds(compiler)):
                path = Path(folder) / f"{number}.so"
                path.write_bytes(built)
                complaint = _tried(path)[0]
                if complaint is None and (found := _loaded(built)) is not None:
                    return built, found
        _say(f"What the C compiler ({compiler}) makes {complaint}: torch does the kernels' work, slower.")
    except subprocess.TimeoutExpired:
        complaint = f"took more than {PATIENCE:.0f} s"
        _say(f"The C compiler ({compiler}) {complaint}: torch does the kernels' work, slower.")
    except OSError as error:
        complaint = str(error)
        _say(f"Kernels cannot be compiled ({error}): torch does their work, slower.")
    refused.append(f"{compiler}: {complaint}")
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
        return _loaded_at(Path(f"/proc/self/fd/{handle}"))  # it stays open: libraries are known by their path
    except (AttributeError, OSError):  # a system without such files, or that runs none of them, or no library
        if handle is not None:
            os.close(handle)
    try:
        with _temporary() as folder:
            path = Path(folder) / "kernel.so"
            path.write_bytes(built)
            return _loaded_at(path)
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
        _say(f"Every process tries its kernels anew: {error}")
        return None


def _kept(folder: PrivateFolder | None, name: str) -> tuple[PrivateFolder | None, bytes | None]:
    """A folder, or None where it is not to be used, and what is kept there."""
    if folder is None:
        return None, None
    try:
        return folder, folder.read(name)
    except OSError as error:
        _say_not_kept(folder.path, error)
        return None, None


def _keep(folder: PrivateFolder | None, name: str, content: bytes) -> None:
    if folder is not None:
        try:
            folder.keep(name, content)
        except OSError as error:
            _say_not_kept(folder.path, error)


@contextmanager
def _alone(folder: PrivateFolder | None, name: str) -> Iterator[None]:
    """What one process finds out in the context, those that wait for it can read. Where waiting is not to be had, or
    takes too long, nobody waits."""
    with ExitStack() as held:
        if folder is not None:
            with suppress(OSError):
                held.enter_context(folder.held(name))
        yield


def _say_not_kept(folder: Path, error: OSError) -> None:
    _say(
        f"Kernels cannot be kept in {folder}, so every process tries them anew ({error.strerror or error}). "
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


# The proof.


def _complaint(path: Path, sha256: str) -> str | None:
    """What is wrong with a library on this processor, in words; None where it proved itself. Kept once it is known."""
    name = f"proof-{hashlib.sha256(f'{sha256} {_processor()}'.encode()).hexdigest()[:16]}.txt"
    folder, kept = _kept(_folder(), name)
    if kept is None:
        with _alone(folder, name):
            folder, kept = _kept(folder, name)
            if kept is None:
                complaint, lasting = _tried(path)
                if lasting:
                    _keep(folder, name, (complaint or "").encode())
                return complaint
    return kept.decode("utf-8", "replace") or None


def _tried(path: Path) -> tuple[str | None, bool]:
    """The complaint of a child process that uses a library, and whether the library is to blame."""
    command = [sys.executable, "-P", "-m", "octavo", "doctor", "--prove", str(path)]
    paths = [str(PACKAGE.parent), *filter(None, [os.environ.get("PYTHONPATH")])]
    own = plain_environment(PYTHONPATH=os.pathsep.join(paths), PYTHONUTF8="1", OCTAVO_KERNEL=str(path))
    try:
        done = subprocess.run(
            command, env=own, stdin=subprocess.DEVNULL, capture_output=True, timeout=PATIENCE, check=False
        )
    except subprocess.TimeoutExpired:
        return f"did not end within {PATIENCE:.0f} s", False
    except OSError as error:
        return f"cannot be tried ({error})", False
    said, complaint = map(_last_line, (done.stdout, done.stderr))
    if done.returncode == 0 and said == PROVEN:
        return None, True
    if done.returncode == DIFFERS:
        return said, True
    if done.returncode < 0 or done.returncode >= 0xC0000000:  # by a signal; by an exception of Windows
        ending = _ending(done.returncode)
        return f"ended the process that tried it ({ending})", done.returncode > 0 or ending in ITS_OWN
    return f"cannot be tried ({complaint or f'exit code {done.returncode}'})", False


def _last_line(printed: bytes) -> str:
    lines = printed.decode("utf-8", "replace").splitlines()
    return next((line.strip() for line in reversed(lines) if line.strip()), "")


def _ending(code: int) -> str:
    try:
        return signal.Signals(-code).name
    except ValueError:
        return f"{code:#x}"


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
                    flush_to_disk(handle)
                places = self._at(aside, folder), self._at(name, folder)
                os.replace(*places, src_dir_fd=folder, dst_dir_fd=folder)
            except BaseException:
                with suppress(OSError):
                    os.unlink(self._at(aside, folder), dir_fd=folder)
                raise
            if folder is not None:
                flush_to_disk(folder)

    @contextmanager
    def held(self, name: str) -> Iterator[None]:
        """Within the context no other process is in one for this name, unless it has been there for too long. Raises
        OSError where nothing can be written."""
        with self._opened() as folder:
            options = os.O_RDWR | os.O_CREAT | _NO_LINK
            handle = os.open(self._at(f".{name}.lock", folder), options, 0o600, dir_fd=folder)
            try:
                until = time.monotonic() + WAIT
                while not take(handle) and time.monotonic() < until:
                    time.sleep(0.1)
                yield
            finally:
                os.close(handle)

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
