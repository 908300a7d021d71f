"""A norm on the embeddings is a change of the table, where nothing else is added to them."""

from __future__ import annotations

from dataclasses import replace

from torch import Tensor

from octavo.export.model import norm_of
from octavo.export.rewrites.base import Allowed, Rewrite
from octavo.export.weights import Shape, Weights


def _without(shape: Shape, allowed: Allowed) -> Shape | None:
    if not shape.embedding_norm or shape.positions not in ("none", "rotary") or shape.ngrams:
        return None
    return replace(shape, embedding_norm=False, tied=False)


def _folded(weights: Weights, after: Shape) -> dict[str, Tensor]:
    tensors, table = dict(weights.tensors), weights.tensors["embedding.weight"]
    norm = norm_of(weights.shape.as_dict()).to(table.dtype)
    norm.load_state_dict(
        {end: tensors.pop(f"embedding_norm.{end}") for end in norm.state_dict()}, assign=True
    )
    if weights.shape.tied:
        tensors["head.weight"] = table.clone()
    return tensors | {"embedding.weight": norm(table).detach()}


EMBEDDING_NORM = Rewrite(
    name="embedding norm folded",
    mends=frozenset({"embedding_norm"}),
    shape=_without,
    tensors=_folded,
    says=lambda before, after: (
        "the norm on the embeddings is computed into the table"
        + (", and the head keeps the table as it was" if before.tied else "")
    ),
)
