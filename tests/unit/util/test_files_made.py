"""What may be taken away: only what was made, and nothing of the user's."""

from __future__ import annotations

from pathlib import Path

from octavo.util.files import Made, files_of, put_away, remove, strange


def grown(folder: Path, *names: str) -> Path:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(name)
    return folder


def test_only_what_was_made_is_taken_back(tmp_path: Path) -> None:
    grown(tmp_path, "mine/.env", "mine/old.txt")
    made = Made()
    made.folder(tmp_path / "mine" / "a" / "b")
    made.file(tmp_path / "mine" / "a" / "b" / "ours.txt").write_text("")
    made.file(tmp_path / "mine" / "old.txt").write_text("written over")
    made.file(tmp_path / "never written")
    made.folder(tmp_path / "fresh" / "deep")
    grown(tmp_path, "fresh/of somebody else")
    made.take_back()
    assert files_of(tmp_path) == ["fresh/of somebody else", "mine/.env", "mine/old.txt"]
    assert not (tmp_path / "mine" / "a").exists() and not (tmp_path / "fresh" / "deep").exists()


def test_what_bears_no_name_of_ours_stays(tmp_path: Path) -> None:
    folder = grown(tmp_path / "x", "a.bin", "sub/one", "sub/deep/two", "mine.txt", ".hidden")
    assert strange(folder, ["*.bin", "sub/one"]) == [".hidden", "mine.txt", "sub/deep/two"]
    assert not remove(folder, ["*.bin", "sub/one"])
    assert files_of(folder) == [".hidden", "mine.txt", "sub/deep/two"]
    assert remove(folder, ["*"])
    assert not folder.exists() and tmp_path.exists()
    assert remove(folder, ["*"])  # not there


def test_links_are_not_followed(tmp_path: Path) -> None:
    mine = grown(tmp_path / "mine", "a.txt")
    folder = grown(tmp_path / "x", "a.txt")
    (folder / "link").symlink_to(mine, target_is_directory=True)
    assert files_of(folder) == ["a.txt", "link"]
    (tmp_path / "y").symlink_to(mine, target_is_directory=True)
    assert not remove(tmp_path / "y", ["*"])
    assert remove(folder, ["*"])
    assert files_of(mine) == ["a.txt"]


def test_what_is_in_the_way_gets_a_free_name(tmp_path: Path) -> None:
    for expected in ("kept-run", "kept-run-2", "kept-run-3"):
        grown(tmp_path / "run", "notes")
        assert put_away(tmp_path / "run", "kept") == tmp_path / expected
    assert files_of(tmp_path) == ["kept-run-2/notes", "kept-run-3/notes", "kept-run/notes"]
