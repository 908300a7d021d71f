"""How wide weights start: the spread that the papers give, measured on the built model."""

from __future__ import annotations

import pytest
import torch

from octavo.model.base import build_model
from octavo.model.config import GPTConfig
from octavo.model.gpt import GPT

LAYERS, WIDTH = 8, 64


def built(initialization: object, **options: object) -> GPT:
    config = {"layers": LAYERS, "width": WIDTH, "heads": 4, "context": 16, "feed_forward": "gelu"}
    tree = {**config, "tied": False, "initialization": initialization, **options}
    return build_model(GPTConfig.model_validate(tree), vocab_size=100, seed=1)


def spread(weights: list[torch.Tensor]) -> float:
    """Root mean square."""
    return torch.cat([weight.detach().flatten() for weight in weights]).square().mean().sqrt().item()


def by_role(model: GPT) -> dict[str, list[torch.Tensor]]:
    writers = [block.attention.project.weight for block in model.blocks]
    writers += [block.feed_forward.down_proj.weight for block in model.blocks]
    return {
        "writers": writers,
        "readers": [block.attention.qkv.weight for block in model.blocks],
        "embedding": [model.embedding.weight],
        "head": [model.lm_head.weight],
    }


def test_gpt2_narrows_what_writes_into_the_stream_by_twice_the_layers() -> None:
    found = {role: spread(weights) for role, weights in by_role(built("gpt2")).items()}
    narrow = 0.02 / (2 * LAYERS) ** 0.5  # each layer writes twice
    expected = {"writers": narrow, "readers": 0.02, "embedding": 0.02, "head": 0.02}
    assert found == pytest.approx(expected, rel=0.03)


def test_normal_has_one_spread() -> None:
    for role, weights in by_role(built({"kind": "normal", "std": 0.3})).items():
        assert spread(weights) == pytest.approx(0.3, rel=0.03), role


def test_zero_output_has_the_variance_of_one_over_the_inputs() -> None:
    found = by_role(built("zero_output"))
    assert spread(found["writers"]) == spread(found["head"]) == 0
    assert spread(found["readers"]) == pytest.approx(WIDTH**-0.5, rel=0.03)
    assert spread(found["embedding"]) == pytest.approx(1.0, rel=0.03)
    alone = by_role(built("zero_output", residual=False))
    assert spread(alone["writers"][:LAYERS]) == pytest.approx(WIDTH**-0.5, rel=0.03)
    tied = built("zero_output", tied=True)
    assert tied.lm_head.weight is tied.embedding.weight
    assert spread([tied.lm_head.weight]) == pytest.approx(1.0, rel=0.03)
