"""Activations as a case, or as the limit, of others."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from torch import Tensor

from octavo.export.rewrites.base import Allowed, Rewrite, allows, endings, layers
from octavo.export.weights import Shape, Weights

STEEP = 2.0**12
"""An activation drawn together so far is a step but for |x| < 0.001; a power of two, so that nothing is rounded."""


def _turns(before: str, after: str, *, gated: bool = False) -> Callable[[Shape, Allowed], Shape | None]:
    def shape(shape: Shape, allowed: Allowed) -> Shape | None:
        if shape.activation != before or shape.gated:
            return None
        fits = allows(allowed, "activation", after) and allows(allowed, "gated", gated)
        return replace(shape, activation=after, gated=gated) if fits else None

    return shape


XIELU = Rewrite(
    name="ReLU² as xIELU",
    mends=frozenset({"activation"}),
    shape=_turns("relu2", "xielu"),
    tensors=lambda weights, after: dict(weights.tensors),
    says=lambda before, after: "ReLU² is xIELU with β = 0, αₚ = 1 and αₙ = 0",
)


def _scaled(tensors: dict[str, Tensor], shape: Shape, part: str, factor: float, *, bias: bool = True) -> None:
    for name in layers(shape, f"feed_forward.{part}"):
        for end in endings(tensors, name):
            if bias or end.endswith(".weight"):
                tensors[end] = tensors[end] * factor


def _steep(weights: Weights, after: Shape) -> dict[str, Tensor]:
    tensors = dict(weights.tensors)
    _scaled(tensors, after, "into", STEEP)
    _scaled(tensors, after, "out", 1 / STEEP, bias=False)
    return tensors


def _any_gelu(shape: Shape, allowed: Allowed) -> Shape | None:
    return _turns("relu", "gelu_tanh")(shape, allowed) or _turns("relu", "gelu_table")(shape, allowed)


GELU = Rewrite(
    name="ReLU as a steep GELU",
    mends=frozenset({"activation"}),
    shape=_any_gelu,
    tensors=_steep,
    says=lambda before, after: f"ReLU is GELU({STEEP:g}·x)/{STEEP:g}, {0.17 / STEEP:.0e} off at most",
    error=0.17 / STEEP,
)


def _as_gate(weights: Weights, after: Shape) -> dict[str, Tensor]:
    tensors = dict(weights.tensors)
    for name in layers(after, "feed_forward"):
        for end in list(endings(tensors, f"{name}.into")):
            tensors[end.replace(".into.", ".gate.")] = tensors[end] * STEEP
            tensors[end] = tensors[end] / STEEP
    return tensors


GATE = Rewrite(
    name="ReLU² as a steep gate",
    mends=frozenset({"activation", "gated"}),
    shape=_turns("relu2", "silu", gated=True),
    tensors=_as_gate,
    says=lambda before, after: (
        f"ReLU² is x/{STEEP:g}·SiLU({STEEP:g}·x), {0.5 / STEEP**2:.0e} off at most, for half as many weights more"
    ),
    error=0.5 / STEEP**2,
)

TANH = Rewrite(
    name="GELU by its tanh form",
    mends=frozenset({"activation"}),
    shape=_turns("gelu", "gelu_tanh"),
    tensors=lambda weights, after: dict(weights.tensors),
    says=lambda before, after: "GELU is computed by its tanh form, 5e-4 off at most",
    error=4.8e-4,
)


def _from_table(shape: Shape, allowed: Allowed) -> Shape | None:
    return _turns("gelu", "gelu_table")(shape, allowed) or _turns("gelu_tanh", "gelu_table")(shape, allowed)


# No architecture of llama.cpp has another GELU: its library asks for no exact one.
HALF = Rewrite(
    name="GELU from a table",
    mends=frozenset({"activation"}),
    shape=_from_table,
    tensors=lambda weights, after: dict(weights.tensors),
    says=lambda before, after: (
        "GELU comes from a table of 16-bit numbers, by its tanh form, 2.5e-3 off at most below 8 and 4e-3 beyond"
    ),
    error=4e-3,
)
