"""TensorBoard files hold the rows that metrics.jsonl holds."""

from __future__ import annotations

import builtins
from pathlib import Path
from typing import Any

import pytest

from octavo.errors import MissingExtra
from octavo.run.trainer import TensorBoard


def test_scalars_are_written(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    board = TensorBoard.open(tmp_path)
    board.write({"event": "train", "step": 10, "loss": 2.5})
    board.write({"event": "validation", "step": 20, "loss": 2.25, "best": True})
    events = EventAccumulator(str(tmp_path / "tensorboard"))
    events.Reload()
    assert set(events.Tags()["scalars"]) == {"train/loss", "validation/loss"}
    assert [(point.step, point.value) for point in events.Scalars("validation/loss")] == [(20, 2.25)]


def test_without_the_package_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without(name: str, *arguments: Any, **named: Any) -> Any:
        if name.startswith("torch.utils.tensorboard"):
            raise ImportError(name)
        return real(name, *arguments, **named)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(MissingExtra, match=r"octavo\[tensorboard\]"):
        TensorBoard.open(tmp_path)
