"""Samples as files: a new folder, whole or not at all."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import octavo.tasks.records.files as pictures
from octavo.errors import InputError, StorageError
from octavo.tasks.records.ball import BouncingBallSource


def run_that_draws(*texts: str) -> Any:
    corpus = BouncingBallSource()
    samples = [
        SimpleNamespace(text=text.strip("…"), finish="length" if "…" in text else "end") for text in texts
    ]
    config = SimpleNamespace(corpus=corpus, model=SimpleNamespace(context=9))
    tokenizer = SimpleNamespace(end=3)
    return SimpleNamespace(config=config, tokenizer=tokenizer, samples=lambda prompt, count, **how: samples)


def test_records_and_their_pictures(tmp_path: Path) -> None:
    folder = tmp_path / "a" / "b"
    assert pictures.save_records(run_that_draws("0 1 2", "1 1…"), "", 2, folder) == 1, "one was cut off"
    assert (folder / "records.txt").read_text(encoding="utf-8") == "0 1 2\n1 1\n"
    assert {path.name for path in folder.glob("*.png")} == {"sample-1.png", "sample-2.png"}
    with pytest.raises(InputError, match="exists already"):
        pictures.save_records(run_that_draws("0"), "", 1, folder)


def test_a_disk_that_is_full_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(grey: Any) -> bytes:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(pictures, "png", full)
    with pytest.raises(OSError):
        pictures.save_records(run_that_draws("0 1"), "", 1, tmp_path / "new")
    assert not (tmp_path / "new").exists()
    monkeypatch.undo()
    opened, written = Path.open, []

    def fails_later(path: Path, *words: Any, **how: Any) -> Any:
        if path.suffix == ".png":
            written.append(path)
            raise OSError(28, "No space left on device")
        return opened(path, *words, **how)

    monkeypatch.setattr(Path, "open", fails_later)
    with pytest.raises(StorageError, match="The disk is full"):
        pictures.save_records(run_that_draws("0 1"), "", 1, tmp_path / "new" / "folder")
    assert written and not (tmp_path / "new").exists()
