"""Several processes train as one: the same losses, norms, weights and optimizer state. Who trains together: what each
takes of a batch, what does not suit, and who is to blame when nothing moves."""

from __future__ import annotations

import json
import os
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from torch.distributed import HashStore

from octavo.data.batch import Batch
from octavo.errors import ConfigError, InputError
from octavo.training.checkpoint import write_tensors
from octavo.training.distributed import heartbeat
from octavo.training.distributed.heartbeat import Pulse, Seen, Watch, to_blame
from octavo.training.distributed.parallel import ALONE, World, launched
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


def rows(count: int) -> Batch[np.ndarray]:
    inputs = np.arange(3 * count).reshape(count, 3)
    return Batch(inputs, inputs + 1)


@pytest.mark.parametrize(("count", "size"), [(8, 1), (8, 2), (8, 4), (7, 4), (1, 3), (5, 2)])
def test_the_shares_are_the_batch_in_order(count: int, size: int) -> None:
    shares = [World(rank=rank, size=size).shard(rows(count)) for rank in range(size)]
    assert len({share.rows for share in shares}) == 1, "all compute equally often on equally much"
    inputs, targets = (
        np.concatenate([getattr(share, name) for share in shares]) for name in ("inputs", "targets")
    )
    assert np.array_equal(inputs[:count], rows(count).inputs)
    assert np.array_equal(targets[:count], rows(count).targets)
    assert (targets[count:] == -1).all()


def test_what_does_not_suit_is_said() -> None:
    World(size=4).admit("ddp", 12)
    World().admit("none", 7)
    World().admit("fsdp", 7)
    with pytest.raises(ConfigError, match="4 processes were started"):
        World(size=4).admit("none", 12)
    with pytest.raises(ConfigError, match=r"training\.batch is 10; 4 processes.*\n.*training\.batch=8"):
        World(size=4).admit("ddp", 10)
    with pytest.raises(ConfigError, match=r"training\.batch=4"):
        World(size=4).admit("fsdp", 1)


def test_each_process_has_a_device_of_its_own() -> None:
    assert World(rank=9, size=16, local_rank=1).place("cuda") == "cuda:1"
    assert World(rank=9, size=16, local_rank=1).place("cpu") == "cpu"
    assert World().place("cuda:3") == "cuda:3"
    with pytest.raises(InputError, match="mps"):
        World(size=2).place("mps")


def test_without_torchrun_there_is_a_world_of_one(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"):
        monkeypatch.delenv(name, raising=False)
    with launched() as world:
        assert (world.rank, world.size, world.first) == (0, 1, True)
        assert world.all_reduce(1.5, 2) == [1.5, 2] and world.mean(3.0) == 3.0 and not world.any(False)
        assert world.broadcast({"a": 1}) == {"a": 1}
        with world.in_turn():
            pass


def seen(*ranks: tuple[str, int, float, float]) -> dict[int, Seen]:
    """Ranks with (state, count, seconds since it moved, seconds since it ticked)."""
    return {
        rank: Seen(Pulse(state=state, count=count), moved, ticked)
        for rank, (state, count, moved, ticked) in enumerate(ranks)
    }


@pytest.mark.parametrize(
    ("ranks", "blamed"),
    [
        ([("working", 9, 1, 1), ("working", 9, 2, 1)], []),
        ([("working", 9, 99, 1), ("working", 9, 99, 70)], [1]),  # stopped: no tick
        ([("working", 9, 99, 1), ("working", 8, 99, 1)], [1]),  # alive, but behind
        ([("working", 9, 99, 1), ("working", 8, 9, 1)], []),  # slow, but it moved
        ([("busy", 8, 999, 1), ("working", 9, 999, 1)], []),  # saving takes as long as it takes
        ([("saving", 8, 999, 1), ("working", 9, 999, 1)], []),
        ([("busy", 8, 999, 61), ("working", 9, 999, 1)], [0]),
        ([("working", 9, 99, 1), ("waiting", 3, 99, 1)], [0]),
        ([("waiting", 9, 99, 1), ("waiting", 3, 99, 1)], []),
        ([("working", 9, 99, 1)] * 3, [0, 1, 2]),
    ],
)
def test_who_is_to_blame(ranks: list[tuple[str, int, float, float]], blamed: list[int]) -> None:
    assert to_blame(seen(*ranks), timeout=60)[0] == blamed


def test_a_loss_is_said_once_whoever_sees_it_first(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The one that hangs may see it itself; then the other sees a process that has ended."""
    ended = []
    monkeypatch.setattr(heartbeat.os, "_exit", ended.append)
    monkeypatch.setattr(heartbeat, "GRACE", -1.0)
    store = HashStore()
    first, second = (
        Watch(store, rank=rank, size=2, timeout=8, pulse=Pulse(state="working", count=2 - rank))
        for rank in (0, 1)
    )
    for each in (first, second):
        each.show()
        each._who = [{"host": "here", "pid": os.getpid()}] * 2
    second._end("Rank 1 on here has not moved for 8 s during step 23.")
    lost = first._look()
    assert lost == "Rank 1 on here has not moved for 8 s during step 23."
    first._end(lost)
    first._end("Rank 1 on here died during step 23.")
    assert capsys.readouterr().err.count("error: ") == 1
    assert ended == [1, 1, 1]
