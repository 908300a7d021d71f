"""What may be run is read only where nobody else can have written it, and whole."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from octavo.util import kernels
from octavo.util.kernels import PrivateFolder, replaceable

pytestmark = pytest.mark.skipif(not hasattr(os, "geteuid"), reason="this system has no owners of this kind")
CONTENT = bytes(range(256)) * 20


@pytest.fixture
def folder(tmp_path: Path) -> PrivateFolder:
    kept = PrivateFolder(tmp_path / "cache" / "native")
    kept.keep("kernel.so", CONTENT)
    assert kept.read("kernel.so") == CONTENT
    return kept


def file_of(folder: PrivateFolder) -> Path:
    (file,) = folder.path.iterdir()
    return file


@pytest.fixture
def stranger(monkeypatch: pytest.MonkeyPatch) -> None:
    """From now on this process is another user than the one who wrote the files before."""
    another = os.geteuid() + 1
    monkeypatch.setattr(os, "geteuid", lambda: another)


def test_only_the_user_may_read_and_write_what_is_kept(folder: PrivateFolder) -> None:
    assert folder.path.stat().st_mode & 0o777 == 0o700
    assert file_of(folder).stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("size", [0, 1, 31, 32, 33, len(CONTENT), len(CONTENT) + 31])
def test_cut(folder: PrivateFolder, size: int) -> None:
    os.truncate(file_of(folder), size)
    assert folder.read("kernel.so") is None


@pytest.mark.parametrize("place", [0, 1000, len(CONTENT) - 1, len(CONTENT), len(CONTENT) + 31])
def test_a_flipped_bit(folder: PrivateFolder, place: int) -> None:
    whole = bytearray(file_of(folder).read_bytes())
    whole[place] ^= 4
    file_of(folder).write_bytes(whole)
    assert folder.read("kernel.so") is None


@pytest.mark.parametrize("mode", [0o620, 0o602, 0o666])
def test_a_file_that_others_may_write(folder: PrivateFolder, mode: int) -> None:
    file_of(folder).chmod(mode)
    assert folder.read("kernel.so") is None


@pytest.mark.parametrize("mode", [0o720, 0o702, 0o1777])
def test_a_folder_that_others_may_write(folder: PrivateFolder, mode: int) -> None:
    folder.path.chmod(mode)
    for work in (lambda: folder.read("kernel.so"), lambda: folder.keep("other.so", CONTENT)):
        with pytest.raises(PermissionError, match="can be written to by other users"):
            work()


def test_a_folder_of_another_user(folder: PrivateFolder, stranger: None) -> None:
    with pytest.raises(PermissionError, match="belongs to another user"):
        folder.read("kernel.so")


@pytest.mark.skipif(os.name == "nt" or os.geteuid() != 0, reason="only root can give files away")
def test_a_file_of_another_user(folder: PrivateFolder) -> None:
    os.chown(file_of(folder), 65534, -1)
    assert folder.read("kernel.so") is None


def test_links_are_not_followed(folder: PrivateFolder, tmp_path: Path) -> None:
    file_of(folder).rename(folder.path / "other.so")
    (folder.path / "kernel.so").symlink_to("other.so")
    assert folder.read("kernel.so") is None
    assert folder.read("other.so") == CONTENT
    (tmp_path / "link").symlink_to(folder.path)
    with pytest.raises(OSError):
        PrivateFolder(tmp_path / "link").read("other.so")


def test_a_pipe_in_the_place_of_a_file_stops_nothing(folder: PrivateFolder) -> None:
    file_of(folder).unlink()
    os.mkfifo(folder.path / "kernel.so")
    assert folder.read("kernel.so") is None


def test_the_folder_is_changed_while_it_is_read(
    folder: PrivateFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Others who may write to a folder above can put another in its place; what was checked is read all the same."""
    others = kernels._others

    def swapped(found: os.stat_result) -> str:
        if folder.path.is_dir() and not (aside := folder.path.with_name("aside")).exists():
            folder.path.rename(aside)
            folder.path.mkdir()
            (folder.path / "kernel.so").write_bytes(b"theirs")
        return others(found)

    monkeypatch.setattr(kernels, "_others", swapped)
    assert folder.read("kernel.so") == CONTENT


def test_synced_before_it_has_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []
    sync, replace = os.fsync, os.replace
    monkeypatch.setattr(os, "fsync", lambda handle: (done.append("sync"), sync(handle)))
    monkeypatch.setattr(os, "replace", lambda *a, **k: (done.append("rename"), replace(*a, **k)))
    PrivateFolder(tmp_path / "new").keep("kernel.so", CONTENT)
    assert done == ["sync", "rename", "sync"]


def test_what_cannot_be_kept_leaves_nothing_behind(
    folder: PrivateFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError):
        folder.keep("kernel.so", b"new")
    monkeypatch.undo()
    assert folder.read("kernel.so") == CONTENT
    assert [file.name for file in folder.path.iterdir()] == ["kernel.so"]


def test_another_user_can_replace_what_is_in_his_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not replaceable(tmp_path)
    if os.geteuid() == 0:  # whose folders are everybody's
        os.chown(tmp_path, 65534, -1)
    else:
        another = os.geteuid() + 1
        monkeypatch.setattr(os, "geteuid", lambda: another)
    assert replaceable(tmp_path)


@pytest.mark.parametrize(
    ("mode", "expected"), [(0o700, False), (0o755, False), (0o777, True), (0o770, True), (0o1777, False)]
)
def test_sticky_folders_are_for_all_and_safe(tmp_path: Path, mode: int, expected: bool) -> None:
    above = tmp_path / "above"
    (above / "inner").mkdir(parents=True)
    above.chmod(mode)
    assert replaceable(above / "inner") is expected
