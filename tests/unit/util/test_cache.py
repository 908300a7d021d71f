"""Where the cache is, and for whom there is none."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest

from octavo.errors import StorageError
from octavo.util.cache import default_cache

pytestmark = pytest.mark.skipif(not hasattr(os, "geteuid"), reason="this system has no owners of this kind")


def nobody() -> Path:
    raise RuntimeError("Could not determine home directory.")


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of temporary files, for a user without a home."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(Path, "home", nobody)
    monkeypatch.setattr(tempfile, "gettempdir", lambda: str(folder))
    for name in ("OCTAVO_CACHE", "XDG_CACHE_HOME", "LOCALAPPDATA"):
        monkeypatch.delenv(name, raising=False)
    return folder


def test_a_user_without_a_home_has_a_temporary_one(
    temporary: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = default_cache()
    assert place.parent == temporary and place.stat().st_mode & 0o777 == 0o700
    assert default_cache() == place
    monkeypatch.setenv("OCTAVO_CACHE", str(tmp_path))
    assert default_cache() == tmp_path


@pytest.mark.parametrize("home", ["no such folder/home", "file"])
def test_a_home_in_which_nothing_can_be_made(
    temporary: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, home: str
) -> None:
    (tmp_path / "file").write_text("no folder")
    monkeypatch.setattr(Path, "home", lambda: tmp_path / home)
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    assert default_cache().parent == temporary
    monkeypatch.undo()
    monkeypatch.delenv("OCTAVO_CACHE", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(Path, "home", lambda: tmp_path / "no such folder")
    assert default_cache().is_relative_to(tmp_path / "no such folder"), "which can be made"


@pytest.mark.parametrize("what", ["open to others", "foreign", "a link", "a file", "no room"])
def test_what_others_may_have_put_there_is_not_used(
    temporary: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    place = temporary / f"octavo-{os.geteuid()}"
    if what == "a link":
        place.symlink_to(tmp_path)
    elif what == "a file":
        place.write_text("no folder")
    elif what == "no room":
        monkeypatch.setattr(tempfile, "gettempdir", lambda: str(tmp_path / "nowhere"))
    else:
        place.mkdir(mode=0o700)
        if what == "open to others":
            place.chmod(0o750)
        elif os.geteuid() == 0:
            os.chown(place, 65534, -1)
        else:
            pytest.skip("only root can give folders away")
    with pytest.raises(StorageError, match="OCTAVO_CACHE"):
        default_cache()
