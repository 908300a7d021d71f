"""Hashes of files are of all of them; what is synced is opened as every system wants it. Where the cache is, and for
whom there is none."""

from __future__ import annotations

import errno
import hashlib
import os
import stat
import tempfile
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest
from safetensors import SafetensorError

from octavo.errors import InputError, StorageError
from octavo.util.files import (
    circular,
    default_cache,
    file_hash,
    folder_aside,
    from_home,
    inside,
    is_held,
    no_device,
    of_the_system,
    publish_folder,
    storage_errors,
    sync,
    take,
    written_aside,
)
from octavo.util.records import FileRecord


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


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.ENOSPC, "No space left on device"),
        OSError("8192 requested and 0 written"),
        SafetensorError("Error while serializing: I/O error: No space left on device (os error 28)"),
        Exception("No space left on device (os error 28)"),
    ],
    ids=["system", "numpy", "safetensors", "tokenizers"],
)
def test_a_full_disk_is_known_in_every_librarys_words(tmp_path: Path, error: Exception) -> None:
    found = of_the_system(error)
    assert found is not None and found.errno == errno.ENOSPC
    with pytest.raises(StorageError, match="The disk is full") as raised, storage_errors(tmp_path):
        raise error
    assert isinstance(raised.value.__cause__, OSError) and raised.value.__cause__.errno == errno.ENOSPC


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs a device that is always full")  # noqa: PTH110
def test_numpy_on_a_full_disk_is_such_an_error(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="The disk is full"), storage_errors(tmp_path):
        np.zeros(1 << 16).tofile("/dev/full")


def test_other_errors_stay_what_they_are(tmp_path: Path) -> None:
    for error in (
        SafetensorError("header too large"),
        ValueError("5 requested and 4 written"),
        KeyError("x"),
    ):
        assert of_the_system(error) is None
        with pytest.raises(type(error)), storage_errors(tmp_path):
            raise error
    said = InputError("A text holds '(os error 28)'.")
    with pytest.raises(InputError, match="A text holds"), storage_errors(tmp_path):
        raise said


def test_a_name_that_the_disk_cannot_keep_is_not_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or the same command would find its place taken by what it said it had not made."""

    def failing(handle: int) -> None:
        if stat.S_ISDIR(os.fstat(handle).st_mode):
            raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "fsync", failing)
    (tmp_path / "aside").mkdir()
    with pytest.raises(OSError, match="Input/output error"):
        publish_folder(tmp_path / "aside", tmp_path / "final")
    with (
        pytest.raises(OSError, match="Input/output error"),
        written_aside(tmp_path / "file", over=False) as new,
    ):
        new.write_text("new")
    assert [path.name for path in tmp_path.iterdir()] == ["aside"]


def test_a_folder_is_whole_and_in_nobodys_place_or_nothing_is_left(tmp_path: Path) -> None:
    final, listed = tmp_path / "made" / "final", {}

    def listing(files: dict[str, Path]) -> str:
        listed.update((name, FileRecord.of(path)) for name, path in files.items())
        return "the manifest"

    with folder_aside(final) as aside:
        (aside / "inner").mkdir()
        (aside / "inner" / "file").write_text("content")
        publish_folder(aside, final, manifest="MANIFEST", listing=listing)
    assert [path.name for path in final.parent.iterdir()] == ["final"]
    assert (final / "MANIFEST").read_text() == "the manifest"
    assert list(listed) == ["inner/file"]
    assert listed["inner/file"].difference(final / "inner" / "file") is None
    with pytest.raises(ValueError, match="something"), folder_aside(tmp_path / "other" / "final") as aside:
        (aside / "file").write_text("content")
        raise ValueError("something")
    taken = tmp_path / "taken"
    taken.mkdir()
    with pytest.raises(FileExistsError), folder_aside(taken) as aside:
        publish_folder(aside, taken)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["made", "taken"]


def test_a_record_tells_what_a_file_lost(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("content")
    record = FileRecord.of(path)
    assert FileRecord.model_validate({"size": 7, "sha256": file_hash(path)}) == record  # older checkpoints
    assert record.model_dump() == {"bytes": 7, "sha256": file_hash(path)}
    path.write_text("c0ntent")
    assert record.difference(path) == "has been altered (its SHA-256 differs)"
    assert record.difference(path, contents=False) is None
    path.write_text("more content")
    assert record.difference(path, contents=False) == "has 12 bytes instead of 7"
    path.unlink()
    assert record.difference(path) == "is missing"


@pytest.mark.parametrize(
    ("error", "heard"), [(errno.EINVAL, False), (errno.ENOTSUP, False), (errno.EIO, True)]
)
def test_a_file_system_without_syncing_stops_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: int, heard: bool
) -> None:
    def failing(handle: int) -> None:
        raise OSError(error, os.strerror(error))

    monkeypatch.setattr(os, "fsync", failing)
    with pytest.raises(OSError) if heard else nullcontext():
        sync(tmp_path)


@pytest.mark.skipif(os.name == "nt", reason="locks by another call")
@pytest.mark.parametrize(
    ("error", "taken"), [(errno.ENOLCK, True), (errno.ENOTSUP, True), (errno.EWOULDBLOCK, False)]
)
def test_a_file_system_without_locks_stops_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: int, taken: bool
) -> None:
    """Waiting for a lock that nobody can hold had no end."""
    import fcntl

    def failing(handle: int, operation: int) -> None:
        raise OSError(error, os.strerror(error))

    monkeypatch.setattr(fcntl, "flock", failing)
    with (tmp_path / "lock").open("w") as file:
        assert take(file.fileno()) is taken
    assert is_held(tmp_path / "lock") is not taken


@pytest.mark.parametrize(
    ("name", "safe"),
    [
        ("con", "con-"),
        ("Nul.txt", "Nul-.txt"),
        ("lpt1.a.b", "lpt1-.a.b"),
        ("console", "console"),
        ("a.con", "a.con"),
    ],
)
def test_no_name_is_a_device_of_windows(name: str, safe: str) -> None:
    assert no_device(name) == safe


def test_a_link_in_a_circle_leads_to_no_place(tmp_path: Path) -> None:
    """Python 3.13 resolves it to itself."""
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    assert circular(tmp_path / "a") and not inside(tmp_path, "a/x") and not inside(tmp_path, "a")
    assert not circular(tmp_path / "c") and inside(tmp_path, "c/x")


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
