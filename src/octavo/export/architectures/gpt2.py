"""GPT-2: layer norm, learned positions, biases everywhere (Radford et al. 2019)."""

from __future__ import annotations

from octavo.export.architectures.base import Architecture, Fixed, Key, Name
from octavo.export.architectures.layouts import CONV1D

SAYS = {
    "positions": frozenset({"table"}),
    "norm": frozenset({"layer"}),
    "norm_bias": frozenset({True}),
    "qkv_bias": frozenset({True}),
    "output_bias": frozenset({True}),
    "feed_forward_bias": frozenset({True}),
    "grouped": frozenset({False}),
    "fills_width": frozenset({True}),
}
IMPLIED = {
    "positions": "table",
    "norm": "layer",
    "norm_bias": True,
    "qkv_bias": True,
    "output_bias": True,
    "feed_forward_bias": True,
}

HF = Architecture(
    name="gpt2",
    library="hf",
    title="GPT-2",
    says={**SAYS, "activation": frozenset({"relu", "gelu", "gelu_tanh", "relu2"})},
    settings=[
        Fixed("architectures", ["GPT2LMHeadModel"], free=True),
        Fixed("model_type", "gpt2"),
        Key("vocab_size", "vocab_size"),
        Key("n_positions", "context"),
        Key("n_embd", "width"),
        Key("n_layer", "layers"),
        Key("n_head", "heads"),
        Key("n_inner", "features", default=None),
        Key("layer_norm_epsilon", "norm_eps", default=1e-5),
        Key(
            "activation_function",
            "activation",
            {"relu": "relu", "gelu": "gelu", "gelu_tanh": "gelu_new", "relu2": "relu2"},
            default="gelu_new",
        ),
        Key("tie_word_embeddings", "tied", default=True),
        Fixed("scale_attn_weights", True),
        Fixed("scale_attn_by_inverse_layer_idx", False),
        *(Fixed(f"{place}_pdrop", 0.0, free=True) for place in ("resid", "embd", "attn")),
    ],
    names=[
        Name(("embedding",), "transformer.wte"),
        Name(("positions",), "transformer.wpe"),
        Name(("blocks.{i}.attention_norm",), "transformer.h.{i}.ln_1"),
        Name(
            ("blocks.{i}.attention.q", "blocks.{i}.attention.k", "blocks.{i}.attention.v"),
            "transformer.h.{i}.attn.c_attn",
            CONV1D,
        ),
        Name(("blocks.{i}.attention.out",), "transformer.h.{i}.attn.c_proj", CONV1D),
        Name(("blocks.{i}.feed_forward_norm",), "transformer.h.{i}.ln_2"),
        Name(("blocks.{i}.feed_forward.into",), "transformer.h.{i}.mlp.c_fc", CONV1D),
        Name(("blocks.{i}.feed_forward.out",), "transformer.h.{i}.mlp.c_proj", CONV1D),
        Name(("norm",), "transformer.ln_f"),
        Name(("head",), "lm_head"),
    ],
    implied=IMPLIED,
)
