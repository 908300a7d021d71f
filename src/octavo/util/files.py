"""Files as every room writes and reads them: whole or not at all, synced, hashed, and the system's errors in words; and
where the cache of what can be made or fetched again is."""

from __future__ import annotations

import errno
import hashlib
import os
import re
import stat
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from fnmatch import fnmatchcase
from itertools import count
from pathlib import Path

from octavo.errors import InputError, OctavoError, RunFolderError, StorageError

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""What the system says of a full disk."""

ASIDE = ".tmp-"
_ASIDE = re.compile(re.escape(ASIDE) + r"[0-9a-f]{16}-.*", re.DOTALL)


def from_home(path: str | Path) -> Path:
    """The path with `~` written out. Raises InputError where there is no such home."""
    try:
        return Path(path).expanduser()
    except RuntimeError as error:
        raise InputError(f"There is no home folder for {path}.", remedy="write the path out") from error


def replace_text(path: Path, text: str) -> None:
    """Write a text file in one atomic step: a kill leaves the old one or the new one, never a part."""
    with storage_errors(path.parent), written_aside(path) as aside:
        aside.write_text(text, encoding="utf-8")


@contextmanager
def written_aside(path: Path, *, over: bool = True) -> Iterator[Path]:
    """A new file next to `path`, to fill within the context. Then it is synced and takes the name in one step.

    It has the rights that the umask leaves, whatever the library that fills it does. Where anything is raised it is
    gone, and `path` is as it was. With `over` false, FileExistsError where the name is taken by then.
    """
    aside = _aside(path)
    handle = os.open(aside, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666)
    try:
        rights = os.fstat(handle).st_mode
        os.close(handle)
        yield aside
        aside.chmod(rights)
        sync(aside)
        if over or not _linked(aside, path):
            aside.replace(path)
        try:
            sync(path.parent)
        except OSError:
            if not over:
                path.unlink()
            raise
    finally:
        aside.unlink(missing_ok=True)


def _linked(aside: Path, path: Path) -> bool:
    """Give a file a second name if that is free, else raise FileExistsError; False where the system has no links."""
    try:
        path.hardlink_to(aside)
        return True
    except FileExistsError:
        raise
    except OSError as error:
        if os.path.lexists(path):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path)) from error
        return False


def _aside(path: Path) -> Path:
    return path.with_name(f"{ASIDE}{os.urandom(8).hex()}-{path.name[:40]}")


@contextmanager
def folder_aside(final: Path) -> Iterator[Path]:
    """A new folder next to `final`, to fill within the context. Afterwards it is gone unless `publish_folder` named it,
    and so are the folders above it that were made for it."""
    made, aside = Made(), _aside(final)
    try:
        yield made.folder(aside)
    finally:
        remove(aside, ["*"])
        made.take_back()


def publish_folder(
    aside: Path,
    final: Path,
    *,
    manifest: str = "",
    listing: Callable[[dict[str, Path]], str] | None = None,
) -> None:
    """Give a folder that was filled aside its name, once all of it is on the disk: files, manifest, folders, name.

    Args:
        manifest: a file to write last, of the text that `listing` makes of all others, by name.

    Raises OSError, FileExistsError where the name is taken; the folder is aside still, then.
    """
    paths = {name: aside / name for name in files_of(aside)}
    text = None if listing is None else listing(paths)
    for path in paths.values():
        if not path.is_symlink():
            sync(path)
    if text is not None:
        (aside / manifest).write_text(text, encoding="utf-8")
        sync(aside / manifest)
    for place, _, _ in _walk(aside):
        sync(Path(place))
    if os.path.lexists(final):  # a rename would replace an empty folder
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(final))
    aside.rename(final)
    try:
        sync(final.parent)
    except OSError:
        final.rename(aside)
        raise


def drop_asides(folder: Path) -> None:
    """Remove the files that killed processes left half-written in a folder."""
    for path in folder.glob(f"{ASIDE}*"):
        if _ASIDE.fullmatch(path.name) and path.is_file() and not path.is_symlink():
            path.unlink(missing_ok=True)


@contextmanager
def usual_rights(path: Path) -> Iterator[None]:
    """Within the context a library makes the file `path`; it gets the rights that the umask leaves."""
    path.touch()
    rights = path.stat().st_mode
    yield
    path.chmod(rights)


def is_file(path: str | Path) -> bool:
    """Whether a file is there; a word that can be no path, such as a long sentence, names none."""
    return _mode(path, stat.S_ISREG)


def is_folder(path: str | Path) -> bool:
    """Whether a folder is there; see `is_file`."""
    return _mode(path, stat.S_ISDIR)


def exists(path: str | Path) -> bool:
    """Whether anything is there; see `is_file`."""
    return _mode(path, lambda mode: True)


def _mode(path: str | Path, wanted: Callable[[int], bool]) -> bool:
    try:
        return wanted(Path(path).stat().st_mode)
    except (OSError, ValueError):
        return False


def inside(folder: Path, name: str) -> bool:
    """Whether a name leads to a place below a folder, as written and as links lead; it need not be there."""
    path = Path(name)
    if not name or "\0" in name or path.is_absolute() or ".." in path.parts:
        return False
    try:
        return not circular(folder / path) and (folder / path).resolve().is_relative_to(folder.resolve())
    except (OSError, RuntimeError):  # a name that is too long
        return False


def circular(path: Path) -> bool:
    """Whether links lead from a path to themselves, which `resolve` says by an exception up to Python 3.12 alone."""
    try:
        path.stat()
    except OSError as error:
        return error.errno == errno.ELOOP
    return False


_DEVICE = re.compile(r"(con|prn|aux|nul|com\d|lpt\d)(?=\.|$)", re.IGNORECASE)


def no_device(name: str) -> str:
    """A file's name that Windows does not take for a device, as it does `con` and `nul.txt`."""
    return f"{found[0]}-{name[found.end() :]}" if (found := _DEVICE.match(name)) else name


