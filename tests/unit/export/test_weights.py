"""From a recipe's model to its shape, and back to the same one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from octavo.export.to_config import config_of
from octavo.export.weights import Shape, shape_of, weights_of
from octavo.model.base import build_model
from octavo.model.config import GPTConfig


def shape(**options: Any) -> Shape:
    config = {"layers": 1, "width": 64, "heads": 4, "context": 16, **options}
    return shape_of(GPTConfig.model_validate(config), vocab_size=9)


@pytest.mark.parametrize(("scale", "wanted"), [("head", 16**-0.5), ("model", 64**-0.5), (0.3, 0.3)])
def test_scores_keep_their_scale(scale: str | float, wanted: float) -> None:
    found = shape(attention_scale=scale)
    assert found.attention_scale == pytest.approx(wanted) and found.usual_scale is (scale == "head")
    again = shape_of(config_of(found), vocab_size=9)
    assert again.attention_scale == pytest.approx(wanted)


@pytest.mark.parametrize("head", [2, 6, 10, 22, 46, 64, 98, 100])
def test_as_many_dimensions_turn_as_before(head: int) -> None:
    """Whatever share of a head they are, which may be no number that a float holds."""
    whole = shape(width=head, heads=1, positions="rotary")
    assert whole.turned == head and not whole.partly_turned
    for turned in range(2, head + 1, 2):
        config = config_of(replace(whole, turned=turned))
        assert shape_of(config, vocab_size=9).turned == turned


def test_a_tied_head_is_no_matrix_of_its_own() -> None:

    for tied in (True, False):
        config = GPTConfig.model_validate(
            {"layers": 1, "width": 16, "heads": 2, "context": 8, "tied": tied, "feed_forward": "swiglu"}
        )
        model = build_model(config, vocab_size=9, seed=1)
        found = weights_of(model, config)
        assert ("head.weight" in found.tensors) is not tied and found.shape.tied is tied
        own = dict(model.named_parameters())["blocks.0.feed_forward.gate_up_proj.weight"]
        gate, into = (found.tensors[f"blocks.0.feed_forward.{name}.weight"] for name in ("gate", "into"))
        assert (own[: len(gate)] == gate).all() and (own[len(gate) :] == into).all()
