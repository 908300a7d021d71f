"""What a user put among the checkpoints is never removed, and all of a checkpoint's files have the usual rights."""

from __future__ import annotations

import json
import os
import shutil
import stat
from pathlib import Path

import pytest

from octavo.errors import CheckpointError
from octavo.training.checkpoint_folder import MANIFEST, follow, list_checkpoints, point, prune, seal, sweep
from unit.training.saving import save


def test_a_checkpoint_into_which_somebody_put_a_file_is_not_pruned(tmp_path: Path) -> None:
    checkpoints = tmp_path / "checkpoints"
    for step in (5, 10, 15, 20):
        save(checkpoints, step)
    (checkpoints / "step-000005" / "tokenizer" / "notes.txt").write_text("mine")
    (checkpoints / "step-000010" / ".DS_Store").write_text("a file manager's")
    prune(checkpoints, keep=1, always=[])
    assert [one.step for one in list_checkpoints(checkpoints)] == [5, 20]
    assert (checkpoints / "step-000005" / "tokenizer" / "notes.txt").read_text() == "mine"
    assert not list(checkpoints.glob(".tmp*"))


def test_sweeping_spares_what_is_only_named_like_ours(tmp_path: Path) -> None:
    checkpoints = tmp_path / "checkpoints"
    save(checkpoints, 5)
    for name in (".tmp-mine/notes.txt", ".tmp-step-000010/notes.txt", ".tmp-prune-mine/state.json"):
        (checkpoints / name).parent.mkdir()
        (checkpoints / name).write_text("mine")
    for name in ("state.json", ".tmpAb12Cd"):  # half-written, half by safetensors
        (checkpoints / ".tmp-step-000010" / name).write_text("ours")
    sweep(checkpoints)
    left = sorted(path.relative_to(checkpoints).as_posix() for path in checkpoints.glob(".tmp-*/*"))
    assert left == [".tmp-mine/notes.txt", ".tmp-prune-mine/state.json", ".tmp-step-000010/notes.txt"]


def test_a_pointer_that_became_a_folder_is_kept_beside_it(tmp_path: Path) -> None:
    five = save(tmp_path / "checkpoints", 5)
    shutil.copytree(five.folder, tmp_path / "last")
    (tmp_path / "last" / "notes.txt").write_text("mine")
    point(tmp_path / "last", five)
    found = follow(tmp_path / "last")
    assert found is not None and found.folder == five.folder.resolve()
    assert (tmp_path / "copied-last" / "notes.txt").read_text() == "mine"


@pytest.mark.skipif(os.name == "nt", reason="no umask here")
def test_all_files_of_a_checkpoint_follow_the_umask(tmp_path: Path) -> None:
    """safetensors writes through a private file, and another user of the machine could not read the weights."""
    for step, mask in ((5, 0o022), (10, 0o027), (15, 0o077)):
        before = os.umask(mask)
        try:
            folder = save(tmp_path / "checkpoints", step).folder
        finally:
            os.umask(before)
        files = {path for path in folder.rglob("*") if path.is_file()}
        assert {stat.S_IMODE(path.stat().st_mode) for path in files} == {0o666 & ~mask}


def test_a_manifest_that_calls_bytes_size_is_read(tmp_path: Path) -> None:
    """As those of older checkpoints do."""
    saved = save(tmp_path / "checkpoints", 5)
    manifest = json.loads((saved.folder / MANIFEST).read_text())
    manifest.pop("sha256")
    manifest["files"] = {
        name: {"size": file["bytes"], "sha256": file["sha256"]} for name, file in manifest["files"].items()
    }
    (saved.folder / MANIFEST).write_text(json.dumps({**manifest, "sha256": seal(manifest)}))
    saved.verify()
    (saved.folder / "state.json").write_text("{}")
    with pytest.raises(CheckpointError, match=r"state\.json has 2 bytes instead of"):
        saved.verify()
