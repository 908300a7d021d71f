"""The compiled model beside the eager one."""

from __future__ import annotations

import shutil

import pytest
import torch

from octavo.dataset.batch import Batch
from octavo.model.build import build_model
from octavo.model.gpt_config import GPTConfig
from octavo.training.runtime import device_check


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
