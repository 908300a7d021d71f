"""A model of another size and the same kind: the settings that give it, counted before anything is trained."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from pydantic import ValidationError

from octavo.model.base import ModelConfig
from octavo.model.config import GPTConfig

# Report E: 14 parameters a token trained well (with dropout), 130 over-fitted, 18 cured it.
TOO_MANY_PARAMETERS_PER_TOKEN = 20
NARROWEST_HEAD = 16


@dataclass(frozen=True)
class Shape:
    """A model that was found, as what to write behind a command."""

    settings: tuple[str, ...]
    parameters: int


def smaller(config: ModelConfig, *, vocab_size: int, limit: int) -> Shape | None:
    """The largest model of this kind with at most `limit` parameters; None if even the narrowest has more, and for
    kinds that have no width.

    Report E's way: width goes down much and depth a little (8 blocks of 384 became 6 of 164).
    """
    if type(config) is not GPTConfig:
        return None
    for scale in np.arange(0.98, 0.02, -0.02):
        changes = _scaled(config, float(scale))
        if (shape := _shape(config, changes, vocab_size)) is not None and shape.parameters <= limit:
            return shape
    return None


def larger(config: ModelConfig, *, vocab_size: int) -> Shape | None:
    """A model of this kind with some twice as many parameters."""
    return _shape(config, _scaled(config, 1.4), vocab_size) if type(config) is GPTConfig else None


def _scaled(config: GPTConfig, scale: float) -> dict[str, Any]:
    """What changes when the width is multiplied by `scale` and the depth by its root."""
    heads = config.heads
    if config.head_width is None and config.kv_heads is None:
        while heads > 1 and scale * config.width / heads < NARROWEST_HEAD:
            heads -= 1
    unit = 2 * heads  # so that every head has an even width, as rotary positions need
    changes: dict[str, Any] = {
        "layers": max(1, round(config.layers * scale**0.5)),
        "width": max(unit, round(scale * config.width / unit) * unit),
        "heads": heads,
    }
    inside = getattr(config.feed_forward, "width", None)
    if inside is not None:
        changes["feed_forward"] = {**config.feed_forward.model_dump(), "width": max(1, round(scale * inside))}
    return changes


def _shape(config: GPTConfig, changes: dict[str, Any], vocab_size: int) -> Shape | None:
    try:
        model = GPTConfig.model_validate(config.model_dump(mode="json") | changes)
    except ValidationError:  # what the model's other options do not allow
        return None
    inside = changes.pop("feed_forward", None)
    if inside is not None:
        changes["feed_forward.width"] = inside["width"]
    was = {**config.model_dump(mode="json"), "feed_forward.width": None}
    settings = tuple(f"model.{key}={value}" for key, value in changes.items() if value != was[key])
    return Shape(settings, model.parameters(vocab_size=vocab_size))
