"""What a rewrite is: a change of a shape, and of the tensors with it, that leaves every logit as it was."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from octavo.export.weights import Shape, Weights

Allowed = Mapping[str, frozenset[Any]]
"""What an architecture can say, feature by feature; one that is missing is free."""


@dataclass(frozen=True)
class Rewrite:
    """One way to say the same otherwise.

    Attributes:
        name: short, for the certificate.
        mends: the features for whose sake it is tried.
        shape: the new shape, or None where it does not apply to this one or leads to nothing that is allowed.
        tensors: the new tensors from the weights and the new shape.
        says: the sentence for people, of the old shape and the new one.
        error: 0 where it is exact in real numbers. Else the largest difference that it makes at one feature.
    """

    name: str
    mends: frozenset[str]
    shape: Callable[[Shape, Allowed], Shape | None]
    tensors: Callable[[Weights, Shape], dict[str, Tensor]]
    says: Callable[[Shape, Shape], str]
    error: float = 0.0

    def __call__(self, weights: Weights, after: Shape) -> Weights:
        return Weights(after, self.tensors(weights, after))


def allows(allowed: Allowed, feature: str, value: Any) -> bool:
    """Whether an architecture can have a feature with this value."""
    return feature not in allowed or value in allowed[feature]


def layers(shape: Shape, part: str) -> Iterator[str]:
    """The names of one part in every block."""
    return (f"blocks.{layer}.{part}" for layer in range(shape.layers))


def norms(shape: Shape) -> Iterator[str]:
    """The names of all norms over the width."""
    if shape.embedding_norm:
        yield "embedding_norm"
    yield from layers(shape, "attention_norm")
    if shape.activation != "none":
        yield from layers(shape, "feed_forward_norm")
    if shape.final_norm:
        yield "norm"


def endings(tensors: Mapping[str, Tensor], name: str) -> Iterator[str]:
    """The weight and the bias of a part, where they are there."""
    return (f"{name}.{end}" for end in ("weight", "bias") if f"{name}.{end}" in tensors)
