"""A network of settings and arrays is the one that torch's modules give."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from octavo.config import load_recipe
from octavo.generation.from_arrays import PARTS, SETTINGS, NotKnown, network_from
from octavo.generation.native import network_of
from octavo.generation.network import Network
from octavo.model.base import LanguageModel, build_model
from octavo.model.config import GPTConfig
from octavo.model.gpt import GPT
from octavo.training.checkpoint import model_tensors
from unit.generation.test_native import SHAPES, SMALL

V = 65


def made(*options: str) -> tuple[GPT, dict[str, Any], dict[str, np.ndarray]]:
    config = load_recipe("shakespeare-char", [*SMALL, *options]).model
    model = build_model(config, vocab_size=V, seed=3).eval()
    assert isinstance(model, GPT)
    return model, config.model_dump(mode="json"), arrays(model)


def arrays(model: LanguageModel) -> dict[str, np.ndarray]:
    return {name: tensor.numpy() for name, tensor in model_tensors(model).items()}


def same(one: Any, other: Any) -> bool:
    if isinstance(one, np.ndarray):
        return one.dtype == other.dtype and np.array_equal(one, other)
    if isinstance(one, list):
        return len(one) == len(other) and all(map(same, one, other))
    if is_dataclass(one):
        names = [each.name for each in fields(one) if each.name != "owner"]
        return all(same(getattr(one, name), getattr(other, name)) for name in names)
    return one == other


@pytest.mark.parametrize("shape", SHAPES)
def test_every_shape_is_as_modules_give_it(shape: str) -> None:
    model, settings, weights = made(*SHAPES[shape])
    found = network_from(settings, weights, vocab_size=V)
    assert isinstance(found, Network) and same(found, network_of(model))


def test_every_setting_of_a_gpt_is_one_that_is_known_or_refused() -> None:
    """A new one has to be looked at here."""
    assert set(GPTConfig.model_fields) == SETTINGS
    _, settings, _ = made()
    for name in PARTS:
        assert "kind" in settings[name]


REFUSED: dict[str, Callable[[dict[str, Any], dict[str, np.ndarray]], object]] = {
    "another kind": lambda s, w: s.update(kind="encoder-decoder"),
    "a setting more": lambda s, w: s.update(gate=True),
    "a setting less": lambda s, w: s.pop("tied"),
    "counts": lambda s, w: s.update(counts={"kind": "mixing", "share": 0.04}),
    "positions on a grid": lambda s, w: s.update(positions={"kind": "grid", "axes": [8]}),
    "an option more": lambda s, w: s["norm"].update(shift=1),
    "a weight less": lambda s, w: w.pop("embedding.weight"),
    "a weight more": lambda s, w: w.update(more=np.zeros(1, np.float32)),
    "another shape": lambda s, w: w.update({"embedding.weight": np.zeros((V, 3), np.float32)}),
    "other numbers": lambda s, w: w.update({"embedding.weight": w["embedding.weight"].astype(np.float16)}),
    "no number": lambda s, w: w.update({"embedding.weight": w["embedding.weight"] * np.float32("nan")}),
    "a bias less": lambda s, w: s.update(qkv_bias=True),
    "layers less": lambda s, w: s.update(layers=1),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_is_not_known_is_left_to_torch(what: str) -> None:
    _, settings, weights = made()
    network_from(settings, weights, vocab_size=V)
    REFUSED[what](settings, weights)
    with pytest.raises((NotKnown, KeyError)):
        network_from(settings, weights, vocab_size=V)


plain = st.none() | st.booleans() | st.integers(-3, 70) | st.floats() | st.text(max_size=6)
MADE = made()


@given(st.sampled_from(sorted(SETTINGS - {"dropout", "initialization"})), plain)
def test_any_other_value_is_refused_or_changes_no_shape(name: str, value: Any) -> None:
    """So that the kernel reads no further than its arrays reach."""
    _, settings, weights = MADE
    try:
        found = network_from(settings | {name: value}, weights, vocab_size=V)
    except (NotKnown, LookupError, TypeError, ValueError, ArithmeticError, AttributeError):
        return
    assert found.embedding.shape == (V, found.width) and found.head.weight.shape == (V, found.width)
    rows = (found.heads + 2 * found.kv_heads) * found.head_width
    assert all(layer.qkv.weight.shape == (rows, found.width) for layer in found.layers)
    assert found.positions is None or found.positions.shape == (found.context, found.width)
