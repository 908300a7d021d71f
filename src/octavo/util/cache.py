"""Where Octavo keeps what can be made or fetched again."""

from __future__ import annotations

import os
import stat
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

from octavo.errors import StorageError
from octavo.util.files import from_home


def default_cache() -> Path:
    """The user's cache folder for Octavo: $OCTAVO_CACHE, or where the platform keeps caches; for a user who has no home
    to write to, as in a container that runs with any number for a user, a folder of his own among the temporary ones.
    Raises StorageError where that cannot be had."""
    if chosen := os.environ.get("OCTAVO_CACHE"):
        return from_home(chosen)
    try:
        place = _of_the_platform()
    except RuntimeError:  # the system knows of no home
        return _temporary()
    return place if place.exists() or _can_be_made(place) else _temporary()


def _can_be_made(path: Path) -> bool:
    above = next(folder for folder in path.parents if folder.exists())
    return above.is_dir() and os.access(above, os.W_OK | os.X_OK)


def _temporary() -> Path:
    """Only its user may have made it, and may look into it: what lies there is trusted."""
    try:
        path = Path(tempfile.gettempdir()) / f"octavo-{os.geteuid()}"
        with suppress(FileExistsError):
            path.mkdir(mode=0o700)
        found = path.lstat()
        if stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid() and not found.st_mode & 0o077:
            return path
    except (OSError, AttributeError):  # no place to write to; a system without users of this kind
        pass
    raise StorageError("This user has no home folder to keep a cache in.", remedy="set OCTAVO_CACHE")


def _of_the_platform() -> Path:
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "octavo"
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local") / "octavo" / "Cache"
    # The XDG rules say to ignore a relative path.
    xdg = Path(os.environ.get("XDG_CACHE_HOME", ""))
    return (xdg if xdg.is_absolute() else Path.home() / ".cache") / "octavo"
