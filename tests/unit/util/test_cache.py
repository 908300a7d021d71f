"""Where the cache is, and for whom there is none."""

from __future__ import annotations

from pathlib import Path

import pytest

from octavo.errors import StorageError
from octavo.util.cache import default_cache


def nobody() -> Path:
    raise RuntimeError("Could not determine home directory.")


def test_a_user_without_a_home_is_told_what_helps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Path, "home", nobody)
    for name in ("OCTAVO_CACHE", "XDG_CACHE_HOME", "LOCALAPPDATA"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(StorageError, match="OCTAVO_CACHE"):
        default_cache()
    monkeypatch.setenv("OCTAVO_CACHE", str(tmp_path))
    assert default_cache() == tmp_path