def file_hash(path: Path) -> str:
    """SHA-256 of a file, hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def sync(path: Path) -> None:
    """Make a file's or folder's content survive a power cut, as far as the system can promise it."""
    if path.is_dir() and os.name == "nt":  # Windows cannot open folders
        return
    handle = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)  # Windows syncs no read-only handle
    try:
        flush_to_disk(handle)
    finally:
        os.close(handle)


NOT_OFFERED = frozenset((errno.EINVAL, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP))
"""What file systems answer that know no syncing, or no locks: shared folders, folders of phones, FUSE."""


def flush_to_disk(handle: int) -> None:
    """`os.fsync`, where the file system has it. Raises OSError where it failed."""
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno not in NOT_OFFERED:
            raise


_NUMBERED = re.compile(r"\(os error (\d+)\)")
_CUT_SHORT = re.compile(r"\d+ requested and \d+ written")


def of_the_system(error: BaseException) -> OSError | None:
    """The system's error behind one that a library raises: safetensors and tokenizers write its number into their text,
    and numpy, whose write the disk cut short, loses it. None for an error that is not the system's."""
    if found := _NUMBERED.search(str(error)):
        number = int(found[1])
        return error if isinstance(error, OSError) and error.errno else OSError(number, os.strerror(number))
    if isinstance(error, OSError) and error.errno is None and _CUT_SHORT.fullmatch(str(error).strip()):
        return OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    return error if isinstance(error, OSError) else None


@contextmanager
def storage_errors(folder: Path) -> Iterator[None]:
    """Turn the system's errors about a folder into sentences, also those that libraries raise in words of their own."""
    try:
        yield
    except OctavoError:
        raise
    except Exception as raised:
        error = of_the_system(raised)
        if error is None:
            raise
        if error.errno in FULL:
            raise StorageError(
                f"The disk is full: {folder} could not be written.",
                remedy="free some space, then run the same command again",
            ) from error
        if error.errno in (
            errno.EACCES,
            errno.EPERM,
            errno.EROFS,
            errno.ENOTDIR,
            errno.EEXIST,
        ):
            raise StorageError(
                f"{folder} cannot be written: {error.strerror}.", remedy="choose another folder with --out"
            ) from error
        if error.errno == errno.ENAMETOOLONG:
            raise InputError(
                f"{folder} cannot be written: {error.strerror}.", remedy="choose a shorter --out"
            ) from error
        raise StorageError(
            f"{folder} could not be written: {error.strerror or error}.",
            remedy="check the disk, or choose another folder with --out",
        ) from error


# Holding a file against other processes. The system lets go when a process dies, however it dies.

