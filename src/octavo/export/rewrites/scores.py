"""What attention's scores are multiplied by, and what the norms of queries and keys add. D head width."""

from __future__ import annotations

from dataclasses import replace

from torch import Tensor

from octavo.export.rewrites.base import Allowed, Rewrite, endings, layers
from octavo.export.weights import Shape, Weights


def _usual(shape: Shape, allowed: Allowed) -> Shape | None:
    if shape.usual_scale or (shape.qk_norm and not shape.qk_scale):
        return None
    return replace(shape, attention_scale=shape.head_width**-0.5)


def _into_queries(weights: Weights, after: Shape) -> dict[str, Tensor]:
    tensors, factor = dict(weights.tensors), weights.shape.attention_scale * after.head_width**0.5
    part = "attention.q_norm" if after.qk_norm else "attention.q"
    for name in layers(after, part):
        for end in endings(tensors, name):
            tensors[end] = tensors[end] * factor
    return tensors


SCALE = Rewrite(
    name="attention scale folded",
    mends=frozenset({"usual_scale"}),
    shape=_usual,
    tensors=_into_queries,
    says=lambda before, after: (
        f"the attention scale {before.attention_scale:g} goes into "
        + ("the scale of the queries' norm" if before.qk_norm else "the queries' matrix")
    ),
)


def _one_eps(shape: Shape, allowed: Allowed) -> Shape | None:
    return None if shape.one_eps else replace(shape, qk_eps=shape.norm_eps)


def _grown(weights: Weights, after: Shape) -> dict[str, Tensor]:
    tensors, factor = dict(weights.tensors), (after.qk_eps / weights.shape.qk_eps) ** 0.5
    for part in ("attention.q", "attention.k"):
        for name in layers(after, part):
            for end in endings(tensors, name):
                tensors[end] = tensors[end] * factor
    return tensors


EPS = Rewrite(
    name="one ε for two",
    mends=frozenset({"one_eps"}),
    shape=_one_eps,
    tensors=_grown,
    says=lambda before, after: (
        f"queries and keys grow by {(after.qk_eps / before.qk_eps) ** 0.5:.4g}, so that their norm's "
        f"ε {after.qk_eps:.3g} acts as {before.qk_eps:.3g} did"
    ),
)
