"""Every rewrite leaves every logit as it was, in float64; and the yardstick itself is our GPT."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from octavo.config import check
from octavo.export.rewrites import rewrites
from octavo.export.rewrites.base import Rewrite
from octavo.export.weights import Weights, weights_of
from octavo.model.base import build_model
from octavo.model.gpt import GPT

CONTEXT, VOCABULARY = 12, 19

NORMS = ["layer", "plain", "rms", "none", {"kind": "layer", "bias": False, "eps": 1e-3}]
NORMS += [{"kind": "rms", "scale": False, "eps": 1e-3}]
FEED_FORWARDS = ["none", "gelu", "gelu_tanh", "swiglu", {"kind": "relu", "width": 11}]
FEED_FORWARDS += [{"kind": "relu2", "width": 7}, *({"kind": one, "bias": False} for one in ("relu2", "gelu"))]

shapes = st.fixed_dictionaries(
    {
        "layers": st.integers(1, 3),
        "width": st.sampled_from([6, 8, 13]),
        "heads": st.sampled_from([2, 4]),
        "kv_heads": st.sampled_from([None, 1, 2]),
        "head_width": st.sampled_from([2, 4, 6]),
        "positions": st.sampled_from(
            ["none", "learned", "sinusoidal", "rotary", {"kind": "rotary", "share": 0.5, "base": 300.0}]
        ),
        "norm": st.sampled_from(NORMS),
        "norm_place": st.sampled_from(["pre", "pre", "post"]),
        "embedding_norm": st.booleans(),
        "final_norm": st.booleans(),
        "residual": st.sampled_from([True, True, False]),
        "qkv_bias": st.booleans(),
        "output_bias": st.booleans(),
        "attention_scale": st.sampled_from(["head", "model", 0.3]),
        "qk_norm": st.booleans(),
        "qk_norm_scale": st.booleans(),
        "feed_forward": st.sampled_from(FEED_FORWARDS),
        "tied": st.booleans(),
        "head_bias": st.booleans(),
        "logit_softcap": st.sampled_from([None, 3.0]),
        "ngrams": st.sampled_from(["none", "none", {"kind": "hashed", "longest": 3, "buckets": 5}]),
    }
)


def our_gpt(model: dict[str, Any], seed: int = 0) -> tuple[GPT, Any]:
    """A GPT in float64 with random numbers everywhere, and its config."""
    config = check({"model": {**model, "context": CONTEXT, "initialization": "gpt2"}}).model
    gpt = build_model(config, vocab_size=VOCABULARY, seed=seed)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in gpt.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=generator), alpha=0.3)
    return gpt.double().eval(), config


def exact_angles(gpt: GPT, config: Any) -> None:
    """Rotary angles of a GPT in float64, which it has in float32."""
    if config.positions.kind == "rotary":
        turned = 2 * gpt.positions.cos.size(1)
        pairs = torch.arange(0, turned, 2, dtype=torch.float64) / turned
        angles = torch.arange(CONTEXT)[:, None] * config.positions.base**-pairs
        gpt.positions.cos, gpt.positions.sin = angles.cos(), angles.sin()


def tokens() -> Tensor:
    return torch.randint(VOCABULARY, (2, CONTEXT), generator=torch.Generator().manual_seed(5))


@torch.no_grad()
def logits(weights: Weights) -> Tensor:
    return weights.model()(tokens())[0]


def described(model: dict[str, Any], seed: int = 0) -> tuple[Weights, Tensor]:
    """The weights as plain data in float64, and our GPT's own logits."""
    gpt, config = our_gpt(model, seed)
    exact_angles(gpt, config)
    found = weights_of(gpt, config)
    weights = Weights(found.shape, {name: tensor.double() for name, tensor in exact(gpt, found).items()})
    with torch.no_grad():
        return weights, gpt(tokens())


def exact(gpt: nn.Module, weights: Weights) -> dict[str, Tensor]:
    """The tensors of the description in float64: float32 rounds them, so our GPT is rounded too."""
    with torch.no_grad():
        for parameter in gpt.parameters():
            parameter.copy_(parameter.float().double())
    return weights.tensors


def fits(model: dict[str, Any]) -> bool:
    """Whether the switches go together."""
    heads = model["kv_heads"] is None or model["heads"] % model["kv_heads"] == 0
    heads = heads and (model["qk_norm"] or not model["qk_norm_scale"])
    return heads and (model["norm"] != "none" or not model["embedding_norm"])


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(model=shapes.filter(fits))
def test_the_description_is_our_gpt(model: dict[str, Any]) -> None:
    weights, expected = described(model)
    if weights.shape.positions == "sinusoidal":
        (table,) = [each for each in rewrites() if each.name == "positions as a table"]
        weights = table(weights, table.shape(weights.shape, {}))
    assert (logits(weights) - expected).abs().max() <= 1e-9 * max(1.0, float(expected.abs().max()))


@torch.no_grad()
@settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck))
@given(model=shapes.filter(fits), cut=st.integers(1, CONTEXT - 1))
def test_with_a_past_it_says_the_same(model: dict[str, Any], cut: int) -> None:
    if model["positions"] == "sinusoidal":
        model = {**model, "positions": "learned"}
    weights, expected = described(model)
    own, past, found = weights.model(), (), []
    for piece in (tokens()[:, :cut], tokens()[:, cut:]):
        some, past = own(piece, past)
        found.append(some)
    assert (torch.cat(found, dim=1) - expected).abs().max() <= 1e-9 * max(1.0, float(expected.abs().max()))


