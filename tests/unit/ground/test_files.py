"""Hashes of files are of all of them; what is synced is opened as every system wants it."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest

from octavo.errors import InputError
from octavo.ground.files import file_hash, from_home, sync


@pytest.mark.parametrize("size", [0, 1, (1 << 20) - 1, 1 << 20, (1 << 20) + 1, (5 << 20) + 7])
def test_every_byte_counts(tmp_path: Path, size: int) -> None:
    path, content = tmp_path / "file", bytearray(size)
    path.write_bytes(content)
    assert file_hash(path) == hashlib.sha256(content).hexdigest()
    for place in {0, size // 2, size - 1} if size else ():
        content[place] ^= 1
        path.write_bytes(content)
        assert file_hash(path) == hashlib.sha256(content).hexdigest()


def test_files_are_synced_writable_and_folders_read_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Windows syncs no file that was opened for reading; no system opens folders for writing."""
    (tmp_path / "file").write_text("kept")
    opened, system = [], os.open

    def note(path: Path, flags: int) -> int:
        opened.append((path, flags & (os.O_RDONLY | os.O_WRONLY | os.O_RDWR)))
        return system(path, flags)

    monkeypatch.setattr(os, "open", note)
    sync(tmp_path / "file")
    if os.name != "nt":  # which opens no folders at all
        sync(tmp_path)
        assert opened.pop() == (tmp_path, os.O_RDONLY)
    assert opened == [(tmp_path / "file", os.O_RDWR)]
    assert (tmp_path / "file").read_text() == "kept"


def test_a_home_that_there_is_not() -> None:
    assert from_home("~") == Path.home()
    with pytest.raises(InputError, match="no home folder for ~nobody-of-that-name/x"):
        from_home("~nobody-of-that-name/x")
