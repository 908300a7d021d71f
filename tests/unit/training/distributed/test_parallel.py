"""Several processes train as one: the same losses, norms, weights and optimizer state."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import pytest
import torch

from octavo.training.checkpoint import write_tensors
from octavo.training.distributed.world import ALONE
from unit.training import together

ADAMW = {"optimizer": "adamw", "steps": 12, "accumulation": 2, "model": {"tied": True}}
NGRAMS = {"kind": "hashed", "longest": 3, "buckets": 41}
MUON = {"optimizer": "muon", "steps": 12, "model": {"kv_heads": 1, "ngrams": NGRAMS}}
SGD = {"optimizer": "sgd", "steps": 12, "accumulation": 3, "model": {"positions": "rotary"}}
ADAPTERS = {"steps": 8, "model": {"tied": True}, "adapters": {"rank": 4}}
EVERY = [{**case, "kind": kind} for case in (ADAMW, MUON, SGD) for kind in ("ddp", "fsdp")]
TUNED = [
    {**ADAPTERS, "kind": kind, "optimizer": optimizer}
    for kind, optimizer in [("fsdp", "adamw"), ("ddp", "adamw"), ("fsdp", "muon")]
]
FEW = [{**ADAMW, "kind": "ddp"}, {**MUON, "kind": "fsdp"}]


@cache
def alone(case: str) -> dict[str, Any]:
    return together.found_by(ALONE, [json.loads(case)])[0]


def compare(cases: list[dict[str, Any]], found: list[dict[str, Any]]) -> None:
    """What several processes found for each case against the same one by this process alone."""
    for case, several in zip(cases, found, strict=True):
        one = alone(json.dumps({**case, "kind": "none"}))
        for ours, wanted in zip(several["infos"], one["infos"], strict=True):
            assert ours["tokens"] == wanted["tokens"]
            assert ours["loss"] == pytest.approx(wanted["loss"], abs=1e-6), (case, ours["step"])
            assert ours["gradient_norm"] == pytest.approx(wanted["gradient_norm"], abs=1e-5), case
        assert several["tensors"] == pytest.approx(one["tensors"], rel=1e-4, abs=1e-6), case


@pytest.fixture(scope="module")
def by_two(tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    """The few cases, what gradients are kept and sent, and rows that are loaded, by the same two processes."""
    folder = tmp_path_factory.mktemp("rows")
    write_tensors(folder / "state.safetensors", {"optimizer.0.0.squares": torch.arange(8.0).view(8, 1)})
    gradients = [{"do": "gradients", "kind": kind} for kind in ("ddp", "fsdp")]
    return together.run(2, [*FEW, *gradients, {"do": "rows", "folder": str(folder)}])


def test_two_processes_train_as_one(by_two: list[Any]) -> None:
    compare(FEW, by_two[: len(FEW)])


@pytest.mark.slow
@pytest.mark.parametrize(("size", "cases"), [(2, TUNED), (4, EVERY)], ids=["adapters", "four"])
def test_every_number_of_processes_trains_as_one(size: int, cases: list[dict[str, Any]]) -> None:
    """With adapters and frozen weights too."""
    compare(cases, together.run(size, cases))


def test_gradients_are_sent_with_the_last_part_of_a_step_only(by_two: list[Any]) -> None:
    ddp, fsdp = by_two[len(FEW) : -1]
    assert ddp == {"kept": [True, False], "sent": [True, True]}
    assert fsdp == {"kept": [False, True], "sent": [True, True]}, (
        "kept where the parameters' parts do not show it"
    )


def test_one_process_needs_nothing_of_it() -> None:
    model = together.build_model(together.config(), vocab_size=together.V, seed=0)
    for kind, config in together.parts("parallel").items():
        assert config().build(model, ALONE) is model, kind


def test_each_process_gets_its_own_rows_of_what_an_optimizer_knows(by_two: list[Any]) -> None:
    """Also where that has fewer columns than its table."""
    assert by_two[-1] == [[0.0, 1.0, 2.0, 3.0], [4.0, 5.0, 6.0, 7.0]]