def only(**features: Any) -> dict[str, frozenset[Any]]:
    """What an architecture allows, one value for each feature."""
    return {name: frozenset({value}) for name, value in features.items()}


RELU, RELU2 = {"kind": "relu", "width": 11}, {"kind": "relu2", "width": 7}
LAYER = {"norm": "layer", "norm_place": "pre", "residual": True, "final_norm": True, "ngrams": "none"}
PARTLY = {"kind": "rotary", "share": 0.5, "base": 300.0}
CASES: dict[str, tuple[dict[str, Any], dict[str, frozenset[Any]]]] = {
    "GELU from a table": ({"feed_forward": "gelu", **LAYER}, only(activation="gelu_table")),
    "GELU by its tanh form": ({"feed_forward": "gelu", **LAYER}, only(activation="gelu_tanh")),
    "ReLU as a steep GELU": ({"feed_forward": RELU, **LAYER}, only(activation="gelu_tanh")),
    "ReLU² as a steep gate": ({"feed_forward": RELU2, **LAYER}, only(activation="silu", gated=True)),
    "ReLU² as xIELU": ({"feed_forward": RELU2}, only(activation="xielu")),
    "attention scale folded": ({"attention_scale": 0.3}, {}),
    "embedding norm folded": (
        {"embedding_norm": True, "norm": "rms", "positions": PARTLY, "ngrams": "none"},
        {},
    ),
    "empty feed-forward layer": (
        {"feed_forward": "none", "norm_place": "pre", "residual": True},
        only(activation="silu", gated=True, feed_forward_bias=True),
    ),
    "grouped heads repeated": ({"heads": 4, "kv_heads": 2}, {}),
    "head bias as a column": (
        {"head_bias": True, "embedding_norm": False, "positions": "learned", **LAYER},
        only(fills_width=True, head_bias=False),
    ),
    "head of its own": ({"tied": True}, {}),
    "identity projection": ({"output_projection": False, "width": 8, "head_width": 4, "heads": 2}, {}),
    "more features": ({"feed_forward": RELU}, {}),
    "norm scale of ones": ({"norm": "plain"}, {}),
    "norm shift of zeros": ({"norm": {"kind": "layer", "bias": False}}, {}),
    "one ε for two": ({"qk_norm": True}, {}),
    "pairs that stand still": ({"positions": PARTLY, "head_width": 6}, {}),
    "positions as a table": ({"positions": "sinusoidal"}, {}),
    "rotary positions that stand still": ({"positions": "none"}, {}),
    "scale of ones for queries and keys": ({"qk_norm": True, "qk_norm_scale": False}, {}),
    "widths filled up": (
        {"norm_place": "pre", "residual": True, "embedding_norm": False, "ngrams": "none"},
        only(fills_width=True, head_bias=False),
    ),
    "zero bias of attention's output": ({"output_bias": False}, {}),
    "zero biases of queries, keys and values": ({"qkv_bias": False}, {}),
    "zero biases of the feed-forward layer": ({"feed_forward": {"kind": "relu2", "bias": False}}, {}),
}


def test_every_rewrite_has_its_proof() -> None:
    assert set(CASES) == {rewrite.name for rewrite in rewrites()}


@pytest.mark.parametrize("rewrite", rewrites(), ids=lambda rewrite: rewrite.name)
def test_it_leaves_every_logit(rewrite: Rewrite) -> None:
    pinned, wanted = CASES[rewrite.name]
    tried = 0

    @settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
    @given(model=shapes, seed=st.integers(0, 3))
    def proof(model: dict[str, Any], seed: int) -> None:
        nonlocal tried
        assume(fits(model | pinned))
        weights, expected = described(model | pinned, seed)
        weights = prepared(rewrite, weights, wanted)
        after = rewrite.shape(weights.shape, wanted)
        if after is None:
            return
        tried += 1
        assert after != weights.shape
        rewritten = rewrite(weights, after)
        size = max(1.0, float(expected.abs().max()))
        assert (logits(rewritten) - expected).abs().max() <= size * (400 * rewrite.error or 1e-9)

    proof()
    assert tried >= 5, f"{rewrite.name} was tried {tried} times"


def prepared(rewrite: Rewrite, weights: Weights, wanted: dict[str, frozenset[Any]]) -> Weights:
    """Weights on which other rewrites have done what this one builds on."""
    before = {
        "head bias as a column": ("norm shift of zeros", "norm scale of ones", "widths filled up"),
        "widths filled up": ("norm scale of ones", "embedding norm folded"),
        "attention scale folded": ("scale of ones for queries and keys",),
    }.get(rewrite.name, ())
    if weights.shape.positions == "sinusoidal" and rewrite.name != "positions as a table":
        before = ("positions as a table", *before)
    known = {each.name: each for each in rewrites()}
    for name in before:
        after = known[name].shape(weights.shape, {} if name == "positions as a table" else wanted)
        weights = weights if after is None else known[name](weights, after)
    return weights
