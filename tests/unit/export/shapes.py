"""Models of every switch, tiny, none of whose numbers is zero."""

from __future__ import annotations

from typing import Any

import torch

from octavo.model.base import build_model
from octavo.model.config import GPTConfig
from octavo.model.gpt import GPT

V, T = 31, 16
SMALL = {"layers": 2, "width": 24, "heads": 4, "context": T}
OPTIONS: dict[str, dict[str, Any]] = {
    "plain": {},
    "modern": {
        "positions": "rotary",
        "qk_norm": True,
        "attention_scale": 0.3,
        "embedding_norm": True,
        "norm": {"kind": "rms", "scale": False},
        "feed_forward": {"kind": "relu2", "bias": False},
        "ngrams": {"kind": "hashed", "longest": 4, "buckets": 97},
    },
    "llama": {
        "positions": {"kind": "rotary", "share": 0.6, "base": 77.0},
        "head_width": 10,
        "kv_heads": 2,
        "norm": "rms",
        "feed_forward": {"kind": "swiglu", "bias": True},
        "logit_softcap": 3.0,
    },
    "qwen": {"qk_norm": True, "qk_norm_scale": True, "qk_norm_eps": 1e-3, "kv_heads": 1},
    "B": {
        "positions": "sinusoidal",
        "norm": "plain",
        "residual": False,
        "feed_forward": "none",
        "final_norm": False,
        "output_projection": False,
        "head_bias": True,
        "attention_scale": "model",
    },
    "post": {"norm_place": "post", "tied": True, "head_bias": True, "qkv_bias": True},
    "no norm": {"norm": "none", "positions": "none", "feed_forward": "gelu_tanh"},
    "no shift": {"norm": {"kind": "layer", "bias": False}, "feed_forward": {"kind": "relu", "width": 7}},
    "many n-grams": {"ngrams": {"kind": "hashed", "longest": 8, "buckets": 2**15 + 3}},
}


@torch.no_grad()
def model_of(name: str, *, vocab_size: int = V) -> tuple[GPT, GPTConfig]:
    """The model, and its config."""
    config = GPTConfig.model_validate(SMALL | OPTIONS[name])
    model = build_model(config, vocab_size=vocab_size, seed=1)
    random = torch.Generator().manual_seed(2)
    for parameter in model.parameters():
        parameter.add_(torch.randn(parameter.shape, generator=random), alpha=0.1)
    return model.eval(), config
