"""Files that a command writes for its user: over no input, over nothing unasked, whole or not at all."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest
from safetensors import SafetensorError

from octavo.errors import InputError, StorageError
from octavo.util.output import Output, all_or_none


def written(output: Output, text: str = "new") -> str:
    with output.writing() as file:
        file.write(text)
    return output.path.read_text()


def test_a_new_file_in_a_new_folder(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        assert written(Output(tmp_path / "a" / "b" / "new.txt")) == "new"
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "a" / "b" / "new.txt").stat().st_mode) == 0o640
    assert [path.name for path in (tmp_path / "a" / "b").iterdir()] == ["new.txt"]


def test_what_exists_is_written_over_only_by_force(tmp_path: Path) -> None:
    path = tmp_path / "old.txt"
    path.write_text("old")
    with pytest.raises(InputError, match=r"(?s)old\.txt exists.*force"):
        Output(path)
    assert written(Output(path, force=True)) == "new"
    (tmp_path / "dangling").symlink_to(tmp_path / "target")
    with pytest.raises(InputError, match="dangling exists"):
        Output(tmp_path / "dangling")
    assert written(Output(tmp_path / "dangling", force=True)) == "new"
    assert not (tmp_path / "dangling").is_symlink() and not (tmp_path / "target").exists()


def test_a_link_is_replaced_and_what_it_leads_to_is_kept(tmp_path: Path) -> None:
    precious, page = tmp_path / "thesis.tex", tmp_path / "page.html"
    precious.write_text("precious")
    page.symlink_to(precious)
    assert written(Output(page, force=True)) == "new"
    assert precious.read_text() == "precious" and not page.is_symlink()


@pytest.mark.parametrize("place", [".", os.devnull])
def test_what_is_no_file_is_never_written_over(tmp_path: Path, place: str) -> None:
    with pytest.raises(InputError, match=r"is a folder|is no ordinary file"):
        Output(tmp_path / place, force=True)


def test_an_input_is_never_written_over_whatever_it_is_called(tmp_path: Path) -> None:
    (tmp_path / "texts").mkdir()
    read = tmp_path / "texts" / "read.txt"
    read.write_text("precious")
    os.link(read, tmp_path / "again.txt")
    (tmp_path / "link.txt").symlink_to(read)
    for inputs in ([read], [tmp_path / "texts"], ["corpus:x", "-", "x" * 300, tmp_path / "link.txt"]):
        with pytest.raises(InputError, match="cannot be written at the same time"):
            Output(read, inputs=inputs, force=True)
    for name in ("again.txt", "link.txt"):
        with pytest.raises(InputError, match="cannot be written at the same time"):
            Output(tmp_path / name, inputs=[read], force=True)
    assert written(Output(tmp_path / "texts" / "new.txt", inputs=[tmp_path / "texts"])) == "new"


def test_an_error_leaves_all_as_it_was(tmp_path: Path) -> None:
    old = tmp_path / "old.txt"
    old.write_text("old")
    for output in (Output(old, force=True), Output(tmp_path / "deep" / "new.txt")):
        with pytest.raises(KeyboardInterrupt), output.writing() as file:
            file.write("half")
            file.flush()
            raise KeyboardInterrupt
    assert [path.name for path in tmp_path.iterdir()] == ["old.txt"] and old.read_text() == "old"
    with pytest.raises(StorageError, match="cannot be written"), Output(old / "below.txt").writing():
        pytest.fail("a file is no folder")


@pytest.mark.parametrize("links", [True, False])
def test_what_came_meanwhile_is_not_written_over(
    tmp_path: Path, links: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not links:

        def refused(*_: object) -> None:
            raise PermissionError(1, "no links here")

        monkeypatch.setattr(Path, "hardlink_to", refused)
    path = tmp_path / "new.txt"
    with pytest.raises(InputError, match="exists"), Output(path).writing() as file:
        file.write("mine")
        path.write_text("somebody else's")
    assert path.read_text() == "somebody else's"
    assert [path.name for path in tmp_path.iterdir()] == ["new.txt"]
    assert written(Output(tmp_path / "other.txt")) == "new"


def test_a_library_fills_a_file_aside_that_is_whole_or_not_there(tmp_path: Path) -> None:
    output = Output(tmp_path / "new" / "table.bin")
    with output.filling() as aside:
        aside.write_bytes(b"whole")
        assert not output.path.exists()
    assert output.path.read_bytes() == b"whole"
    failed = Output(tmp_path / "other" / "table.bin")
    with pytest.raises(KeyError), failed.filling() as aside:
        aside.write_bytes(b"half")
        raise KeyError
    assert not failed.path.parent.exists()
    late = Output(tmp_path / "late.bin")
    with pytest.raises(InputError, match="exists"), late.filling() as aside:
        late.path.write_text("somebody else's")
    assert late.path.read_text() == "somebody else's" and len(list(tmp_path.iterdir())) == 2


def test_what_is_read_by_way_of_the_home_folder_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "table.csv").write_text("mine")
    with pytest.raises(InputError, match="is read"):
        Output(tmp_path / "table.csv", inputs=["~/table.csv"], force=True)


@pytest.mark.parametrize("force", [False, True])
def test_a_link_in_a_circle_is_a_file_that_exists(tmp_path: Path, *, force: bool) -> None:
    (tmp_path / "a").symlink_to("a")
    if force:
        assert written(Output(tmp_path / "a", inputs=[tmp_path], force=True)) == "new"
    else:
        with pytest.raises(InputError, match="exists"):
            Output(tmp_path / "a", inputs=[tmp_path / "b"])


@pytest.mark.parametrize(
    "error",
    [
        OSError("8192 requested and 0 written"),
        SafetensorError("I/O error: No space left on device (os error 28)"),
    ],
    ids=["numpy", "safetensors"],
)
def test_a_librarys_words_for_a_full_disk_are_a_sentence(tmp_path: Path, error: Exception) -> None:
    path = tmp_path / "new" / "picture.png"
    said = r"picture\.png cannot be written: No space left on device\."
    with pytest.raises(StorageError, match=said), Output(path).filling() as aside:
        aside.write_bytes(b"half")
        raise error
    assert list(tmp_path.iterdir()) == []


def test_of_several_files_none_is_left_new_where_one_fails(tmp_path: Path) -> None:
    (tmp_path / "old").write_text("old")
    first, old, last = (Output(tmp_path / name, force=name == "old") for name in ("first", "old", "last"))
    (tmp_path / "last").write_text("another program's")  # meanwhile
    with pytest.raises(InputError, match="exists"), all_or_none(first, old, None, last):
        assert (written(first), written(old)) == ("new", "new")
        written(last)
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {
        "old": "new",
        "last": "another program's",
    }
