"""Qwen3: Llama with normed queries and keys, whose norms have scales (Yang et al. 2025)."""

from __future__ import annotations

from octavo.export.architectures.base import Architecture
from octavo.export.architectures.llama import GATED, NORMS, SAYS, hf_names, hf_settings

QK_NORM = {"qk_norm": frozenset({True}), "qk_scale": frozenset({True})}

HF = Architecture(
    name="qwen3",
    library="hf",
    title="Qwen3",
    says={**SAYS, **QK_NORM, "feed_forward_bias": frozenset({False})},
    settings=hf_settings("Qwen3ForCausalLM", "qwen3", act="silu", mlp_bias=False),
    names=hf_names(gated=True, qk_norm=True, norms=NORMS),
    implied={**GATED, "qk_norm": True, "qk_scale": True},
)
