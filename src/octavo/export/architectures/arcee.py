"""Arcee: Llama with ReLU² and no gate."""

from __future__ import annotations

from octavo.export.architectures.apertus import PLAIN
from octavo.export.architectures.base import Architecture
from octavo.export.architectures.llama import NORMS, SAYS, SQUARED, hf_names, hf_settings

HF = Architecture(
    name="arcee",
    library="hf",
    title="Arcee",
    says={**SAYS, **PLAIN, "feed_forward_bias": frozenset({True, False})},
    settings=hf_settings("ArceeForCausalLM", "arcee", act="relu2", mlp_bias=True, eps=1e-5),
    names=hf_names(gated=False, qk_norm=False, norms=NORMS),
    implied=SQUARED,
)
