"""Where Octavo keeps what can be made or fetched again."""

from __future__ import annotations

import os
import sys
from pathlib import Path


def default_cache() -> Path:
    """The user's cache folder for Octavo: $OCTAVO_CACHE, or where the platform keeps caches."""
    if chosen := os.environ.get("OCTAVO_CACHE"):
        return Path(chosen).expanduser()
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "octavo"
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local") / "octavo" / "Cache"
    # The XDG rules say to ignore a relative path.
    xdg = Path(os.environ.get("XDG_CACHE_HOME", ""))
    return (xdg if xdg.is_absolute() else Path.home() / ".cache") / "octavo"
