"""The compiled model beside the eager one, and when there is one."""

from __future__ import annotations

import shutil

import pytest
import torch

from octavo.data.batch import Batch
from octavo.model.base import build_model
from octavo.model.config import GPTConfig
from octavo.training.device import LONG, compiled, compiles, device_check


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("g++") is None, reason="torch.compile needs a C++ compiler")
def test_compiled_equals_eager() -> None:
    config = GPTConfig.model_validate(
        {"layers": 2, "width": 32, "heads": 2, "context": 16, "positions": "rotary"}
    )
    model = build_model(config, vocab_size=11, seed=0)
    window = torch.arange(2 * 17).remainder(11).view(2, 17)
    probe = Batch(window[:, :-1].contiguous(), window[:, 1:].contiguous())
    assert device_check(model, probe, torch.device("cpu"), transform=torch.compile) is None


def test_long_runs_on_a_gpu_are_compiled_where_nothing_is_said() -> None:
    gpu, cpu = torch.device("cuda"), torch.device("cpu")
    assert compiles("auto", gpu, steps=LONG) and not compiles("auto", gpu, steps=LONG - 1)
    assert not compiles("auto", cpu, steps=10**6)
    assert compiles(True, cpu, steps=1) and not compiles(False, gpu, steps=10**6)


def test_a_twin_compiled_by_blocks_has_the_same_weights_and_leaves_the_model_as_it_is() -> None:
    model = build_model(GPTConfig(layers=2, width=32, heads=2, context=16), vocab_size=11, seed=0)
    twin = compiled(model, torch.device("cuda"))
    pairs = zip(model.named_parameters(), twin.named_parameters(), strict=True)
    assert all(name == other and one is same for (name, one), (other, same) in pairs)
    assert all(one is same for one, same in zip(model.buffers(), twin.buffers(), strict=True))
    translated = [each._compiled_call_impl is not None for each in (*model.blocks, *twin.blocks)]
    assert translated == [False, False, True, True]
