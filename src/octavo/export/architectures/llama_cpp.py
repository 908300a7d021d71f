"""The architectures of llama.cpp, as its loaders and graphs have them (src/models there)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from octavo.errors import InputError
from octavo.export.architectures.base import Architecture, Fixed, Key, Name, Setting
from octavo.export.architectures.gpt2 import IMPLIED as GPT2_IMPLIED
from octavo.export.architectures.gpt2 import SAYS as GPT2_SAYS
from octavo.export.architectures.gpt_neox import IMPLIED as NEOX_IMPLIED
from octavo.export.architectures.gpt_neox import SAYS as NEOX_SAYS
from octavo.export.architectures.layouts import AS_IT_IS, INTERLEAVED, JOINED, Layout
from octavo.export.architectures.llama import GATED, SAYS, SQUARED
from octavo.export.architectures.qwen3 import QK_NORM
from octavo.export.weights import Shape

PLAIN_BIASES = {
    "qkv_bias": frozenset({True, False}),
    "output_bias": frozenset({False}),
    "one_bias": frozenset({True, False}),
    "feed_forward_bias": frozenset({False}),
}


class _Unscaled(Setting):
    """Positions that are not stretched. Ours never are; a file may say how its are."""

    def __init__(self, arch: str) -> None:
        self.kind, *self.factors = (
            f"{arch}.rope.{key}" for key in ("scaling.type", "scaling.factor", "scale_linear")
        )

    def write(self, shape: Shape) -> dict[str, Any]:
        return {}

    def read(self, theirs: Mapping[str, Any], fields: dict[str, Any]) -> None:
        wrong = [self.kind] if theirs.get(self.kind, "none") != "none" else []
        wrong += [key for key in self.factors if theirs.get(key, 0) not in (0, 1)]
        if wrong:
            raise InputError(
                f"The settings have {wrong[0]} = {theirs[wrong[0]]!r}; Octavo's GPT stretches no positions."
            )


def _settings(arch: str, *more: Setting, rms: bool = True, rotary: bool = True) -> list[Setting]:
    eps = "layer_norm_rms_epsilon" if rms else "layer_norm_epsilon"
    found: list[Setting] = [
        Fixed("general.architecture", arch),
        Key(f"{arch}.vocab_size", "vocab_size"),
        Key(f"{arch}.context_length", "context"),
        Key(f"{arch}.embedding_length", "width"),
        Key(f"{arch}.block_count", "layers"),
        Key(f"{arch}.feed_forward_length", "features"),
        Key(f"{arch}.attention.head_count", "heads"),
        Key(f"{arch}.attention.head_count_kv", "kv_heads", default=None),
        Key(f"{arch}.attention.key_length", "head_width", default=None),
        Key(f"{arch}.attention.value_length", "head_width", default=None),
        Key(f"{arch}.attention.{eps}", "norm_eps"),
    ]
    if rotary:
        found += [
            Key(f"{arch}.rope.freq_base", "base", default=10000.0),
            Key(f"{arch}.rope.dimension_count", "turned", default=None),
            _Unscaled(arch),
        ]
    return [*found, *more]


def _names(*, qk: Layout = AS_IT_IS, joined: bool = False) -> list[Name]:
    block, theirs = "blocks.{i}", "blk.{i}"
    parts = {
        "attention_norm": "attn_norm",
        "attention.out": "attn_output",
        "attention.q_norm": "attn_q_norm",
        "attention.k_norm": "attn_k_norm",
        "feed_forward_norm": "ffn_norm",
        "feed_forward.gate": "ffn_gate",
        "feed_forward.into": "ffn_up",
        "feed_forward.out": "ffn_down",
    }
    whole = {"embedding": "token_embd", "positions": "position_embd", "norm": "output_norm", "head": "output"}
    found = [Name((ours,), their) for ours, their in whole.items()]
    found += [Name((f"{block}.{ours}",), f"{theirs}.{their}") for ours, their in parts.items()]
    own = [f"{block}.attention.{one}" for one in "qkv"]
    if joined:
        return [*found, Name(tuple(own), f"{theirs}.attn_qkv", JOINED)]
    layouts = {"q": qk, "k": qk, "v": AS_IT_IS}
    return [
        *found,
        *(Name((f"{block}.attention.{one}",), f"{theirs}.attn_{one}", layouts[one]) for one in "qkv"),
    ]


def _slowness(shape: Shape) -> dict[str, Tensor]:
    return {"rope_freqs.weight": torch.tensor(shape.slowness)} if shape.slowness else {}


LLAMA = Architecture(
    name="llama",
    library="gguf",
    title="llama",
    says={**SAYS, **PLAIN_BIASES},
    settings=_settings("llama"),
    names=_names(qk=INTERLEAVED),
    implied=GATED,
    beside=_slowness,
)
QWEN3 = Architecture(
    name="qwen3",
    library="gguf",
    title="qwen3",
    says={**SAYS, **PLAIN_BIASES, **QK_NORM, "own_speeds": frozenset({False})},
    settings=_settings("qwen3"),
    names=_names(),
    implied={**GATED, "qk_norm": True, "qk_scale": True},
)
ARCEE = Architecture(
    name="arcee",
    library="gguf",
    title="arcee",
    says={**SAYS, **PLAIN_BIASES, "activation": frozenset({"relu2"}), "gated": frozenset({False})},
    settings=_settings("arcee"),
    names=_names(qk=INTERLEAVED),
    implied=SQUARED,
    beside=_slowness,
)


class _PerLayer(Fixed):
    """A list with the same number for every layer."""

    def write(self, shape: Shape) -> dict[str, list[float]]:
        return {self.theirs: [self.value] * shape.layers}


APERTUS = Architecture(
    name="apertus",
    library="gguf",
    title="apertus",
    says={
        **SAYS,
        **PLAIN_BIASES,
        **QK_NORM,
        "activation": frozenset({"xielu"}),
        "gated": frozenset({False}),
        "tied": frozenset({False}),
    },
    settings=_settings(
        "apertus",
        # Without the architecture's name before them; the alphas pass through a softplus when they are read.
        _PerLayer("xielu.alpha_p", math.log(math.e - 1), free=True),
        _PerLayer("xielu.alpha_n", -1000.0, free=True),
        _PerLayer("xielu.beta", 0.0, free=True),
        _PerLayer("xielu.eps", -1e-6, free=True),
    ),
    names=_names(),
    implied={**SQUARED, "activation": "xielu", "qk_norm": True, "qk_scale": True},
    beside=_slowness,
)
GPT2 = Architecture(
    name="gpt2",
    library="gguf",
    title="gpt2",
    says={**GPT2_SAYS, "activation": frozenset({"gelu_table"})},
    settings=_settings("gpt2", rms=False, rotary=False),
    names=_names(joined=True),
    implied={**GPT2_IMPLIED, "activation": "gelu_table"},
)
GPT_NEOX = Architecture(
    name="gptneox",
    library="gguf",
    title="gptneox",
    says={
        **NEOX_SAYS,
        "qkv_bias": frozenset({True}),
        "output_bias": frozenset({True}),
        "activation": frozenset({"gelu_table"}),
        "tied": frozenset({False}),
    },
    settings=_settings("gptneox", Fixed("gptneox.use_parallel_residual", False), rms=False),
    names=_names(joined=True),
    implied={**NEOX_IMPLIED, "activation": "gelu_table", "qkv_bias": True, "output_bias": True},
)