_NO_LOCKS = NOT_OFFERED | {errno.ENOLCK}
_LOOK = 0.5  # seconds between two looks at a lock that another process holds
_GLANCE = 0.1  # seconds that a look at a lock takes at most


def take(handle: int) -> bool:
    """Lock an open file without waiting; whether that worked. It is held until the file is closed. A file system that
    knows no locks keeps nobody out, and stops nobody."""
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
    except OSError as error:
        return error.errno in _NO_LOCKS


def take_soon(handle: int) -> bool:
    """`take`, and once more where somebody may only have looked (`is_held`)."""
    if take(handle):
        return True
    time.sleep(_GLANCE)
    return take(handle)


def is_held(path: Path) -> bool:
    """Whether another process holds a file by `take`. Looking takes it for an instant, so its writers `take_soon`."""
    try:
        handle = os.open(path, os.O_RDONLY if os.name != "nt" else os.O_RDWR)
    except OSError:
        return False
    try:
        try:
            import fcntl
        except ImportError:  # Windows
            return not take(handle)
        try:
            fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
            return False
        except OSError as error:
            return error.errno not in _NO_LOCKS
    finally:
        os.close(handle)


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


# What may be taken away: what Octavo made, file by file. Whatever else lies there stays where it is.


class Made:
    """The files and folders that this process made at a place, so that it can take back these and no others."""

    def __init__(self) -> None:
        self._paths: list[Path] = []

    def folder(self, path: Path) -> Path:
        """Make a folder, with those above it that are missing. Raises OSError."""
        for each in [*reversed(path.parents), path]:
            try:
                each.mkdir()
            except OSError:
                if not each.is_dir():
                    raise
            else:
                self._paths.append(each.absolute())
                sync(each.parent)  # or a power cut takes the folder, with all that was synced in it
        return path

    def file(self, path: Path) -> Path:
        """Note a file that is about to be written, unless it is there already."""
        if not os.path.lexists(path):
            self._paths.append(path.absolute())
        return path

    def take_back(self) -> None:
        """Remove what was made; a folder only where it is empty."""
        for path in reversed(self._paths):
            with suppress(OSError):
                path.rmdir() if path.is_dir() and not path.is_symlink() else path.unlink()
        self._paths.clear()


def files_of(folder: Path) -> list[str]:
    """All files and links below a folder, relative to it, with / between names; links are not followed. OSError."""
    found = []
    for place, folders, files in _walk(folder):
        links = [name for name in folders if Path(place, name).is_symlink()]
        found += [Path(place, name).relative_to(folder).as_posix() for name in files + links]
    return sorted(found)


def _walk(folder: Path) -> Iterator[tuple[str, list[str], list[str]]]:
    """`os.walk` that raises OSError where it cannot look."""

    def failed(error: OSError) -> None:
        raise error

    return os.walk(folder, onerror=failed)


def strange(folder: Path, ours: Iterable[str]) -> list[str]:
    """The files below a folder that are not `ours`: names relative to it, or patterns such as `tokenizer/*`."""
    patterns = list(ours)
    return [name for name in files_of(folder) if not any(fnmatchcase(name, each) for each in patterns)]


def remove(folder: Path, ours: Iterable[str]) -> bool:
    """Remove those files below a folder that are `ours` (see `strange`), one by one, and the folders that are empty
    then. Returns whether all of it is gone; errors of the system only leave something.
    """
    if folder.is_symlink():
        return False
    with suppress(OSError):
        kept = set(strange(folder, ours))
        for name in files_of(folder):
            if name not in kept:
                (folder / name).unlink()
    for place, folders, _ in os.walk(folder, topdown=False):
        for path in [*(Path(place, name) for name in folders), Path(place)]:
            with suppress(OSError):
                path.rmdir()
    return not folder.exists()


def put_away(path: Path, word: str) -> Path:
    """Give what is in the way the first free name like `WORD-NAME`, and return that. Raises OSError."""
    names = (path.with_name(f"{word}-{path.name}" + (f"-{n}" if n > 1 else "")) for n in count(1))
    free = next(name for name in names if not os.path.lexists(name))
    return path.rename(free)


