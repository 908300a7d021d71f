"""Costs computed from the config, against the built thing."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F
from torch.utils.flop_counter import FlopCounterMode

from octavo.model.base import build_model
from octavo.model.config import GPTConfig

V, B = 19, 3
SHAPES: dict[str, dict[str, object]] = {
    "default": {},
    "report E": {"heads": 5, "head_bias": True, "feed_forward": {"kind": "relu", "width": 40}},
    "Llama": {"kv_heads": 2, "positions": "rotary", "norm": "rms", "feed_forward": "swiglu"},
    "attention alone": {"feed_forward": "none", "norm": "none", "output_projection": False},
    "tied": {"tied": True, "qkv_bias": True, "final_norm": False, "embedding_norm": True},
    "post-norm": {"norm_place": "post", "qk_norm": True, "logit_softcap": 10.0, "residual": False},
    "q/k scale": {"kv_heads": 2, "qk_norm": True, "qk_norm_scale": True},
    "dropout": {"dropout": {"attention": 0.1, "projection": 0.2, "feed_forward": 0.3, "embedding": 0.4}},
}


@pytest.fixture(params=SHAPES)
def config(request: pytest.FixtureRequest) -> GPTConfig:
    torch.set_num_threads(1)
    return GPTConfig.model_validate(
        {"layers": 3, "width": 32, "heads": 4, "context": 12} | SHAPES[request.param]
    )


def tokens(config: GPTConfig) -> Tensor:
    return torch.randint(V, (B, config.context), generator=torch.Generator().manual_seed(0))


def test_flops_are_those_that_torch_counts(config: GPTConfig) -> None:
    """With explicit attention, whose matrix products torch counts one by one; the mask is not halved."""
    model = build_model(config, vocab_size=V, seed=0, explicit_attention=True)
    with FlopCounterMode(display=False) as forward:
        logits = model(tokens(config))
    count = B * config.context
    assert forward.get_total_flops() == count * config.forward_flops(vocab_size=V)
    with FlopCounterMode(display=False) as backward:
        F.cross_entropy(logits.flatten(0, 1), tokens(config).flatten()).backward()
    together = forward.get_total_flops() + backward.get_total_flops()
    assert together == count * config.training_flops(vocab_size=V)


@torch.no_grad()
def test_flops_of_a_shorter_sequence(config: GPTConfig) -> None:
    model = build_model(config, vocab_size=V, seed=0, explicit_attention=True)
    with FlopCounterMode(display=False) as counter:
        model(tokens(config)[:, :5])
    assert counter.get_total_flops() == B * 5 * config.forward_flops(vocab_size=V, length=5)


def test_matrix_parameters_are_those_of_the_matrices(config: GPTConfig) -> None:
    model = build_model(config, vocab_size=V, seed=0)
    blocks = sum(p.numel() for p in model.blocks.parameters() if p.ndim == 2)
    assert config.block_matrix_parameters() == blocks
    assert config.matrix_parameters(vocab_size=V) == blocks + model.lm_head.weight.numel()


@pytest.mark.parametrize("batch", [1, 4])
def test_cache_bytes_are_those_of_the_tensors(config: GPTConfig, batch: int) -> None:
    cache = build_model(config, vocab_size=V, seed=0).new_cache(batch)
    held = sum(
        tensor.untyped_storage().nbytes() for layer in cache.layers for tensor in (layer.keys, layer.values)
    )
    assert config.cache_bytes(batch=batch) == held
