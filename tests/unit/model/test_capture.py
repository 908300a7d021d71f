"""Activations looked at from outside."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from octavo.errors import InputError
from octavo.model.base import build_model
from octavo.model.capture import capturable, capture
from octavo.model.config import GPTConfig
from octavo.model.gpt import GPT


@pytest.fixture
def model() -> GPT:
    shape = {"layers": 2, "width": 8, "heads": 2, "context": 6}
    return build_model(GPTConfig.model_validate(shape), vocab_size=7, seed=0, explicit_attention=True).eval()


TOKENS = torch.tensor([[1, 2, 3, 4]])


def hooks(model: GPT) -> int:
    return sum(len(module._forward_hooks) for module in model.modules())


def test_every_name_that_is_offered_is_filled(model: GPT) -> None:
    names = capturable(model)
    assert {"embedding", "positions", "norm", "lm_head", "blocks.0.attention.attend.weights"} <= set(names)
    with capture(model, names) as captured:
        model(TOKENS)
    assert set(captured) == set(names)
    assert all(isinstance(tensor, Tensor) and not tensor.requires_grad for tensor in captured.values())


def test_what_is_captured_is_what_flows(model: GPT) -> None:
    with capture(model, ["blocks.1", "norm", "lm_head"]) as captured:
        logits = model(TOKENS)
    assert torch.equal(captured["lm_head"], logits)
    assert torch.equal(model.norm(captured["blocks.1"]), captured["norm"])
    assert torch.equal(model.lm_head(captured["norm"]), logits)


def test_the_latest_pass_counts(model: GPT) -> None:
    with capture(model, ["lm_head"]) as captured:
        assert captured == {}
        model(TOKENS)
        latest = model(TOKENS + 1)
    assert torch.equal(captured["lm_head"], latest)


def test_hooks_are_removed(model: GPT) -> None:
    with capture(model, ["lm_head", "norm"]):
        assert hooks(model) == 2
    assert hooks(model) == 0


def test_hooks_are_removed_after_an_error(model: GPT) -> None:
    with pytest.raises(RuntimeError, match="on purpose"), capture(model, ["lm_head"]):
        raise RuntimeError("on purpose")
    assert hooks(model) == 0


def test_looking_changes_nothing(model: GPT) -> None:
    before = model(TOKENS)
    with capture(model, capturable(model)):
        assert torch.equal(model(TOKENS), before)


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("blocks.0.atention", "blocks.0.attention"),
        ("blocks.2.attention", "blocks.1.attention"),
        ("nrm", "norm"),
    ],
)
def test_an_unknown_name_has_a_nearest_one(model: GPT, name: str, near: str) -> None:
    with pytest.raises(InputError, match=f"no part '{name}'") as caught, capture(model, [name]):
        pass
    assert near.split(".")[-1] in str(caught.value)
    assert hooks(model) == 0


@pytest.mark.parametrize("name", ["", "blocks", "zzzzzz"])
def test_what_has_no_output_has_no_name(model: GPT, name: str) -> None:
    """`blocks` is a list of modules: it was once accepted, and its entry stayed empty."""
    with pytest.raises(InputError), capture(model, ["norm", name]):
        pass
    assert hooks(model) == 0
