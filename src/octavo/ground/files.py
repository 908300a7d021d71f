"""Files as every room writes and reads them: whole or not at all, synced, hashed, and the system's errors in words."""

from __future__ import annotations

import errno
import hashlib
import os
import re
import secrets
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from octavo.errors import InputError, OctavoError, StorageError

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
    aside = path.with_name(f"{ASIDE}{secrets.token_hex(8)}-{path.name[:40]}")
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


def name_folder(aside: Path, final: Path) -> None:
    """Give a folder that was written aside its name, for certain. Raises OSError; it is aside still, then."""
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
        return (folder / path).resolve().is_relative_to(folder.resolve())
    except (OSError, RuntimeError):  # links in a circle, a name that is too long
        return False


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
        os.fsync(handle)
    finally:
        os.close(handle)


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
