"""Widths filled up with zeros, and what the channels that come with it are good for.

C width, H heads, D head width. A layer norm does not see the mean of its input, so all that is added to the residual
stream can have the mean 0; then zeros behind it change its variance by C/C' alone, which the norm's scale and ε undo.
"""

from __future__ import annotations

from dataclasses import replace

from torch import Tensor
from torch.nn import functional as F

from octavo.export.rewrites.base import Allowed, Rewrite, allows, endings, layers, norms
from octavo.export.weights import Shape, Weights


def _wider(shape: Shape, allowed: Allowed) -> Shape | None:
    needs_room = shape.head_bias and not shape.spare and not allows(allowed, "head_bias", True)
    must_fill = not allows(allowed, "fills_width", False)
    if not needs_room and (shape.fills_width or not must_fill):
        return None
    plain = shape.norm_place == "pre" and not shape.embedding_norm and shape.residual and not shape.ngrams
    plain = plain and (shape.final_norm or shape.norm != "layer")  # a head without a norm sees the mean
    if not plain or shape.positions == "sinusoidal" or not (shape.norm_scale or shape.norm == "none"):
        return None
    least, heads, head_width = shape.width + needs_room, shape.heads, shape.head_width
    if must_fill:
        head_width = max(shape.head_width, -(-least // heads))
    if head_width != shape.head_width and not shape.projects:
        return None
    width = heads * head_width if must_fill else least
    ratio, head_ratio = shape.width / width, shape.head_width / head_width
    return replace(
        shape,
        width=width,
        head_width=head_width,
        spare=shape.spare + width - shape.width,
        norm_eps=shape.norm_eps * ratio,
        qk_eps=shape.qk_eps * head_ratio,
        attention_scale=shape.attention_scale * (head_ratio if shape.qk_norm else 1.0),
        tied=shape.tied and (shape.norm != "layer" or width == shape.width),
    )


def _to(tensor: Tensor, *size: int) -> Tensor:
    """Zeros behind and below, up to this size."""
    missing = [wanted - own for wanted, own in zip(size, tensor.shape, strict=True)]
    return F.pad(tensor, [number for more in reversed(missing) for number in (0, more)])


def _padded(weights: Weights, after: Shape) -> dict[str, Tensor]:
    before, tensors = weights.shape, dict(weights.tensors)
    if before.tied and not after.tied:
        tensors["head.weight"] = tensors["embedding.weight"].clone()
    if before.norm == "layer" and after.width != before.width:
        _centre(tensors, before)
    for name in ("embedding.weight", "positions.weight", "head.weight"):
        if name in tensors:
            tensors[name] = _to(tensors[name], tensors[name].size(0), after.width)
    for name in norms(after):
        if f"{name}.weight" in tensors:
            tensors[f"{name}.weight"] = tensors[f"{name}.weight"] * (before.width / after.width) ** 0.5
        for end in endings(tensors, name):
            tensors[end] = _to(tensors[end], after.width)
    for part in ("gate", "into", "out"):
        for name in layers(after, f"feed_forward.{part}"):
            for end in endings(tensors, name):
                sizes = {"out": (after.width, after.features)}.get(part, (after.features, after.width))
                tensors[end] = _to(tensors[end], *sizes[: tensors[end].ndim])
    _pad_heads(tensors, before, after)
    return tensors


def _pad_heads(tensors: dict[str, Tensor], before: Shape, after: Shape) -> None:
    own, width = before.head_width, after.head_width
    for part, heads in (("q", after.heads), ("k", after.kv_heads), ("v", after.kv_heads)):
        for name in layers(after, f"attention.{part}"):
            for end in endings(tensors, name):
                rows = tensors[end].unflatten(0, (heads, own))
                more = (after.width,) if rows.ndim == 3 else ()
                tensors[end] = _to(rows, heads, width, *more).flatten(0, 1)
    for name in layers(after, "attention.out"):
        if f"{name}.weight" in tensors:
            columns = tensors[f"{name}.weight"].unflatten(1, (after.heads, own))
            tensors[f"{name}.weight"] = _to(columns, after.width, after.heads, width).flatten(1)
        if f"{name}.bias" in tensors:
            tensors[f"{name}.bias"] = _to(tensors[f"{name}.bias"], after.width)
    for part in ("q_norm", "k_norm"):
        for name in layers(after, f"attention.{part}"):
            for end in endings(tensors, name):
                tensors[end] = _to(tensors[end], width)


def _centre(tensors: dict[str, Tensor], shape: Shape) -> None:
    """Take the mean over the width from all that is added to the residual stream."""
    names = ["embedding.weight", "positions.weight"]
    for part in ("attention.out", "feed_forward.out"):
        names += [f"{name}.{end}" for name in layers(shape, part) for end in ("weight", "bias")]
    for name in names:
        if name in tensors:
            by_row = name.startswith(("embedding", "positions"))
            tensors[name] = tensors[name] - tensors[name].mean(dim=1 if by_row else 0, keepdim=True)


WIDER = Rewrite(
    name="widths filled up",
    mends=frozenset({"fills_width", "head_bias"}),
    shape=_wider,
    tensors=_padded,
    says=lambda before, after: (
        f"width {before.width} is filled up to {after.width} with zeros"
        + (
            f", and head width {before.head_width} to {after.head_width}"
            if before.head_width != after.head_width
            else ""
        )
    ),
)


def _no_bias(shape: Shape, allowed: Allowed) -> Shape | None:
    fits = shape.head_bias and shape.spare and shape.final_norm and shape.norm_bias
    return replace(shape, head_bias=False, tied=False, spare=shape.spare - 1) if fits else None


def _as_column(weights: Weights, after: Shape) -> dict[str, Tensor]:
    tensors, place = dict(weights.tensors), after.width - weights.shape.spare
    bias = tensors.pop("head.bias")
    head = tensors.get("head.weight", tensors["embedding.weight"]).clone()
    head[:, place] = bias
    shift = tensors["norm.bias"].clone()
    shift[place] = 1
    return tensors | {"head.weight": head, "norm.bias": shift}


HEAD_BIAS = Rewrite(
    name="head bias as a column",
    mends=frozenset({"head_bias"}),
    shape=_no_bias,
    tensors=_as_column,
    says=lambda before, after: "the head's bias is a column of its matrix that always reads 1",
)
