"""Products of whole numbers: torch and the kernel give the same bits, on all processors, for rows of any kind."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import nn

from octavo.generation import kernel
from octavo.generation.full import FullDecoder
from octavo.generation.native import NativeDecoder
from octavo.generation.rounded import RoundedAttend, RoundedLinear, rounded, rows_in_bytes
from octavo.model.attention import ExplicitAttend
from octavo.model.base import build_model
from octavo.model.config import GPTConfig
from octavo.model.gpt import GPT


def head_alone(width: int, vocabulary: int, **options: Any) -> GPT:
    """A model whose logits are the head's product with the last token's vector, and nothing else."""
    options = {"layers": 1, "heads": 1, "width": width, "context": 9, "norm": "none", **options}
    config = GPTConfig.model_validate(
        {"positions": "none", "feed_forward": "relu", "final_norm": False} | options
    )
    model = build_model(config, vocab_size=vocabulary, seed=1).eval()
    random = torch.Generator().manual_seed(width)
    with torch.no_grad():
        for weight in model.parameters():
            weight.copy_(torch.randn(weight.shape, generator=random))
        for block in model.blocks:
            for layer in (block.attention.project, block.feed_forward.down_proj):
                for weight in layer.parameters():
                    weight.zero_()
    return model


def expected(model: GPT) -> torch.Tensor:
    """The logits (V, V) after each token."""
    with torch.no_grad():
        return RoundedLinear(model.lm_head)(model.embedding.weight)


def found(model: GPT, **options: Any) -> torch.Tensor:
    """The same by the kernel, all tokens beside each other."""
    decoder = NativeDecoder(model, slots=model.vocab_size, precision="int8", **options)
    return decoder.feed({token: [token] for token in range(model.vocab_size)})


@pytest.mark.skipif(kernel.compiled() is None, reason="there is no C compiler here")
@pytest.mark.parametrize("width", [1, 2, 3, 5, 31, 64, 67, 130])
def test_the_same_bits_on_every_processor(processor: str, width: int) -> None:
    """Widths with rests of words, and as many rows as no panel has."""
    for vocabulary, more in ((width + 2, {}), (64, {"head_bias": True}), (65, {"tied": True})):
        model = head_alone(width, vocabulary, **more)
        assert torch.equal(found(model), expected(model))


@pytest.mark.skipif(kernel.compiled() is None, reason="there is no C compiler here")
def test_rows_of_zeros_of_the_smallest_and_of_the_largest_numbers(processor: str) -> None:
    model = head_alone(21, 12)
    scales = torch.tensor([0.0, 1e-45, 1e-38, 1e-31, 1e-29, 1e-9, 1.0, 1e4, 1e9, 1e15, 1e17, 1.0])
    with torch.no_grad():
        model.embedding.weight.mul_(scales[:, None])
        model.lm_head.weight[3] = 0
    logits = found(model)
    assert torch.equal(logits, expected(model)) and logits.isfinite().all()
    assert not logits[:4].any() and not logits[:, 3].any() and logits[4:, :3].all()


@pytest.mark.skipif(kernel.compiled() is None, reason="there is no C compiler here")
@pytest.mark.parametrize("wrong", [math.nan, math.inf, -math.inf])
def test_a_row_that_is_not_finite_is_no_number_and_the_others_are_as_before(
    processor: str, wrong: float
) -> None:
    model = head_alone(21, 12)
    before = found(model)
    with torch.no_grad():
        model.embedding.weight[5, 20] = wrong
    logits, others = found(model), [token for token in range(12) if token != 5]
    assert logits[5].isnan().all() and torch.equal(logits[others], before[others])
    twin = FullDecoder(model, slots=1, precision="int8")
    assert twin.feed({0: [5]}).isnan().all()


def test_rows_are_rounded_to_the_nearest_of_255_numbers() -> None:
    rows = torch.tensor([[127.0, -127, 0.5, 1.5, -2.5], [0, 0, 0, 0, 0], [-2.54, 1, 0, 0, 0.01]])
    whole, scale = rows_in_bytes(rows)
    assert whole.tolist() == [[127, -127, 0, 2, -2], [0] * 5, [-127, 50, 0, 0, 0]]
    torch.testing.assert_close(scale[:, 0], torch.tensor([1, 0, 0.02]))


def test_attention_is_near_the_one_that_is_not_rounded() -> None:
    q, k, v = torch.randn(3, 2, 6, 40, 16, generator=torch.Generator().manual_seed(1))
    exact = ExplicitAttend(scale=0.25, dropout=0.0)(q, k[:, :3], v[:, :3])
    near = RoundedAttend(0.25)(q, k[:, :3], v[:, :3])
    off = (near - exact).square().mean().sqrt() / exact.square().mean().sqrt()
    assert 1e-4 < off < 1e-2


def test_the_copy_is_rounded_the_model_is_not() -> None:
    model = build_model(GPTConfig(tied=True), vocab_size=11, seed=0)
    before = {name: weight.clone() for name, weight in model.state_dict().items()}
    copy = rounded(model)
    assert all(torch.equal(weight, before[name]) for name, weight in model.state_dict().items())
    assert torch.equal(copy.embedding.weight, model.embedding.weight)
    assert not torch.equal(copy.lm_head.weight, model.lm_head.weight)
    layers = [layer for layer in copy.modules() if isinstance(layer, nn.Linear)]
    assert all(type(layer) is RoundedLinear for layer in layers) and copy.blocks[0].attention.qkv in layers
    assert all(layer.weight.abs().max() == 127 and not layer.weight.requires_grad for layer in layers)
