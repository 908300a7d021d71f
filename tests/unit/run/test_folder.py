"""The run folder: what stands in its way, who may write, which checkpoint is used."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from octavo.errors import RunFolderError
from octavo.run.folder import RunFolder


def test_a_new_folder(tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path / "a" / "b")
    assert folder.path.is_dir()
    assert folder.report == tmp_path / "a" / "b" / "report"
    assert folder.checkpoint() == (None, [])
    assert folder.rows() == []


def test_a_folder_with_nothing_but_a_lock_is_new(tmp_path: Path) -> None:
    """A kill before the config was written once blocked the name for good."""
    with RunFolder.create(tmp_path / "run").lock():
        pass
    (tmp_path / "run" / ".tmp-config.yaml").write_text("half")
    RunFolder.create(tmp_path / "run")


@pytest.mark.parametrize(
    ("name", "words"), [("config.yaml", "holds a run already"), ("photo.png", "is not empty, and not a run")]
)
def test_a_folder_in_the_way(tmp_path: Path, name: str, words: str) -> None:
    (tmp_path / name).write_text("")
    with pytest.raises(RunFolderError, match=words):
        RunFolder.create(tmp_path)


def test_a_file_in_the_way(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(RunFolderError, match="is a file"):
        RunFolder.create(tmp_path / "file")
    with pytest.raises(RunFolderError, match="file is a file"):
        RunFolder.create(tmp_path / "file" / "run")
    with pytest.raises(RunFolderError, match="null is no folder"):
        RunFolder.create(Path(os.devnull))


@pytest.mark.parametrize("below", [".", "run"])
def test_a_link_that_leads_nowhere(tmp_path: Path, below: str) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    with pytest.raises(RunFolderError, match=r"is a link to .*nowhere, which does not exist"):
        RunFolder.create(tmp_path / "link" / below)
    assert not (tmp_path / "nowhere").exists()


def test_one_writer(tmp_path: Path) -> None:
    first, second = RunFolder.create(tmp_path / "run"), RunFolder(tmp_path / "run")
    with first.lock():
        with pytest.raises(RunFolderError, match="another process"), second.lock():
            pytest.fail("locked twice")
        with pytest.raises(RunFolderError), second.lock():  # the refusal did not let go of the first lock
            pytest.fail("locked twice")
    with second.lock():
        pass


def test_torn_rows_are_passed_over(tmp_path: Path) -> None:
    (tmp_path / "metrics.jsonl").write_text(
        '{"event": "mine", "step": 1}\n\0\0\0\n{"event": "mine", "step": 2}\n{"event": "mine", "step": 3, "lo'
    )
    assert RunFolder(tmp_path).rows() == [{"event": "mine", "step": step} for step in (1, 2)]


@pytest.mark.parametrize("which", ["7", "step-7", "newest", "²", "-1", ""])
def test_a_checkpoint_that_is_not_there(tmp_path: Path, which: str) -> None:
    (tmp_path / "checkpoints" / "step-000005").mkdir(parents=True)
    with pytest.raises(RunFolderError, match=f"no checkpoint '{which}'.*step-000005"):
        RunFolder(tmp_path).checkpoint(which)
