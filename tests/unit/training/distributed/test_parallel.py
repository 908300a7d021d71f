"""Several processes train as one: the same losses, norms, weights and optimizer state."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from octavo.training.distributed.world import ALONE
from unit.training import together

ADAMW = {"optimizer": "adamw", "steps": 50, "accumulation": 2, "model": {"tied": True}}
NGRAMS = {"kind": "hashed", "longest": 3, "buckets": 41}
MUON = {"optimizer": "muon", "steps": 50, "model": {"kv_heads": 1, "ngrams": NGRAMS}}
SGD = {"optimizer": "sgd", "steps": 50, "accumulation": 3, "model": {"positions": "rotary"}}

ADAPTERS = {"steps": 8, "model": {"tied": True}, "adapters": {"rank": 4}}


def compare(size: int, cases: list[dict[str, Any]]) -> None:
    """Each case by so many processes against the same one by this process alone."""
    found = together.run(size, cases)
    for case, several in zip(cases, found, strict=True):
        (one,) = together.found_by(ALONE, [{**case, "kind": "none"}])
        for ours, wanted in zip(several["infos"], one["infos"], strict=True):
            assert ours["tokens"] == wanted["tokens"]
            assert ours["loss"] == pytest.approx(wanted["loss"], abs=1e-6), (case, ours["step"])
            assert ours["gradient_norm"] == pytest.approx(wanted["gradient_norm"], abs=1e-5), case
        assert several["tensors"] == pytest.approx(one["tensors"], rel=1e-4, abs=1e-6), case


def test_two_processes_train_as_one() -> None:
    compare(2, [{**ADAMW, "kind": "ddp"}, {**MUON, "kind": "fsdp"}])


@pytest.mark.slow
def test_adapters_and_frozen_weights_in_parts() -> None:
    pairs = [("fsdp", "adamw"), ("ddp", "adamw"), ("fsdp", "muon")]
    compare(2, [{**ADAPTERS, "kind": kind, "optimizer": optimizer} for kind, optimizer in pairs])


@pytest.mark.slow
@pytest.mark.parametrize("size", [2, 4])
@pytest.mark.parametrize("kind", ["ddp", "fsdp"])
def test_every_number_of_processes_trains_as_one(size: int, kind: str) -> None:
    compare(size, [{**case, "kind": kind} for case in (ADAMW, MUON, SGD)])


def test_gradients_are_sent_with_the_last_part_of_a_step_only() -> None:
    ddp, fsdp = together.run(2, [{"do": "gradients", "kind": kind} for kind in ("ddp", "fsdp")])
    assert ddp == {"kept": [True, False], "sent": [True, True]}
    assert fsdp == {"kept": [False, True], "sent": [True, True]}, (
        "kept where the parameters' parts do not show it"
    )


def test_one_process_needs_nothing_of_it() -> None:
    model = together.build_model(together.config(), vocab_size=together.V, seed=0)
    for kind, config in together.parts("parallel").items():
        assert config().build(model, ALONE) is model, kind


OF_TWO = """
import sys
from pathlib import Path
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Shard
from torch.testing._internal.distributed.fake_pg import FakeStore
from octavo.training.checkpoint import Checkpoint, write_tensors
from octavo.training.optimizers import RowAdagrad
from octavo.training.distributed.parallel import held

dist.init_process_group("fake", store=FakeStore(), rank=1, world_size=2)
mesh = init_device_mesh("cpu", (2,))
table = nn.Parameter(DTensor.from_local(torch.zeros(4, 3), mesh, [Shard(0)]))
optimizer, folder = RowAdagrad([table], lr=0.1), Path(sys.argv[1])
write_tensors(folder / "state.safetensors", {"optimizer.0.0.squares": torch.arange(8.0).view(8, 1)})
Checkpoint(folder).load_optimizers([optimizer])
print(held(optimizer.state[table]["squares"])[:, 0].tolist())
"""


def test_each_process_gets_its_own_rows_of_what_an_optimizer_knows(tmp_path: Path) -> None:
    """Also where that has fewer columns than its table. The second of two that share a table."""
    done = subprocess.run(
        [sys.executable, "-c", OF_TWO, str(tmp_path)], capture_output=True, encoding="utf-8", check=False
    )
    assert done.stdout.strip() == "[4.0, 5.0, 6.0, 7.0]", done.stderr
