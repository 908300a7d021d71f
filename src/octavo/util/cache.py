"""Where Octavo keeps what can be made or fetched again."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from octavo.errors import StorageError
from octavo.util.files import from_home


def default_cache() -> Path:
    """The user's cache folder for Octavo: $OCTAVO_CACHE, or where the platform keeps caches. Raises StorageError for a
    user without a home, as in a container that runs with any number for a user."""
    try:
        return _default()
    except RuntimeError as error:
        raise StorageError(
            "This user has no home folder to keep a cache in.", remedy="set OCTAVO_CACHE"
        ) from error


def _default() -> Path:
    if chosen := os.environ.get("OCTAVO_CACHE"):
        return from_home(chosen)
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "octavo"
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local") / "octavo" / "Cache"
    # The XDG rules say to ignore a relative path.
    xdg = Path(os.environ.get("XDG_CACHE_HOME", ""))
    return (xdg if xdg.is_absolute() else Path.home() / ".cache") / "octavo"
