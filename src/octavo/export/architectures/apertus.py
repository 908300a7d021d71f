"""Apertus: normed queries and keys, and a feed-forward layer without a gate (Hernández-Cano et al. 2025)."""

from __future__ import annotations

from octavo.export.architectures.base import Architecture
from octavo.export.architectures.llama import SAYS, SQUARED, hf_names, hf_settings
from octavo.export.architectures.qwen3 import QK_NORM

PLAIN = {
    "activation": frozenset({"relu2"}),
    "gated": frozenset({False}),
    "feed_forward_bias": frozenset({False}),
}

HF = Architecture(
    name="apertus",
    library="hf",
    title="Apertus",
    says={**SAYS, **QK_NORM, **PLAIN},
    settings=hf_settings(
        "ApertusForCausalLM",
        "apertus",
        act="relu2",
        mlp_bias=False,
        eps=1e-5,
        default_base=12e6,
        default_kind="llama3",
    ),
    names=hf_names(gated=False, qk_norm=True, norms=("attention_layernorm", "feedforward_layernorm")),
    implied={**SQUARED, "qk_norm": True, "qk_scale": True},
)
