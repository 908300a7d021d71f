"""A text whose files are unchanged is not read again; what is answered without reading is what reading answers."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from octavo.config import check
from octavo.corpus.sources import Files, FilesSource
from octavo.data import Dataset, prepare
from octavo.tokenizers import TokenizerConfig
from octavo.util.terminal import Console

TEXTS = {"a.txt": "the cat sat on the mat\n" * 40, "b.txt": "a dog ran to the hill\n" * 40}
LONG_AGO = 1_600_000_000_123_456_789


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("octavo.corpus.sources.settled", lambda *times: True)
    folder = tmp_path / "texts"
    folder.mkdir()
    for name, text in TEXTS.items():
        (folder / name).write_text(text, encoding="utf-8")
    return folder


@pytest.fixture
def passes(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Each pass over the files."""
    found: list[str] = []
    read = Files.documents

    def documents(self: Files) -> object:
        found.append("pass")
        return read(self)

    monkeypatch.setattr(Files, "documents", documents)
    return found


def made(
    folder: Path, cache: Path, kind: str = "char", *, verify: bool = False, **options: object
) -> Dataset:
    config = check({"tokenizer": kind}).tokenizer
    assert isinstance(config, TokenizerConfig)
    source = FilesSource.model_validate({"paths": [str(folder)], **options}).build()
    return prepare(source, config, cache=cache, verify=verify)


def test_the_second_time_nothing_is_read(folder: Path, tmp_path: Path, passes: list[str]) -> None:
    one, two = (made(folder, tmp_path / "cache") for _ in range(2))
    assert len(passes) == 1 and one.folder == two.folder
    made(folder, tmp_path / "cache", verify=True)
    assert len(passes) == 2


def test_another_tokenizer_takes_the_parts_that_there_are(
    folder: Path, tmp_path: Path, passes: list[str]
) -> None:
    made(folder, tmp_path / "cache")
    other = made(folder, tmp_path / "cache", "byte")
    assert len(passes) == 1
    alone = made(folder, tmp_path / "other", "byte")
    assert len(passes) == 2
    assert other.manifest == alone.manifest and other.folder.name == alone.folder.name
    for file in sorted(alone.folder.iterdir()):
        if file.is_file():
            assert (other.folder / file.name).read_bytes() == file.read_bytes()


def rewritten(folder: Path) -> None:
    (folder / "a.txt").write_text(TEXTS["a.txt"].replace("cat", "rat"), encoding="utf-8")


def with_old_times(folder: Path) -> None:
    rewritten(folder)
    os.utime(folder / "a.txt", ns=(LONG_AGO, LONG_AGO))


def replaced(folder: Path) -> None:
    (folder / "new").write_text(TEXTS["a.txt"].replace("mat", "hat"), encoding="utf-8")
    os.utime(folder / "new", ns=(LONG_AGO, LONG_AGO))
    (folder / "new").replace(folder / "a.txt")


def swapped(folder: Path) -> None:
    for one, two in (("a.txt", "c"), ("b.txt", "a.txt"), ("c", "b.txt")):
        (folder / one).rename(folder / two)


def one_more(folder: Path) -> None:
    (folder / "c.txt").write_text("and a third\n" * 40, encoding="utf-8")


def one_less(folder: Path) -> None:
    (folder / "b.txt").unlink()


def copied(folder: Path) -> None:
    shutil.copytree(folder, folder.with_name("copy"))
    shutil.rmtree(folder)
    folder.with_name("copy").rename(folder)


@pytest.mark.parametrize(
    "change", [rewritten, with_old_times, replaced, swapped, one_more, one_less, copied, lambda folder: None]
)
def test_it_answers_what_reading_and_hashing_answer(
    folder: Path, tmp_path: Path, change: Callable[[Path], None]
) -> None:
    os.utime(folder / "a.txt", ns=(LONG_AGO, LONG_AGO))
    made(folder, tmp_path / "cache")
    change(folder)
    fast = made(folder, tmp_path / "cache")
    slow = made(folder, tmp_path / "cache", verify=True)
    assert fast.folder == slow.folder and fast.manifest == slow.manifest


def test_what_may_have_changed_just_now_is_read(
    tmp_path: Path, passes: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Within the resolution of its times a change leaves no trace."""
    path = tmp_path / "a.txt"
    path.write_text(TEXTS["a.txt"], encoding="utf-8")
    now = path.stat().st_ctime_ns + 50_000_000
    with monkeypatch.context() as patch:
        patch.setattr("octavo.corpus.files.time.time_ns", lambda: now)
        made(path, tmp_path / "cache")
    assert not (tmp_path / "cache" / "read").exists()
    made(path, tmp_path / "cache")
    assert len(passes) == 2


def test_other_options_of_the_source_are_another_text(
    folder: Path, tmp_path: Path, passes: list[str]
) -> None:
    made(folder, tmp_path / "cache")
    whole = made(folder, tmp_path / "cache", documents="whole")
    assert len(passes) == 2 and whole.train.documents == 1


def test_what_was_said_is_said_again(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from octavo.run.data import build_dataset

    monkeypatch.setenv("OCTAVO_CACHE", str(tmp_path / "cache"))
    recipe = check({"corpus": {"kind": "files", "paths": [str(folder)]}, "tokenizer": "char"})
    said: list[list[str]] = []
    for _ in range(2):
        console = Console(quiet=True)
        build_dataset(recipe, console)
        said.append(console._held)
    assert all("every file is a document" in each for each in said)


def test_a_damaged_note_is_no_note(folder: Path, tmp_path: Path, passes: list[str]) -> None:
    one = made(folder, tmp_path / "cache")
    (note,) = (tmp_path / "cache" / "read").iterdir()
    note.write_text('{"text": 3}')
    assert made(folder, tmp_path / "cache").folder == one.folder and len(passes) == 2
