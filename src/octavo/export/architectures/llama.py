"""Llama and those that are built like it: root mean square, rotary positions (Touvron et al. 2023)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from octavo.errors import InputError
from octavo.export.architectures.base import Architecture, Fixed, Key, Name, Setting
from octavo.export.architectures.rotary import Rope
from octavo.export.weights import Shape

SAYS = {
    "positions": frozenset({"rotary"}),
    "norm": frozenset({"rms"}),
    "qkv_bias": frozenset({True, False}),
    "one_bias": frozenset({True}),
    "feed_forward_bias": frozenset({True, False}),
    "own_speeds": frozenset({True, False}),
    "activation": frozenset({"silu"}),
    "gated": frozenset({True}),
}
GATED = {"positions": "rotary", "norm": "rms", "activation": "silu", "gated": True}
SQUARED = {"positions": "rotary", "norm": "rms", "activation": "relu2"}


@dataclass(frozen=True)
class WholeAttention(Setting):
    """Every layer looks at all that stands before it; some of these architectures can have windows."""

    def write(self, shape: Shape) -> dict[str, Any]:
        return {}

    def read(self, theirs: Mapping[str, Any], fields: dict[str, Any]) -> None:
        kinds = set(theirs.get("layer_types") or ())
        if kinds - {"full_attention"} or theirs.get("use_sliding_window"):
            raise InputError("The settings let attention look at a window, which Octavo's GPT does not have.")


def hf_settings(
    kind: str, model_type: str, *, act: str, mlp_bias: bool, eps: float = 1e-6, **rope: Any
) -> list[Setting]:
    """What the settings of these architectures have in common."""
    biases: list[Setting] = [
        Key("attention_bias", field, default=False) for field in ("qkv_bias", "output_bias")
    ]
    if mlp_bias:
        biases.append(Key("mlp_bias", "feed_forward_bias", default=False))
    return [
        Fixed("architectures", [kind], free=True),
        Fixed("model_type", model_type),
        Key("vocab_size", "vocab_size"),
        Key("max_position_embeddings", "context"),
        Key("hidden_size", "width"),
        Key("intermediate_size", "features"),
        Key("num_hidden_layers", "layers"),
        Key("num_attention_heads", "heads"),
        Key("num_key_value_heads", "kv_heads", default=None),
        Key("head_dim", "head_width", default=None),
        Key("rms_norm_eps", "norm_eps", default=eps),
        Fixed("hidden_act", act),
        Rope(**rope),
        WholeAttention(),
        *biases,
        Fixed("attention_dropout", 0.0, free=True),
        Key("tie_word_embeddings", "tied", default=False),
    ]


def hf_names(*, gated: bool, qk_norm: bool, norms: tuple[str, str]) -> list[Name]:
    """Their tensors; `norms` before attention and before feed-forward."""
    layer, block = "model.layers.{i}", "blocks.{i}"
    found = [
        Name(("embedding",), "model.embed_tokens"),
        Name((f"{block}.attention_norm",), f"{layer}.{norms[0]}"),
        *(Name((f"{block}.attention.{one}",), f"{layer}.self_attn.{one}_proj") for one in "qkv"),
        Name((f"{block}.attention.out",), f"{layer}.self_attn.o_proj"),
        Name((f"{block}.feed_forward_norm",), f"{layer}.{norms[1]}"),
        Name((f"{block}.feed_forward.into",), f"{layer}.mlp.up_proj"),
        Name((f"{block}.feed_forward.out",), f"{layer}.mlp.down_proj"),
        Name(("norm",), "model.norm"),
        Name(("head",), "lm_head"),
    ]
    if gated:
        found.append(Name((f"{block}.feed_forward.gate",), f"{layer}.mlp.gate_proj"))
    if qk_norm:
        found += [Name((f"{block}.attention.{one}_norm",), f"{layer}.self_attn.{one}_norm") for one in "qk"]
    return found


NORMS = ("input_layernorm", "post_attention_layernorm")

HF = Architecture(
    name="llama",
    library="hf",
    title="Llama",
    says=SAYS,
    settings=hf_settings("LlamaForCausalLM", "llama", act="silu", mlp_bias=True),
    names=hf_names(gated=True, qk_norm=False, norms=NORMS),
    implied=GATED,
)
