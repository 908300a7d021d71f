"""Counting or learning: what the report shows of a model that mixes n-grams with its network."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

FULL = 2.0
"""A lead of so many nats has the full colour."""


class Side(NamedTuple):
    """A row of the table."""

    name: str
    trust: float
    loss: float
    best: float
    network: bool


class Piece(NamedTuple):
    """A token of the sample: who gave it more probability, and how strong its colour is, in percent."""

    text: str
    side: str
    strength: int
    lead: str


def of_counted(evaluation: Mapping[str, Any]) -> dict[str, Any]:
    """The table and the coloured sample; nothing without counts."""
    found = evaluation.get("counted") or {"sides": (), "sample": ()}
    return {
        "counted": evaluation.get("counted"),
        "sides": [side(one) for one in found["sides"]],
        "pieces": [piece(text, lead) for text, lead in found["sample"]],
    }


def side(one: Mapping[str, Any]) -> Side:
    """A row: the network, an order, or what the text has said so far."""
    order = one["order"]
    name = "the text so far" if order is None else f"{order}-grams" if order else "the network"
    return Side(name, one["trust"], one["loss"], one["best"], network=order == 0)


def piece(text: str, lead: float) -> Piece:
    """A token, and by how much counting (above zero) or the network was ahead."""
    who = "counting" if lead > 0 else "network"
    strength = round(100 * min(1.0, abs(lead) / FULL))
    return Piece(text, who, strength, f"{who} gives it {times(abs(lead))} as much")


def times(nats: float) -> str:
    """A ratio of probabilities, from its logarithm."""
    return "over 1,000 times" if nats > 6.9 else f"{2.718281828459045**nats:.3g} times"
