"""A folder for what may be run later: only its user can have written what is read from it, and it is whole."""

from __future__ import annotations

import hashlib
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

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
