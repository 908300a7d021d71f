"""A run on a machine that is short of memory: decided once, told, kept by resume and replay."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import octavo
from octavo.errors import ConfigError
from octavo.run.replay import replay

SMALL = {
    "model": {"layers": 2, "width": 32, "heads": 2, "context": 32},
    "training": {"batch": 4, "steps": 4, "device": "cpu", "precision": "float32", "schedule": "constant"},
}


def runtime(folder: Path) -> dict:
    return json.loads((folder / "manifest.json").read_text())["runtime"]


def losses(folder: Path) -> list[float]:
    rows = map(json.loads, (folder / "metrics.jsonl").read_text().splitlines())
    return [row["loss"] for row in rows if row["event"] == "train"]


def test_short_memory_is_decided_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OCTAVO_CACHE", str(tmp_path / "cache"))
    text = tmp_path / "text.txt"
    text.write_text("a fox and a dog. " * 60)
    logging = {"logging.every": 1}
    octavo.train(SMALL, text, tmp_path / "whole", overrides=logging)
    assert (runtime(tmp_path / "whole")["micro_batch"], runtime(tmp_path / "whole")["recompute"]) == (
        None,
        False,
    )

    with monkeypatch.context() as patched:
        patched.setattr("octavo.training.memory.free_memory", lambda device: 1)
        octavo.train(SMALL, text, tmp_path / "parts", overrides=logging | {"training.steps": 2})
    assert (runtime(tmp_path / "parts")["micro_batch"], runtime(tmp_path / "parts")["recompute"]) == (1, True)
    assert "it may not fit even with 1 of a batch's sequences" in (tmp_path / "parts" / "log.txt").read_text()

    seen = []
    original = octavo.run.trainer.training_steps

    def watched(*arguments: object, **settings: object) -> object:
        seen.append(settings["options"].micro_batch)
        return original(*arguments, **settings)

    monkeypatch.setattr("octavo.run.trainer.training_steps", watched)
    _, differing = replay(tmp_path / "parts", tmp_path / "again")
    octavo.train(SMALL, text, tmp_path / "parts", overrides=logging, resume=True)
    assert seen == [1, 1] and differing == []
    assert losses(tmp_path / "parts") == pytest.approx(losses(tmp_path / "whole"), abs=1e-6)


def test_what_torch_cannot_compile_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It ended in a RecursionError inside torch's compiler."""
    monkeypatch.setenv("OCTAVO_CACHE", str(tmp_path / "cache"))
    (tmp_path / "text.txt").write_text("a fox and a dog. " * 60)
    asked = {"training.compile": True, "training.recompute": True, "training.precision": "bfloat16"}
    with pytest.raises(ConfigError, match="cannot compile"):
        octavo.train(SMALL, tmp_path / "text.txt", tmp_path / "run", overrides=asked)