_KINDS = {
    "run": (("config.yaml", ".lock", "samples"), ("config.yaml", "manifest.json", "checkpoints")),
    "study": (("study.yaml", ".lock"), ("study.yaml", "runs")),
    "export": (("certificate.json", "README.md"),),
    "checkpoint": (("config.yaml", "MANIFEST.json", "state.json"),),
}
"""By kind the names that stand together in such a folder: of a run that begins, and of one that has begun or was
copied."""


def kind_of(folder: str | Path) -> str | None:
    """What Octavo wrote as this folder: a run, study, export or checkpoint; None for any other folder."""
    for kind, marks in _KINDS.items():
        if any(all(os.path.lexists(f"{folder}{os.sep}{name}") for name in names) for names in marks):
            return kind
    return None


def holder_of(path: Path) -> tuple[Path, str] | None:
    """The nearest run, study, export or checkpoint that a path lies in, as written or as links lead, and its kind."""
    for above in (*Path(os.path.abspath(path)).parents, *Path(os.path.realpath(path)).parents):  # noqa: PTH100 — links stay
        if kind := kind_of(above):
            return above, kind
    return None


def claim_folder(
    path: Path,
    kind: str,
    *,
    new: bool = False,
    is_one: Callable[[Path], bool] = lambda path: False,
    passing: Iterable[str] = (),
) -> None:
    """Raise RunFolderError if something stands in the way of writing the folder `path` as `kind` (a run, a study).

    Args:
        new: nothing may be there at all; else an empty folder may be, with hidden files and those in `passing`.
        is_one: whether a folder that is not empty is of the kind, so that it may be gone on with.
    """
    with storage_errors(path):
        _refuse_no_folder(path, kind)
        if new and os.path.lexists(path):
            raise RunFolderError(f"{path} exists already.", remedy="choose another --out")
        there = {entry.name for entry in path.iterdir()} if path.is_dir() and not is_one(path) else set()
        if any(not name.startswith(".") for name in there.difference(passing)):
            raise RunFolderError(f"{path} is not empty, and not {kind}.", remedy="choose another --out")


def _refuse_no_folder(path: Path, kind: str) -> None:
    for place in [path, *path.parents]:
        if place.is_dir():
            return
        if place.is_symlink() and not place.exists():
            raise RunFolderError(
                f"{place} is a link to {place.readlink()}, which does not exist.",
                remedy="make that folder, or choose another --out",
            )
        if place.exists():
            found = "a file" if place.is_file() else "no folder"
            raise RunFolderError(f"{place} is {found}; {kind} needs a folder.", remedy="choose another --out")


def default_cache() -> Path:
    """The user's cache folder for Octavo: $OCTAVO_CACHE, or where the platform keeps caches; for a user who has no home
    to write to, as in a container that runs with any number for a user, a folder of his own among the temporary ones.
    Raises StorageError where that cannot be had."""
    if chosen := os.environ.get("OCTAVO_CACHE"):
        return from_home(chosen)
    try:
        place = _cache_of_the_platform()
    except RuntimeError:  # the system knows of no home
        return _temporary_cache()
    return place if _can_be_written(place) else _temporary_cache()


def _can_be_written(place: Path) -> bool:
    there = next(folder for folder in (place, *place.parents) if os.path.exists(folder))  # noqa: PTH110
    return os.path.isdir(there) and os.access(there, os.W_OK | os.X_OK)  # noqa: PTH112  (Path's raise without rights)


def _temporary_cache() -> Path:
    """Only its user may have made it, and may look into it: what lies there is trusted."""
    try:
        import tempfile  # what it imports takes a fifth of the start of `octavo --help`

        path = Path(tempfile.gettempdir()) / f"octavo-{os.geteuid()}"
        with suppress(FileExistsError):
            path.mkdir(mode=0o700)
        found = path.lstat()
        if stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid() and not found.st_mode & 0o077:
            return path
    except (OSError, AttributeError):  # no place to write to; a system without users of this kind
        pass
    raise StorageError("This user has no home folder to keep a cache in.", remedy="set OCTAVO_CACHE")


def _cache_of_the_platform() -> Path:
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "octavo"
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local") / "octavo" / "Cache"
    # The XDG rules say to ignore a relative path.
    xdg = Path(os.environ.get("XDG_CACHE_HOME", ""))
    return (xdg if xdg.is_absolute() else Path.home() / ".cache") / "octavo"
