"""The first GPT: norms after the residual sum, and none before the head (Radford et al. 2018)."""

from __future__ import annotations

from octavo.export.architectures.base import Architecture, Fixed, Key, Name
from octavo.export.architectures.gpt2 import IMPLIED, SAYS
from octavo.export.architectures.layouts import CONV1D

HF = Architecture(
    name="openai-gpt",
    library="hf",
    title="OpenAI-GPT",
    says={
        **SAYS,
        "norm_place": frozenset({"post"}),
        "final_norm": frozenset({False}),
        "activation": frozenset({"relu", "gelu_tanh"}),
        "four_wide": frozenset({True}),
    },
    settings=[
        Fixed("architectures", ["OpenAIGPTLMHeadModel"], free=True),
        Fixed("model_type", "openai-gpt"),
        Key("vocab_size", "vocab_size"),
        Key("n_positions", "context"),
        Key("n_embd", "width"),
        Key("n_layer", "layers"),
        Key("n_head", "heads"),
        Key("layer_norm_epsilon", "norm_eps", default=1e-5),
        Key("afn", "activation", {"relu": "relu", "gelu_tanh": "gelu"}, default="gelu"),
        *(Fixed(f"{place}_pdrop", 0.0, free=True) for place in ("resid", "embd", "attn")),
        Key("tie_word_embeddings", "tied", default=True),
    ],
    names=[
        Name(("embedding",), "transformer.tokens_embed"),
        Name(("positions",), "transformer.positions_embed"),
        Name(
            ("blocks.{i}.attention.q", "blocks.{i}.attention.k", "blocks.{i}.attention.v"),
            "transformer.h.{i}.attn.c_attn",
            CONV1D,
        ),
        Name(("blocks.{i}.attention.out",), "transformer.h.{i}.attn.c_proj", CONV1D),
        Name(("blocks.{i}.attention_norm",), "transformer.h.{i}.ln_1"),
        Name(("blocks.{i}.feed_forward.into",), "transformer.h.{i}.mlp.c_fc", CONV1D),
        Name(("blocks.{i}.feed_forward.out",), "transformer.h.{i}.mlp.c_proj", CONV1D),
        Name(("blocks.{i}.feed_forward_norm",), "transformer.h.{i}.ln_2"),
        Name(("head",), "lm_head"),
    ],
    implied={**IMPLIED, "norm_place": "post", "final_norm": False},
)
