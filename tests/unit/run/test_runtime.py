"""The precision that is faster is timed once a day, not at each start; whatever happens to what was kept."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest
import torch

from octavo.config import Recipe, check
from octavo.data.batch import Batch
from octavo.model.base import build_model
from octavo.run import runtime
from octavo.run.runtime import REMEMBERED, precision_here
from octavo.training.objective import NEXT_TOKEN
from octavo.util.terminal import Console

CPU = torch.device("cpu")


class Timed:
    """Stands for `choose_precision`; counts its calls."""

    def __init__(self, answer: str) -> None:
        self.answer, self.calls = answer, 0

    def __call__(self, *_: Any, **__: Any) -> str:
        self.calls += 1
        return self.answer


@pytest.fixture
def timed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Timed:
    monkeypatch.setenv("OCTAVO_CACHE", str(tmp_path / "cache"))
    stand_in = Timed("bfloat16")
    monkeypatch.setattr(runtime, "choose_precision", stand_in)
    monkeypatch.setattr(runtime, "fast_bfloat16", lambda device: True)
    monkeypatch.setattr(runtime.Watch, "ours", lambda self, threads: True)
    return stand_in


def recipe(**model: Any) -> Recipe:
    return check({"model": {"layers": 1, "width": 16, "heads": 2, "context": 8, **model}})


def asked(wanted: str = "auto", *, rows: int = 2, **model: Any) -> str:
    own = recipe(**model)
    network = build_model(own.model, vocab_size=11, seed=0)
    inputs = torch.zeros(rows, 8, dtype=torch.long)
    batch = Batch(inputs=inputs, targets=inputs)
    return precision_here(wanted, own, network, batch, CPU, Console(quiet=True), objective=NEXT_TOKEN)


def kept(cache: Path) -> list[Path]:
    return sorted((cache / "precision").glob("*"))


def test_it_is_timed_once(timed: Timed) -> None:
    assert asked() == "bfloat16"
    timed.answer = "float32"
    assert asked() == "bfloat16" and timed.calls == 1


def test_another_model_or_batch_is_timed(timed: Timed) -> None:
    asked()
    asked(width=32)
    asked(rows=3)
    asked(dropout=0.1)
    assert timed.calls == 4


def test_another_number_of_threads_is_timed(timed: Timed) -> None:
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        asked()
        torch.set_num_threads(2)
        asked()
    finally:
        torch.set_num_threads(before)
    assert timed.calls == 2


@pytest.mark.parametrize("age", [REMEMBERED + 5, -3600.0])
def test_what_is_old_or_from_the_future_is_timed_again(timed: Timed, tmp_path: Path, age: float) -> None:
    asked()
    (path,) = kept(tmp_path / "cache")
    os.utime(path, (time.time() - age,) * 2)
    timed.answer = "float32"
    assert asked() == "float32" and timed.calls == 2
    assert asked() == "float32" and timed.calls == 2, "and is remembered then"


@pytest.mark.parametrize("content", [b"", b"{}", b'{"precision": "int8"}', b'{"precision": 3}', b"\xff\x00"])
def test_what_cannot_be_read_is_timed_again(timed: Timed, tmp_path: Path, content: bytes) -> None:
    asked()
    (path,) = kept(tmp_path / "cache")
    path.write_bytes(content)
    assert asked() == "bfloat16" and timed.calls == 2


def test_a_cache_that_cannot_be_written_is_no_error(timed: Timed, tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file where the folder should be")
    assert asked() == asked() == "bfloat16"
    assert timed.calls == 2


@pytest.mark.parametrize("wanted", ["float32", "bfloat16"])
def test_what_is_named_is_not_remembered(timed: Timed, tmp_path: Path, wanted: str) -> None:
    timed.answer = wanted
    assert asked(wanted) == wanted and not kept(tmp_path / "cache")


def test_without_such_arithmetic_nothing_is_kept(
    timed: Timed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runtime, "fast_bfloat16", lambda device: False)
    timed.answer = "float32"
    assert asked() == "float32" and not kept(tmp_path / "cache")


def test_what_was_timed_beside_others_is_not_remembered(
    timed: Timed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runtime.Watch, "ours", lambda self, threads: False)
    timed.answer = "float32"
    assert asked() == "float32" and not kept(tmp_path / "cache")
    monkeypatch.setattr(runtime.Watch, "ours", lambda self, threads: True)
    timed.answer = "bfloat16"
    assert asked() == "bfloat16" and len(kept(tmp_path / "cache")) == 1
