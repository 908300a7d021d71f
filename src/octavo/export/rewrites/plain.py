"""What is not there, written out: scales of one, shifts of zero, projections that change nothing, heads repeated."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from octavo.export.model import norm_of
from octavo.export.rewrites.base import Allowed, Rewrite, allows, layers, norms
from octavo.export.weights import Shape, Weights


def _if(field: str, value: Any, instead: Any) -> Callable[[Shape, Allowed], Shape | None]:
    """The change of one field from a value to another."""
    return lambda shape, allowed: (
        replace(shape, **{field: instead}) if getattr(shape, field) == value else None
    )


def _like(weights: Weights, *size: int) -> Tensor:
    return weights.tensors["embedding.weight"].new_zeros(size)


def _norm_ones(weights: Weights, after: Shape) -> dict[str, Tensor]:
    ones = _like(weights, after.width) + 1
    return weights.tensors | {f"{name}.weight": ones.clone() for name in norms(after)}


NORM_SCALE = Rewrite(
    name="norm scale of ones",
    mends=frozenset({"norm_scale"}),
    shape=lambda shape, allowed: (
        replace(shape, norm_scale=True) if not shape.norm_scale and shape.norm != "none" else None
    ),
    tensors=_norm_ones,
    says=lambda before, after: "norms without a trained scale get one of ones",
)


def _norm_zeros(weights: Weights, after: Shape) -> dict[str, Tensor]:
    zeros = _like(weights, after.width)
    return weights.tensors | {f"{name}.bias": zeros.clone() for name in norms(after)}


NORM_SHIFT = Rewrite(
    name="norm shift of zeros",
    mends=frozenset({"norm_bias"}),
    shape=lambda shape, allowed: (
        replace(shape, norm_bias=True) if not shape.norm_bias and shape.norm == "layer" else None
    ),
    tensors=_norm_zeros,
    says=lambda before, after: "norms without a trained shift get one of zeros",
)


def _qk_ones(weights: Weights, after: Shape) -> dict[str, Tensor]:
    ones = _like(weights, after.head_width) + 1
    names = [f"{name}.weight" for one in "qk" for name in layers(after, f"attention.{one}_norm")]
    return weights.tensors | {name: ones.clone() for name in names}


QK_SCALE = Rewrite(
    name="scale of ones for queries and keys",
    mends=frozenset({"qk_scale"}),
    shape=lambda shape, allowed: (
        replace(shape, qk_scale=True) if shape.qk_norm and not shape.qk_scale else None
    ),
    tensors=_qk_ones,
    says=lambda before, after: "the norms of queries and keys get a scale of ones",
)


def _zero_bias(parts: tuple[str, ...]) -> Callable[[Weights, Shape], dict[str, Tensor]]:
    def tensors(weights: Weights, after: Shape) -> dict[str, Tensor]:
        names = [name for part in parts for name in layers(after, part)]
        own = {name: weights.tensors.get(f"{name}.weight") for name in names}
        return weights.tensors | {
            f"{name}.bias": _like(weights, matrix.size(0))
            for name, matrix in own.items()
            if matrix is not None
        }

    return tensors


QKV_BIAS = Rewrite(
    name="zero biases of queries, keys and values",
    mends=frozenset({"qkv_bias", "one_bias"}),
    shape=_if("qkv_bias", False, True),
    tensors=_zero_bias(("attention.q", "attention.k", "attention.v")),
    says=lambda before, after: "queries, keys and values get biases of zero",
)
OUTPUT_BIAS = Rewrite(
    name="zero bias of attention's output",
    mends=frozenset({"output_bias", "one_bias"}),
    shape=lambda shape, allowed: (
        replace(shape, output_bias=True) if shape.projects and not shape.output_bias else None
    ),
    tensors=_zero_bias(("attention.out",)),
    says=lambda before, after: "attention's output gets a bias of zero",
)
FEED_FORWARD_BIAS = Rewrite(
    name="zero biases of the feed-forward layer",
    mends=frozenset({"feed_forward_bias"}),
    shape=lambda shape, allowed: (
        replace(shape, feed_forward_bias=True)
        if shape.activation != "none" and not shape.feed_forward_bias
        else None
    ),
    tensors=_zero_bias(("feed_forward.gate", "feed_forward.into", "feed_forward.out")),
    says=lambda before, after: "the feed-forward layer gets biases of zero",
)


def _identity(weights: Weights, after: Shape) -> dict[str, Tensor]:
    one = torch.eye(after.width, dtype=weights.tensors["embedding.weight"].dtype)
    return weights.tensors | {f"{name}.weight": one.clone() for name in layers(after, "attention.out")}


PROJECTION = Rewrite(
    name="identity projection",
    mends=frozenset({"projects"}),
    shape=_if("projects", False, True),
    tensors=_identity,
    says=lambda before, after: "the missing projection of the heads is an identity matrix",
)


def _repeated(weights: Weights, after: Shape) -> dict[str, Tensor]:
    shape, tensors = weights.shape, dict(weights.tensors)
    for part in "kv":
        for name in layers(shape, f"attention.{part}"):
            for end in (f"{name}.weight", f"{name}.bias"):
                if end in tensors:
                    heads = tensors[end].unflatten(0, (shape.kv_heads, shape.head_width))
                    times = after.kv_heads // shape.kv_heads
                    tensors[end] = heads.repeat_interleave(times, dim=0).flatten(0, 1)
    return tensors


REPEATED = Rewrite(
    name="grouped heads repeated",
    mends=frozenset({"grouped"}),
    shape=lambda shape, allowed: replace(shape, kv_heads=shape.heads) if shape.grouped else None,
    tensors=_repeated,
    says=lambda before, after: (
        f"{before.kv_heads} key and value heads are written {after.heads // before.kv_heads} times"
    ),
)

UNTIED = Rewrite(
    name="head of its own",
    mends=frozenset({"tied"}),
    shape=_if("tied", True, False),
    tensors=lambda weights, after: {
        **weights.tensors,
        "head.weight": weights.tensors["embedding.weight"].clone(),
    },
    says=lambda before, after: "the head gets a copy of the embedding that it shares",
)


def _with_feed_forward(shape: Shape, allowed: Allowed) -> Shape | None:
    if shape.activation != "none" or shape.norm_place != "pre" or not shape.residual:
        return None
    wanted = sorted(allowed.get("activation", {"relu"}))
    gated = not allows(allowed, "gated", False)
    bias = not allows(allowed, "feed_forward_bias", False)
    return replace(shape, activation=wanted[0], features=1, gated=gated, feed_forward_bias=bias)


def _no_features(weights: Weights, after: Shape) -> dict[str, Tensor]:
    tensors = dict(weights.tensors)
    sizes = {"into": (1, after.width), "out": (after.width, 1)}
    if after.gated:
        sizes["gate"] = (1, after.width)
    for part, size in sizes.items():
        for name in layers(after, f"feed_forward.{part}"):
            tensors[f"{name}.weight"] = _like(weights, *size)
            if after.feed_forward_bias:
                tensors[f"{name}.bias"] = _like(weights, size[0])
    fresh = norm_of(after.as_dict()).state_dict()
    for name in layers(after, "feed_forward_norm"):
        tensors |= {f"{name}.{end}": tensor.to(_like(weights, 1)) for end, tensor in fresh.items()}
    return tensors


FEED_FORWARD = Rewrite(
    name="empty feed-forward layer",
    mends=frozenset({"activation"}),
    shape=_with_feed_forward,
    tensors=_no_features,
    says=lambda before, after: "the missing feed-forward layer is one of zeros",
)


def _more_features(weights: Weights, after: Shape) -> dict[str, Tensor]:
    tensors, more = dict(weights.tensors), after.features - weights.shape.features
    for part in ("gate", "into"):
        for name in layers(after, f"feed_forward.{part}"):
            for end in (f"{name}.weight", f"{name}.bias"):
                if end in tensors:
                    tensors[end] = torch.cat((tensors[end], _like(weights, more, *tensors[end].shape[1:])))
    for name in layers(after, "feed_forward.out"):
        matrix = tensors[f"{name}.weight"]
        tensors[f"{name}.weight"] = torch.cat((matrix, _like(weights, matrix.size(0), more)), dim=1)
    return tensors


FEATURES = Rewrite(
    name="more features",
    mends=frozenset({"four_wide"}),
    shape=lambda shape, allowed: (
        replace(shape, features=4 * shape.width) if 0 < shape.features < 4 * shape.width else None
    ),
    tensors=_more_features,
    says=lambda before, after: f"{before.features} features are filled up to {after.features} with zeros",
)
