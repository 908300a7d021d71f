"""Weights that were saved when the model's matrices had other names."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from octavo.errors import CheckpointError
from octavo.model.config import GPTConfig
from octavo.training.checkpoint import Checkpoint, model_tensors

SHAPE = {"layers": 2, "heads": 2, "width": 8, "context": 4}
OLD = {
    "lm_head.": "head.",
    ".feed_forward.gate_up_proj.": ".feed_forward.gate_into.",
    ".feed_forward.up_proj.": ".feed_forward.into.",
    ".feed_forward.down_proj.": ".feed_forward.out.",
}


def saved_under_old_names(config: GPTConfig, folder: Path) -> tuple[Checkpoint, torch.nn.Module]:
    torch.manual_seed(1)
    model = config.build(vocab_size=5)
    weights = {}
    for name, tensor in model_tensors(model).items():
        for new, old in OLD.items():
            name = name.replace(new, old)
        weights[name] = tensor
    assert not any("proj." in name for name in weights)
    save_file(weights, folder / "model.safetensors")
    return Checkpoint(folder), model


@pytest.mark.parametrize("feed_forward", ["gelu", "relu2", "swiglu", "none"])
@pytest.mark.parametrize("tied", [True, False])
def test_they_are_loaded(feed_forward: str, tied: bool, tmp_path: Path) -> None:
    config = GPTConfig.model_validate(
        {**SHAPE, "feed_forward": feed_forward, "tied": tied, "head_bias": not tied}
    )
    checkpoint, saved = saved_under_old_names(config, tmp_path)
    torch.manual_seed(2)
    model = config.build(vocab_size=5)
    checkpoint.load_model(model)
    for (name, mine), theirs in zip(model.named_parameters(), saved.parameters(), strict=True):
        assert torch.equal(mine, theirs), name


def test_other_names_are_still_refused(tmp_path: Path) -> None:
    config = GPTConfig.model_validate({**SHAPE, "feed_forward": "gelu"})
    checkpoint, _ = saved_under_old_names(config, tmp_path)
    swiglu = GPTConfig.model_validate({**SHAPE, "feed_forward": "swiglu"})
    with pytest.raises(CheckpointError, match="does not fit this model"):
        checkpoint.load_model(swiglu.build(vocab_size=5))
