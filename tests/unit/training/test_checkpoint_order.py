"""In which order a checkpoint becomes durable, which decides what a power cut leaves and no `kill -9` shows."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from octavo.training.checkpoint_folder import MANIFEST
from octavo.util import files as util_files
from unit.training.saving import contents, save


def test_everything_is_synced_before_the_name_and_the_name_after_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files and their folders reach the disk before the rename does, the manifest last of them, and then the name."""
    done: list[tuple[str, Path]] = []
    sync, rename = util_files.sync, Path.rename

    def synced(path: Path) -> None:
        sync(path)
        done.append(("sync", path))

    def renamed(path: Path, target: Path) -> Path:
        done.append(("rename", Path(target)))
        return rename(path, target)

    monkeypatch.setattr(util_files, "sync", synced)
    monkeypatch.setattr(Path, "rename", renamed)
    saved = save(tmp_path / "checkpoints", 5)
    named = done.index(("rename", saved.folder))
    aside = next(path.parent for what, path in done if what == "sync" and path.name == MANIFEST)
    before = [os.path.relpath(path, aside) for what, path in done[:named] if what == "sync"]
    files = sorted(contents(saved.folder))
    assert sorted(name for name in before if name in files) == files
    assert [name for name in before if name in files][-1] == MANIFEST
    assert before[before.index(MANIFEST) + 1 :] == [".", "tokenizer"]
    assert ("sync", tmp_path / "checkpoints") in done[named:]
