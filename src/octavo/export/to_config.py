"""From plain data back to Octavo's GPT: the way that `octavo.export.weights` goes, the other way round."""

from __future__ import annotations

import math
from typing import Any

import torch
from pydantic import ValidationError
from torch import Tensor

from octavo.errors import InputError
from octavo.export.weights import OURS, Shape, Weights, weights_of
from octavo.model.config import GPTConfig

FEED_FORWARD = {
    "relu": "relu",
    "gelu": "gelu",
    "gelu_tanh": "gelu_tanh",
    "relu2": "relu2",
    "xielu": "relu2",
} | {"gelu_table": "gelu_tanh"}


def config_of(shape: Shape) -> GPTConfig:
    """The options of the GPT of a shape. Raises InputError for a shape that no options say."""
    tree: dict[str, Any] = {
        "layers": shape.layers,
        "width": shape.width,
        "heads": shape.heads,
        "kv_heads": shape.kv_heads if shape.grouped else None,
        "head_width": shape.head_width,
        "context": shape.context,
        "positions": _positions(shape),
        "ngrams": {"kind": "hashed", "longest": shape.longest, "buckets": shape.buckets}
        if shape.ngrams
        else {"kind": "none"},
        "norm": _norm(shape),
        "norm_place": shape.norm_place,
        "embedding_norm": shape.embedding_norm,
        "final_norm": shape.final_norm,
        "residual": shape.residual,
        "qkv_bias": shape.qkv_bias,
        "output_projection": shape.projects,
        "output_bias": shape.output_bias,
        "attention_scale": "head" if shape.usual_scale else shape.attention_scale,
        "qk_norm": shape.qk_norm,
        "qk_norm_eps": shape.qk_eps,
        "qk_norm_scale": shape.qk_norm and shape.qk_scale,
        "feed_forward": _feed_forward(shape),
        "tied": shape.tied,
        "head_bias": shape.head_bias,
        "logit_softcap": shape.softcap,
    }
    try:
        return GPTConfig.model_validate(tree)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        place = ".".join(map(str, first["loc"]))
        raise InputError(
            f"Octavo's GPT has no such model: {place}{': ' if place else ''}{first['msg']}."
        ) from None


def _positions(shape: Shape) -> dict[str, Any]:
    if shape.positions != "rotary":
        return {"kind": {"table": "learned"}.get(shape.positions, shape.positions)} | (
            {"base": shape.base} if shape.positions == "sinusoidal" else {}
        )
    if any(slowness != 1 for slowness in shape.slowness):
        raise InputError("Its rotary positions turn at speeds of their own, which Octavo's GPT cannot say.")
    share = min(1.0, shape.turned / shape.head_width)
    if int(share * shape.head_width) // 2 * 2 != shape.turned:
        share = math.nextafter(share, 2.0)  # the quotient was rounded down
    return {"kind": "rotary", "base": shape.base, "share": min(1.0, share)}


def _norm(shape: Shape) -> dict[str, Any]:
    if shape.norm == "none":
        return {"kind": "none"}
    if shape.norm == "rms" and not shape.norm_bias:
        return {"kind": "rms", "eps": shape.norm_eps, "scale": shape.norm_scale}
    if shape.norm == "layer" and shape.norm_scale:
        return {"kind": "layer", "eps": shape.norm_eps, "bias": shape.norm_bias}
    if shape.norm == "layer" and not shape.norm_bias:
        return {"kind": "plain", "eps": shape.norm_eps}
    raise InputError("Its norms train a shift without a scale, which Octavo's GPT cannot say.")


def _feed_forward(shape: Shape) -> dict[str, Any]:
    if shape.activation == "none":
        return {"kind": "none"}
    kind = "swiglu" if (shape.activation, shape.gated) == ("silu", True) else None
    kind = kind or (None if shape.gated else FEED_FORWARD.get(shape.activation))
    if kind is None:
        gated = "a gate and " if shape.gated else ""
        raise InputError(
            f"Its feed-forward layer has {gated}the activation '{shape.activation}', which Octavo's GPT cannot say."
        )
    return {"kind": kind, "width": shape.features, "bias": shape.feed_forward_bias}


def tensors_of(weights: Weights, config: GPTConfig) -> dict[str, Tensor]:
    """The tensors of the GPT, as a checkpoint holds them: float32, a tied head once.

    Raises InputError where one is missing, too many or of another size.
    """
    layers = {name.split(".")[1] for name in weights.tensors if name.startswith("blocks.")}
    if len(layers) != weights.shape.layers:  # before as many are built
        raise InputError(
            f"The weights do not fit the settings: they have {len(layers):,} layers, not {weights.shape.layers:,}."
        )
    with torch.device("meta"):
        model = config.build(vocab_size=weights.shape.vocab_size)
        here = weights_of(model, config).tensors
    sizes = {name: tuple(tensor.shape) for name, tensor in here.items()}
    found = {name: tuple(tensor.shape) for name, tensor in weights.tensors.items()}
    if problems := _problems(sizes, found):
        raise InputError(f"The weights do not fit the settings: {problems[0]}.")
    tensors: dict[str, Tensor] = {}
    for name, _ in model.named_parameters():
        parts = [weights.tensors[part] for part in _parts(name)]
        tensors[name] = (torch.cat(parts) if len(parts) > 1 else parts[0]).float().contiguous()
    return tensors


def _problems(wanted: dict[str, tuple[int, ...]], found: dict[str, tuple[int, ...]]) -> list[str]:
    missing = [f"'{name}' is missing" for name in wanted if name not in found]
    more = [f"'{name}' has no place" for name in found if name not in wanted]
    wrong = [
        f"'{name}' is {_size(found[name])} and should be {_size(size)}"
        for name, size in wanted.items()
        if name in found and found[name] != size
    ]
    return wrong + missing + more


def _size(size: tuple[int, ...]) -> str:
    return " × ".join(map(str, size)) or "a number"


def _parts(name: str) -> list[str]:
    """The names here of what stands in one of the GPT's tensors."""
    if ".attention.qkv." in name:
        return [name.replace("qkv", part) for part in "qkv"]
    if ".gate_up_proj." in name:
        return [name.replace("gate_up_proj", part) for part in ("gate", "into")]
    for own, here in OURS.items():
        name = name.replace(own, here)
    return [name]
