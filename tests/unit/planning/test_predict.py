"""Predictions against numbers worked out by hand, and what must hold between them."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from octavo.config import load_recipe
from octavo.errors import InputError
from octavo.planning import machines
from octavo.planning.machines import Machine, catalogue, find_machine, here
from octavo.planning.predict import (
    OVERLAP,
    collective_seconds,
    device_memory,
    exchange_seconds,
    part_seconds,
    predict,
    predictions,
    step_seconds,
    teaching,
    update_seconds,
)
from octavo.training.estimate import Memory, StepEstimate, Work

GPU = Machine(
    name="gpu",
    what="round numbers",
    device="cuda",
    flops={"float32": 1e12, "bfloat16": 10e12},
    memory=80e9,
    bandwidth=1e12,
    launch=1e-5,
    share=0.5,
    link=100e9,
    network=10e9,
    price=2.0,
)
STEP = StepEstimate(
    memory=Memory(
        weights=8_000_000_000, gradients=8_000_000_000, optimizer=16_000_000_000, activations=10**9
    ),
    part=Work(flops=10**12, moved=10**11, operations=1000),
    update=Work(flops=0, moved=64 * 10**9, operations=4),
)


def test_a_part_by_hand() -> None:
    # 10^12 / (0.5 · 10^13) + 10^11 / 10^12 = 0.2 + 0.1; starting 1000 operations takes 0.01 meanwhile.
    assert part_seconds(STEP, GPU, "bfloat16") == pytest.approx(0.3)
    assert part_seconds(STEP, replace(GPU, device="cpu"), "bfloat16") == pytest.approx(0.31)
    assert part_seconds(STEP, replace(GPU, launch=1e-3), "bfloat16") == pytest.approx(1.0)
    assert part_seconds(STEP, GPU, "float32") == pytest.approx(2.1)


def test_the_update_is_bound_by_memory() -> None:
    assert update_seconds(STEP, GPU, "bfloat16") == pytest.approx(0.064)
    assert update_seconds(STEP, GPU, "bfloat16", shards=8) == pytest.approx(0.008)


def test_exchange_by_hand() -> None:
    node, nodes = replace(GPU, count=8), replace(GPU, count=8, nodes=4)
    assert collective_seconds(8e9, GPU) == 0
    assert collective_seconds(8e9, node) == pytest.approx(7 / 8 * 8e9 / 100e9)  # 0.07
    assert collective_seconds(8e9, nodes) == pytest.approx(0.07 + 3 / 4 * 1e9 / 10e9)  # 0.145
    assert exchange_seconds(8e9, nodes, "ddp", parts=5) == pytest.approx(2 * 0.145)
    assert exchange_seconds(8e9, nodes, "fsdp", parts=2) == pytest.approx(6 * 0.145)
    assert exchange_seconds(8e9, GPU, "none", parts=2) == 0


def test_a_step_hides_what_it_can() -> None:
    node = replace(GPU, count=8)
    ddp = step_seconds(STEP, node, "bfloat16", "ddp", parts=2)
    assert ddp.compute == pytest.approx(0.6) and ddp.exchange == pytest.approx(0.14)
    assert ddp.waiting == 0  # 0.8 of the last backward pass's 0.2
    slow = step_seconds(STEP, replace(node, link=50e9), "bfloat16", "ddp", parts=2)
    assert slow.waiting == pytest.approx(0.28 - OVERLAP * 0.2)
    assert slow.step == pytest.approx(0.6 + 0.064 + slow.waiting)
    fsdp = step_seconds(STEP, node, "bfloat16", "fsdp", parts=2)
    assert fsdp.exchange == pytest.approx(6 * 0.07) and fsdp.update == pytest.approx(0.008)


def test_memory_shared_out() -> None:
    shared = device_memory(STEP.memory, parallel="fsdp", devices=8, layers=16)
    assert (
        shared.weights == shared.gradients == 1_000_000_000 + 1_000_000_000
    )  # an eighth, and two of 16 blocks
    assert shared.optimizer == 2_000_000_000 and shared.activations == 10**9
    assert device_memory(STEP.memory, parallel="ddp", devices=8, layers=16) == STEP.memory


def test_the_catalogue_says_what_data_sheets_say() -> None:
    known = catalogue()
    sheet = {"a100": (312, 80, 2.0, 300), "h100": (989, 80, 3.35, 450), "h200": (989, 141, 4.8, 450)}
    for name, (tflops, memory, bandwidth, link) in sheet.items():
        machine = known[name]
        assert machine.flops["bfloat16"] == tflops * 1e12 and machine.memory == memory * 1e9
        assert machine.bandwidth == pytest.approx(bandwidth * 1e12, rel=0.03) and machine.link == link * 1e9
    assert all(0 < machine.share < 1 for machine in known.values())


def test_names() -> None:
    assert (find_machine("H100").count, find_machine("h100").nodes) == (1, 1)
    four = find_machine("4x8xh100")
    assert (four.name, four.nodes, four.count, four.devices) == ("4x8xh100", 4, 8, 32)
    for wrong in ("h300", "8x", "8 h100", "x8xh100", "2x2x2xh100"):
        with pytest.raises(InputError, match="There is no machine") as raised:
            find_machine(wrong)
        assert "rtx4090" in str(raised.value) + str(raised.value.remedy)
    with pytest.raises(InputError, match="has no device"):
        find_machine("0xh100")
    with pytest.raises(InputError, match="exchange data"):
        find_machine("2xlaptop")


@pytest.mark.parametrize("fast", [True, False])
def test_this_machine_is_measured(fast: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """In bfloat16 only where it has that: torch takes some fifty times as long elsewhere, and no run does."""
    monkeypatch.setattr(machines, "fast_bfloat16", lambda device: fast)
    monkeypatch.setattr(machines, "measured_flops", lambda dtype: {torch.float32: 1e9}.get(dtype, 2e9))
    machine = here()
    assert min(machine.flops["float32"], machine.bandwidth, machine.launch) > 0
    assert machine.precision("auto") == ("bfloat16" if fast else "float32")
    assert set(machine.flops) == {"float32", machine.precision("auto")}


def found(machine: Machine, parallel: str = "none", *overrides: str, price: float | None = None) -> dict:
    recipe = load_recipe("tinystories-gpt2", ["model.layers=3", *overrides])
    return predict(recipe, machine, parallel=parallel, vocab_size=50_257, steps=3600, price=price)


def test_hours_and_money() -> None:
    one = found(GPU)
    assert one.hours == pytest.approx(one.seconds.step)  # 3,600 of them
    assert one.price == pytest.approx(2.0 * one.hours)
    assert one.tokens_per_second == pytest.approx(32 * 256 / one.seconds.step)
    assert 0 < one.utilization < GPU.share
    eight = found(replace(GPU, count=8), "ddp", price=3.0)
    assert eight.price == pytest.approx(8 * 3.0 * eight.hours)
    assert one.hours / 8 < eight.hours < one.hours


def test_short_memory_is_met_as_in_a_run() -> None:
    assert (found(GPU).micro_batch, found(GPU).fits) == (8, True)
    total = found(GPU).memory.total
    less = found(replace(GPU, memory=total))  # not all of which is usable
    assert less.micro_batch == 4 and less.fits and not less.recompute
    none = found(replace(GPU, memory=1e9))
    assert (none.micro_batch, none.recompute, none.fits) == (1, True, False)
    shared = found(replace(GPU, memory=1e9, count=8, nodes=4), "fsdp")
    assert shared.fits
    assert found(GPU, "none", "training.micro_batch=2").micro_batch == 2


def test_more_devices_than_sequences_stay_idle() -> None:
    many = found(replace(GPU, count=8, nodes=8), "ddp")
    assert many.idle_devices == 64 - 32 and many.micro_batch == 1


def test_every_way_to_share_is_predicted() -> None:
    recipe = load_recipe("shakespeare-char-cpu")
    rows = predictions(recipe, [GPU, replace(GPU, count=2)], vocab_size=65, steps=1)
    assert [row.parallel for row in rows] == ["none", "ddp", "fsdp"]


def test_a_teacher_costs_a_forward_pass() -> None:
    small, large = (
        load_recipe("shakespeare-char-cpu", [f"model.layers={layers}"]).model for layers in (4, 12)
    )
    assert teaching([], small, vocab_size=65) == 0.0
    assert teaching([small], small, vocab_size=65) == pytest.approx(1 / 3)
    both = teaching([small, large], small, vocab_size=65)
    assert both == pytest.approx(
        (teaching([small], small, vocab_size=65) + teaching([large], small, vocab_size=65)) / 2
    )
    alone = step_seconds(STEP, GPU, "bfloat16", "none", parts=2)
    taught = step_seconds(STEP, GPU, "bfloat16", "none", parts=2, taught=0.5)
    assert taught.compute == pytest.approx(1.5 * alone.compute) and taught.update == alone.update
