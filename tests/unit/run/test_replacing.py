"""`overwrite=True`: the old run goes when a new one has its place, and nothing else goes."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path

import pytest

import octavo
from octavo.errors import CorpusError, InputError, RunFolderError, StorageError
from octavo.run import folder as runs_folder
from octavo.run import train as runs_train
from octavo.run.folder import WRITTEN, RunFolder
from octavo.run.run import Run
from octavo.util.files import storage_errors
from unit.run.small import RECIPE


def train(text: Path, out: Path, **more: object) -> octavo.Run:
    return octavo.train(RECIPE, text=text, out=out, quiet=True, **more)  # pyrefly: ignore


def test_a_new_run_takes_the_place_and_only_our_files_go(text: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    train(text, out)
    with pytest.raises(RunFolderError, match="overwrite=True"):
        train(text, out)
    run = train(text, out, overwrite=True, overrides={"seed": 5})
    assert run.config.seed == 5
    assert sorted(path.name for path in tmp_path.iterdir()) == ["cache", "run", "text.txt"]
    (out / "notes.md").write_text("mine")
    (out / "samples" / "mine.txt").write_text("mine too")
    train(text, out, overwrite=True)
    kept = tmp_path / "replaced-run"
    assert sorted(path.relative_to(kept).as_posix() for path in kept.rglob("*") if path.is_file()) == [
        "notes.md",
        "samples/mine.txt",
    ]


def test_an_error_gives_the_old_run_its_name_back(text: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    weights = train(text, out).checkpoint.folder / "model.safetensors"
    before = weights.read_bytes()
    with pytest.raises(CorpusError):
        octavo.train(RECIPE, text=tmp_path / "nowhere", out=out, overwrite=True, quiet=True)
    assert weights.read_bytes() == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["cache", "run", "text.txt"]


@pytest.mark.parametrize("error", [KeyboardInterrupt(), StorageError("full"), MemoryError()])
@pytest.mark.parametrize("place", ["prepared", "note_down"])
def test_whatever_stops_the_new_one_before_it_began_leaves_the_old_one(
    text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException, place: str
) -> None:
    out = tmp_path / "run"
    before = (train(text, out).checkpoint.folder / "model.safetensors").read_bytes()

    def stopped(*_: object) -> None:
        raise error

    monkeypatch.setattr(runs_train, place, stopped)
    with pytest.raises(type(error)):
        train(text, out, overwrite=True, overrides={"seed": 5})
    assert Run.open(out).config.seed != 5
    assert (Run.open(out).checkpoint.folder / "model.safetensors").read_bytes() == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["cache", "run", "text.txt"]


def test_where_something_of_the_new_one_stays_the_old_one_is_kept_beside_it(
    text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "run"
    train(text, out)

    def stopped(folder: RunFolder, *_: object) -> None:
        (folder.path / "notes.md").write_text("mine")
        raise KeyboardInterrupt

    monkeypatch.setattr(runs_train, "note_down", stopped)
    with pytest.raises(KeyboardInterrupt):
        train(text, out, overwrite=True)
    assert (out / "notes.md").read_text() == "mine"
    assert Run.open(tmp_path / "replaced-run").step == 6


def test_what_is_no_run_or_is_at_work_is_refused(text: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "thesis.tex").write_text("mine")
    with pytest.raises(RunFolderError, match="is not a run folder"):
        train(text, other, overwrite=True)
    assert (other / "thesis.tex").read_text() == "mine"
    train(text, tmp_path / "run")
    with RunFolder(tmp_path / "run").lock(), pytest.raises(RunFolderError, match="another process"):
        train(text, tmp_path / "run", overwrite=True)
    with pytest.raises(InputError, match="give one of them"):
        train(text, tmp_path / "run", overwrite=True, resume=True)
    with pytest.raises(InputError, match="needs the folder of the run"):
        octavo.train(RECIPE, text=text, overwrite=True, quiet=True)


def test_every_file_of_a_run_is_known(text: Path, tmp_path: Path) -> None:
    from octavo.util.files import strange

    for changes in ({}, {"training": RECIPE["training"] | {"teachers": {"trained": 1}}}):
        octavo.train(RECIPE | changes, text, tmp_path / str(len(changes)), quiet=True)
        assert strange(tmp_path / str(len(changes)), WRITTEN) == []


def test_quiet_says_nothing(text: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    train(text, tmp_path / "run")
    assert capsys.readouterr() == ("", "")


def test_a_part_of_something_else_is_not_replaced(text: Path, tmp_path: Path) -> None:
    """A checkpoint has a recipe too, and a run within another one looks like a run."""
    run = tmp_path / "run"
    train(text, run)
    step = next((run / "checkpoints").iterdir()).resolve()
    before = sorted(path.relative_to(run).as_posix() for path in run.rglob("*"))
    (tmp_path / "alias").symlink_to(run / "checkpoints")
    copy = tmp_path / "copy"
    shutil.copytree(step, copy)
    for place in (
        run / "best",
        run / "last",
        step,
        run / "teachers" / "1",
        tmp_path / "alias" / step.name,
        copy,
    ):
        for how in ("overwrite", "resume"):
            with pytest.raises(RunFolderError, match=r"is a part of|is a checkpoint"):
                train(text, place, **{how: True})
    with pytest.raises(RunFolderError) as refused:
        train(text, run / "best")
    assert "overwrite" not in str(refused.value)
    assert sorted(path.relative_to(run).as_posix() for path in run.rglob("*")) == before
    for kind, marks in {
        "study": ("study.yaml", ".lock"),
        "export": ("certificate.json", "README.md"),
    }.items():
        (tmp_path / kind).mkdir()
        for mark in marks:
            (tmp_path / kind / mark).touch()
        with pytest.raises(RunFolderError, match=f"is a part of the {kind}"):
            train(text, tmp_path / kind / "runs" / "one", overwrite=True)
        with pytest.raises(RunFolderError, match=f"is a part of the {kind}"):
            octavo.train(None, text, tmp_path / kind / "one", minutes=1, overwrite=True, quiet=True)


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO])
@pytest.mark.parametrize("saved", [False, True])
def test_a_full_disk_offers_to_resume_where_there_is_a_run(
    text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, saved: bool, number: int
) -> None:
    def full(*_: object, **__: object) -> None:
        with storage_errors(tmp_path / "run"):
            raise OSError(number, os.strerror(number))

    monkeypatch.setattr(f"octavo.run.{'finish.finish' if saved else 'train.note_down'}", full)
    with pytest.raises(StorageError) as stopped:
        train(text, tmp_path / "run")
    assert f"octavo train --out {tmp_path / 'run'} --resume" in stopped.value.as_command_line
    assert ("Earlier checkpoints are whole" in stopped.value.what) == saved
    monkeypatch.undo()
    monkeypatch.setattr(runs_folder.Made, "folder", full)
    with pytest.raises(StorageError) as stopped:
        train(text, tmp_path / "other")
    assert "resume" not in str(stopped.value) and not (tmp_path / "other").exists()


def test_a_lock_that_cannot_be_read_is_a_sentence(
    text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> int:
        raise OSError(errno.EIO, "Input/output error", str(tmp_path / ".lock"))

    monkeypatch.setattr(runs_folder.os, "open", broken)
    with pytest.raises(StorageError) as stopped, RunFolder(tmp_path / "run").lock():
        pass
    assert stopped.value.what == f"{tmp_path / 'run'} could not be written: Input/output error."
    assert stopped.value.remedy
