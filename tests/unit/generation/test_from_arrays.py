"""A network of settings and arrays is the one that torch's modules give."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from octavo.config import load_recipe
from octavo.generation.from_arrays import PARTS, SETTINGS, NotKnown, network_from
from octavo.generation.kernel import KernelDecoder, compiled
from octavo.generation.native import NativeDecoder, network_of
from octavo.generation.network import Network
from octavo.generation.sampling import Precision
from octavo.model.base import LanguageModel, build_model
from octavo.model.config import GPTConfig
from octavo.model.gpt import GPT
from octavo.ngram.codes import CODES
from octavo.training.checkpoint import model_tensors
from unit.generation.test_native import SHAPES, SMALL

V = 65


def made(*options: str) -> tuple[GPT, dict[str, Any], dict[str, np.ndarray]]:
    config = load_recipe("shakespeare-char", [*SMALL, *options]).model
    model = build_model(config, vocab_size=V, seed=3).eval()
    assert isinstance(model, GPT)
    model.take_text(text(), np.arange(900) > 700, spelt=lambda: [chr(33 + token) for token in range(V)])
    model.settle()
    if (recent := getattr(model.counts, "recent", None)) is not None:
        recent.start(0.3)
    return model, config.model_dump(mode="json"), arrays(model)


def text(length: int = 900) -> np.ndarray:
    return (np.arange(length) * np.arange(length) % 41 % V).astype(np.int32)


def arrays(model: LanguageModel) -> dict[str, np.ndarray]:
    return {name: tensor.numpy() for name, tensor in model_tensors(model).items()}


def same(one: Any, other: Any) -> bool:
    if isinstance(one, np.ndarray):
        return one.dtype == other.dtype and np.array_equal(one, other)
    if isinstance(one, list):
        return len(one) == len(other) and all(map(same, one, other))
    if is_dataclass(one):
        names = [each.name for each in fields(one) if each.name not in ("owner", "counts")]
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
    "counts of no text": lambda s, w: s.update(counts=COUNTS["mixing"]),
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


COUNTS: dict[str, dict[str, Any]] = {
    "mixing": {"kind": "mixing", "share": 0.04, "recent": 20, "most": None},
    "kneser-ney": {"kind": "kneser-ney", "orders": 4, "hidden": 5, "share": 0.04, "recent": 20},
}


@cache
def counting(kind: str, **options: Any) -> tuple[GPT, dict[str, Any], dict[str, np.ndarray]]:
    return made(f"model.counts={json.dumps(COUNTS[kind] | options)}")


@pytest.mark.skipif(compiled() is None, reason="there is no kernel here")
@pytest.mark.parametrize("precision", ["float32", "int8"])
@pytest.mark.parametrize("recent", [0, 20])
@pytest.mark.parametrize("kind", COUNTS)
def test_counts_are_mixed_in_as_modules_do(kind: str, recent: int, precision: Precision) -> None:
    """Read at once, ahead with what is taken back, one by one, and beyond the context."""
    model, settings, weights = counting(kind, recent=recent)
    network, ids = network_from(settings, weights, vocab_size=V), text(60).tolist()
    found: list[list[np.ndarray]] = []
    for decoder in (
        KernelDecoder(network, slots=2, precision=precision),
        NativeDecoder(model, slots=2, precision=precision),
    ):
        said = [decoder.feed({0: ids[:5], 1: ids[3:4]})]
        said.append(decoder.feed({0: ids[5:8], 1: ids[4:7]}, ahead=[1]))
        decoder.take_back(1, 2)
        said += [decoder.feed_each(1, ids[9:12]), *(decoder.feed({0: [token]}) for token in ids[8:])]
        found.append([np.asarray(each) for each in said])
    assert all(np.array_equal(*each) for each in zip(*found, strict=True))
    tables, own = model.counts.ngrams(), network.counts
    assert tables is not None and own is not None and own.ngrams() is tables


ASTRAY: dict[str, tuple[str, Callable[[np.ndarray], np.ndarray]]] = {
    "ids beyond the vocabulary": (
        "tokens",
        lambda each: np.where(each == each.max(), V, each).astype(np.int32),
    ),
    "ids below 0": ("tokens", lambda each: each.astype(np.int32) - each.max()),
    "a text too short": ("tokens", lambda each: each[:5]),
    "a text of rows": ("tokens", lambda each: each.reshape(2, -1)),
    "a text of fractions": ("tokens", lambda each: each.astype(np.float32)),
    "a code twice": ("units", lambda each: np.zeros_like(each)),
    "a code that begins another": ("lengths", lambda each: np.where(np.arange(V) < 2, 2, 1).astype(np.uint8)),
    "codes of three units": ("lengths", lambda each: each + np.uint8(2)),
    "codes of more tokens": ("units", lambda each: np.concatenate((each, each))),
    "kinds of fewer units": ("kinds", lambda each: each[:9]),
    "folds of 16 bits": ("folds", lambda each: each.astype(np.uint16)),
    "weights that are none": ("weights", lambda each: each * np.float32("nan")),
    "fewer weights": ("weights", lambda each: each[:7]),
    "weights of another mixer": ("mixer_version", lambda each: np.array(each - 1, np.uint8)),
    "a gate of another size": ("recent.into", lambda each: each[:3]),
    "a gate that is none": ("recent.onto", lambda each: each * np.float32("inf")),
    "another gate": ("out.weight", lambda each: each[:2]),
}
TAKEN = ("a gate that is none",)
"""What modules go on with: it leads no kernel astray."""


@pytest.mark.parametrize(
    ("kind", "what"),
    [
        (kind, what)
        for kind, others in (("mixing", {"out.weight"}), ("kneser-ney", {*CODES, "weights", "mixer_version"}))
        for what, (name, _) in ASTRAY.items()
        if name not in others
    ],
)
def test_what_would_lead_a_kernel_astray_is_refused_as_by_modules(kind: str, what: str) -> None:
    model, settings, weights = counting(kind)
    name, change = ASTRAY[what]
    with np.errstate(invalid="ignore"):
        wrong = weights | {f"counts.{name}": change(weights[f"counts.{name}"])}
    if what == "a code that begins another":
        units = wrong["counts.units"] = weights["counts.units"].copy()
        units[2, 0] = units[0, 0]
    network_from(settings, weights, vocab_size=V)
    with pytest.raises((NotKnown, ValueError)):
        network_from(settings, wrong, vocab_size=V)
    if what not in TAKEN:
        with pytest.raises(RuntimeError):
            model.load_state_dict({each: torch.from_numpy(array) for each, array in wrong.items()})


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        *((kind, {"recent": value}) for kind in COUNTS for value in (-1, True, 20.0, 10**9, None)),
        *(("kneser-ney", {"orders": value}) for value in (4.0, 1, 21)),
        *(("kneser-ney", {"hidden": value}) for value in (5.0, 0, 257)),
    ],
)
def test_sizes_of_counts_are_whole_and_within_bounds(kind: str, options: dict[str, Any]) -> None:
    _, settings, weights = counting(kind)
    with pytest.raises(NotKnown):
        network_from(settings | {"counts": COUNTS[kind] | options}, weights, vocab_size=V)


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
