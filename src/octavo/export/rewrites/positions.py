"""Positions in the words of others: fixed waves as a table, none as zeros, pairs that stand still. D head width."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from octavo.export.rewrites.base import Allowed, Rewrite, allows, endings, layers
from octavo.export.weights import Shape, Weights
from octavo.model.positions import SinusoidalPositions

STILL = 1e30
"""So slow is a pair that no context sees it turn."""


def _table(shape: Shape, allowed: Allowed) -> Shape | None:
    if shape.positions not in ("sinusoidal", "none") or not allows(allowed, "positions", "table"):
        return None
    return replace(shape, positions="table")


def _as_table(weights: Weights, after: Shape) -> dict[str, Tensor]:
    like = weights.tensors["embedding.weight"]
    if weights.shape.positions == "none":
        table = like.new_zeros(after.context, after.width)
    else:
        waves = SinusoidalPositions(context=after.context, width=after.width, base=weights.shape.base)
        table = waves.table.to(like.dtype)
    return weights.tensors | {"positions.weight": table}


TABLE = Rewrite(
    name="positions as a table",
    mends=frozenset({"positions"}),
    shape=_table,
    tensors=_as_table,
    says=lambda before, after: (
        "the fixed waves stand in a table of positions"
        if before.positions == "sinusoidal"
        else "no positions are a table of zeros"
    ),
)


def _standing(shape: Shape, allowed: Allowed) -> Shape | None:
    fits = allows(allowed, "positions", "rotary") and allows(allowed, "own_speeds", True)
    if shape.positions != "none" or shape.head_width % 2 or not fits:
        return None
    pairs = shape.head_width // 2
    return replace(shape, positions="rotary", turned=shape.head_width, slowness=(STILL,) * pairs)


STANDING = Rewrite(
    name="rotary positions that stand still",
    mends=frozenset({"positions"}),
    shape=_standing,
    tensors=lambda weights, after: dict(weights.tensors),
    says=lambda before, after: "no positions are rotary ones so slow that nothing turns",
)


def _whole(shape: Shape, allowed: Allowed) -> Shape | None:
    if not shape.partly_turned or shape.head_width % 2 or not allows(allowed, "own_speeds", True):
        return None
    width, turned = shape.head_width, shape.turned
    own = shape.slowness or (1.0,) * (turned // 2)
    slowness = (*own, *[STILL] * ((width - turned) // 2))
    return replace(shape, turned=width, slowness=slowness, base=shape.base ** (width / turned))


def _reordered(weights: Weights, after: Shape) -> dict[str, Tensor]:
    """The partner of pair i stands at i + D/2, not at i + R/2."""
    tensors, turned, width = dict(weights.tensors), weights.shape.turned, after.head_width
    still = torch.arange(turned, width).tensor_split(2)
    first, second = torch.arange(turned).chunk(2)
    order = torch.cat((first, still[0], second, still[1]))
    for part, heads in (("q", after.heads), ("k", after.kv_heads), ("q_norm", 1), ("k_norm", 1)):
        for name in layers(after, f"attention.{part}"):
            for end in endings(tensors, name):
                tensors[end] = tensors[end].unflatten(0, (heads, width))[:, order].flatten(0, 1)
    return tensors


WHOLE = Rewrite(
    name="pairs that stand still",
    mends=frozenset({"partly_turned"}),
    shape=_whole,
    tensors=_reordered,
    says=lambda before, after: (
        f"{before.turned} of {before.head_width} dimensions turn; the others are pairs slowed by 1e30"
    ),
)
