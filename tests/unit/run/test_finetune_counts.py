"""Tuning a run that counts beside its network: what was counted stays behind."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch

import octavo
from octavo.errors import ConfigError
from octavo.run.settings import resolve
from octavo.training.checkpoint import read_tensors
from unit.run.test_finetune import NEW, QUIET, RECIPE, tuned

WRITES: dict[str, Any] = {
    "objective": {"kind": "policy-gradient", "reward": {"kind": "words", "must": ["dog"]}}
}


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two texts of the same characters."""
    monkeypatch.setenv("OCTAVO_CACHE", str(tmp_path / "cache"))
    (tmp_path / "text.txt").write_text("a fox and a dog. " * 60)
    (tmp_path / "other.txt").write_text("dog god fad. " * 60)
    return tmp_path


@pytest.mark.parametrize("tuning", [WRITES, "tune-sft", "tune-dpo"])
def test_what_was_counted_stays_behind_where_a_model_is_tuned(
    place: Path, tmp_path: Path, tuning: Mapping[str, Any] | str
) -> None:
    counted = RECIPE | {
        "model": RECIPE["model"] | {"counts": {"kind": "kneser-ney", "orders": 3, "recent": 20}}
    }
    base = octavo.train(counted, place / "text.txt", tmp_path / "base", console=QUIET)
    start = f"training.start_from={base.path}"
    assert resolve(tuning, "chats.jsonl", [start]).model == base.network().config.model
    assert resolve(NEW, place / "other.txt", [start]).model == base.config.model, "a text is counted anew"
    run = tuned(place, tmp_path / "run", "model.counts=none", base=base.path)
    network, kept = base.network().model.state_dict(), read_tensors(run.path / "start.safetensors")
    assert all(torch.equal(kept[name], network[name]) for name in kept)
    assert "stays behind" in (run.path / "log.txt").read_text()
    with pytest.raises(ConfigError, match=r"model\.counts=none"):
        octavo.train(
            WRITES, place / "text.txt", tmp_path / "rl", overrides=[start, "model.counts=kneser-ney"]
        )
