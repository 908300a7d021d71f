"""GPT-NeoX: layer norm and rotary positions, which may turn a part of each head (Black et al. 2022)."""

from __future__ import annotations

from octavo.export.architectures.base import Architecture, Fixed, Key, Name
from octavo.export.architectures.layouts import HEAD_BY_HEAD
from octavo.export.architectures.rotary import Rope

SAYS = {
    "positions": frozenset({"rotary"}),
    "norm": frozenset({"layer"}),
    "norm_bias": frozenset({True}),
    "qkv_bias": frozenset({True, False}),
    "one_bias": frozenset({True}),
    "feed_forward_bias": frozenset({True}),
    "grouped": frozenset({False}),
    "fills_width": frozenset({True}),
    "partly_turned": frozenset({True, False}),
}
IMPLIED = {"positions": "rotary", "norm": "layer", "norm_bias": True, "feed_forward_bias": True}

HF = Architecture(
    name="gpt_neox",
    library="hf",
    title="GPT-NeoX",
    says={**SAYS, "activation": frozenset({"relu", "gelu", "gelu_tanh", "relu2"})},
    settings=[
        Fixed("architectures", ["GPTNeoXForCausalLM"], free=True),
        Fixed("model_type", "gpt_neox"),
        Key("vocab_size", "vocab_size"),
        Key("max_position_embeddings", "context"),
        Key("hidden_size", "width"),
        Key("intermediate_size", "features"),
        Key("num_hidden_layers", "layers"),
        Key("num_attention_heads", "heads"),
        Key("layer_norm_eps", "norm_eps", default=1e-5),
        Key(
            "hidden_act",
            "activation",
            {"relu": "relu", "gelu": "gelu", "gelu_tanh": "gelu_new", "relu2": "relu2"},
            default="gelu",
        ),
        Rope(share=0.25),
        Key("attention_bias", "qkv_bias", default=True),
        Key("attention_bias", "output_bias", default=True),
        Fixed("use_parallel_residual", False, default=True),
        *(Fixed(f"{place}_dropout", 0.0, free=True) for place in ("hidden", "attention")),
        Key("tie_word_embeddings", "tied", default=False),
    ],
    names=[
        Name(("embedding",), "gpt_neox.embed_in"),
        Name(("blocks.{i}.attention_norm",), "gpt_neox.layers.{i}.input_layernorm"),
        Name(
            ("blocks.{i}.attention.q", "blocks.{i}.attention.k", "blocks.{i}.attention.v"),
            "gpt_neox.layers.{i}.attention.query_key_value",
            HEAD_BY_HEAD,
        ),
        Name(("blocks.{i}.attention.out",), "gpt_neox.layers.{i}.attention.dense"),
        Name(("blocks.{i}.feed_forward_norm",), "gpt_neox.layers.{i}.post_attention_layernorm"),
        Name(("blocks.{i}.feed_forward.into",), "gpt_neox.layers.{i}.mlp.dense_h_to_4h"),
        Name(("blocks.{i}.feed_forward.out",), "gpt_neox.layers.{i}.mlp.dense_4h_to_h"),
        Name(("norm",), "gpt_neox.final_layer_norm"),
        Name(("head",), "embed_out"),
    ],
    implied=IMPLIED,
)
