"""A GPT as decode.c reads it: the structs that cross to C, and which modules and options the kernel knows.

`knows` accepts exact types alone: what a subclass does, or another part, the kernel cannot see. Torch decodes those.
"""

from __future__ import annotations

import ctypes
import re

from torch import nn

from octavo.model.attention import Attention, ExplicitAttend, FusedAttend
from octavo.model.counts import Counts, KneserNeyCounts
from octavo.model.dropout import Dropout
from octavo.model.feedforward import ACTIVATIONS, FeedForward, SwiGLU
from octavo.model.gpt import GPT, Block, PostNormBlock
from octavo.model.grid import GridPositions, GridRotary
from octavo.model.native import Floats
from octavo.model.ngrams import HashedNGrams, NGrams
from octavo.model.norms import RootMeanSquareNorm
from octavo.model.positions import LearnedPositions, Positions, RotaryPositions, SinusoidalPositions
from octavo.model.recent import Recent

NORMS: dict[type[nn.Module], int] = {nn.Identity: 0, nn.LayerNorm: 1, RootMeanSquareNorm: 2}
KINDS = ("none", "relu", "gelu", "gelu_tanh", "relu2", "swiglu")  # as decode.c numbers them
MOST = 2**31 - 1  # of C's int


class LinearStruct(ctypes.Structure):
    """A matrix."""

    _fields_ = (
        *((name, Floats) for name in ("panels", "bias", "scales")),
        *((name, ctypes.c_int) for name in ("rows", "columns")),
    )


class NormStruct(ctypes.Structure):
    """A norm."""

    _fields_ = (("weight", Floats), ("bias", Floats), ("kind", ctypes.c_int), ("eps", ctypes.c_float))


class LayerStruct(ctypes.Structure):
    """A block."""

    _fields_ = (
        *((name, NormStruct) for name in ("attention_norm", "feed_forward_norm")),
        *((name, LinearStruct) for name in ("qkv", "project", "into", "out")),
        *((name, Floats) for name in ("q_scale", "k_scale", "keys", "values")),
    )


_COUNTS = ("layers", "width", "heads", "groups", "head_width", "context", "vocabulary")
_SWITCHES = ("post_norm", "residual", "qk_norm", "turned", "activation")
_WORDS = ("short_words", "bytes", "before", "buckets")


class ModelStruct(ctypes.Structure):
    """A model, with the room that the kernel works in."""

    _fields_ = (
        *((name, ctypes.c_int) for name in (*_COUNTS, *_SWITCHES, *_WORDS)),
        *((name, ctypes.c_float) for name in ("scale", "softcap", "qk_eps")),
        *((name, Floats) for name in ("embedding", "ngrams", "positions", "cosines", "sines")),
        *((name, NormStruct) for name in ("embedding_norm", "norm")),
        ("head", LinearStruct),
        ("layer", ctypes.POINTER(LayerStruct)),
        *((name, Floats) for name in ("x", "normed", "wide", "heads_out", "scores", "rounded")),
        ("room", ctypes.c_ssize_t),
        ("text", ctypes.c_void_p),
        ("text_width", ctypes.c_ssize_t),
    )


_NORM = tuple(NORMS)
_DROPOUT = (Dropout, nn.Dropout)  # which do nothing when a model writes
_PLACES: dict[str, tuple[type[nn.Module], ...]] = {
    "": (GPT,),
    "embedding": (nn.Embedding,),
    "ngrams": (NGrams, HashedNGrams),
    "positions": (
        Positions,
        LearnedPositions,
        SinusoidalPositions,
        RotaryPositions,
        GridPositions,
        GridRotary,
    ),
    "embedding_norm": _NORM,
    "dropout": _DROPOUT,
    "blocks": (nn.ModuleList,),
    "blocks.N": (Block, PostNormBlock),
    "blocks.N.attention_norm": _NORM,
    "blocks.N.attention": (Attention,),
    "blocks.N.attention.qkv": (nn.Linear,),
    "blocks.N.attention.attend": (FusedAttend, ExplicitAttend),
    "blocks.N.attention.attend.weights": (nn.Identity,),
    "blocks.N.attention.attend.drop": _DROPOUT,
    "blocks.N.attention.project": (nn.Linear, nn.Identity),
    "blocks.N.attention.dropout": _DROPOUT,
    "blocks.N.feed_forward_norm": _NORM,
    "blocks.N.feed_forward": (FeedForward, SwiGLU),
    "blocks.N.feed_forward.up_proj": (nn.Linear,),
    "blocks.N.feed_forward.gate_up_proj": (nn.Linear,),
    "blocks.N.feed_forward.down_proj": (nn.Linear,),
    "blocks.N.feed_forward.dropout": _DROPOUT,
    "norm": _NORM,
    "lm_head": (nn.Linear,),
    "counts": (Counts, KneserNeyCounts),
    "counts.from_state": (nn.Linear,),
    "counts.from_known": (nn.Linear,),
    "counts.out": (nn.Linear,),
    "counts.recent": (Recent,),
}
"""What may stand where; nothing else may stand anywhere."""


def knows(model: nn.Module) -> bool:
    """Whether the kernel computes what every module of this model does, with the options that it has."""
    return (
        type(model) is GPT
        and all(_known(name, module) for name, module in model.named_modules(remove_duplicate=False))
        and len({_alike(block) for block in model.blocks}) == 1
        and model.blocks[0].attention.causal
        and kind_of(model.blocks[0].feed_forward) is not None
        and model.embedding.max_norm is None
        and getattr(model.ngrams, "buckets", 0) <= MOST
    )


def _known(name: str, module: nn.Module) -> bool:
    listened = module._forward_hooks or module._forward_pre_hooks  # to them the kernel tells nothing
    return type(module) in _PLACES.get(re.sub(r"\d+", "N", name), ()) and not listened


def _alike(block: Block) -> tuple[object, ...]:
    """What the kernel knows only once, for all blocks."""
    attention, inner = block.attention, block.feed_forward
    heads = (attention.heads, attention.kv_heads, attention.head_width, attention.qk_norm)
    heads += (attention.qk_norm_eps, attention.causal)
    matrices = (attention.qkv, attention.project, *(() if inner is None else inner.children()))
    shapes = tuple(layer.weight.shape for layer in matrices if isinstance(layer, nn.Linear))
    return type(block), block.residual, heads, attention.attend.scale, kind_of(inner), shapes


def kind_of(layer: nn.Module | None) -> str | None:
    """What the kernel calls a feed-forward layer; None for one that it does not know."""
    if layer is None:
        return "none"
    if isinstance(layer, SwiGLU):
        return "swiglu"
    function = getattr(layer, "activation", None)
    return next((name for name in KINDS if function is not None and ACTIVATIONS.get(name) is function), None)


def checked(native: ctypes.CDLL) -> None:
    """Be sure that both sides mean the same memory."""
    structs = {"linear": LinearStruct, "norm": NormStruct, "layer": LayerStruct, "model": ModelStruct}
    for name, struct in structs.items():
        there = ctypes.c_size_t.in_dll(native, f"{name}_size").value
        assert there == ctypes.sizeof(struct), f"{name}: {there} bytes in C, {ctypes.sizeof(struct)} here"
