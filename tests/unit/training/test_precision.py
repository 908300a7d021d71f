"""The bfloat16 path of the CPU beside its float32 twin."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from octavo.training.precision import Bfloat16Products, autocast, fast_bfloat16, linear

EPSILON = 2.0**-8  # one rounding to bfloat16 is off by at most this share


@pytest.mark.parametrize("bias", [True, False])
def test_product_and_gradients_are_near_the_exact_ones(bias: bool) -> None:
    torch.manual_seed(0)
    x = torch.randn(3, 5, 64)
    weight, shift = torch.randn(32, 64), torch.randn(32) if bias else None
    results = []
    for product in (F.linear, linear):
        inputs = [t.clone().requires_grad_() if t is not None else None for t in (x, weight, shift)]
        y = product(*inputs)
        y.square().sum().backward()
        results.append([y.detach(), *(t.grad for t in inputs if t is not None)])
    for exact, rounded in zip(*results, strict=True):
        assert rounded.dtype == torch.float32
        # Three roundings meet in a sum of 64 terms of random sign.
        assert (exact - rounded).abs().max() <= 4 * EPSILON * exact.abs().max()
        assert not torch.equal(exact, rounded)


def test_only_linear_layers_are_replaced() -> None:
    layer, x = nn.Linear(16, 16), torch.randn(2, 16)
    with Bfloat16Products():
        y = layer(x)
        z = x @ x.T
    assert torch.equal(z, x @ x.T)
    assert torch.equal(y, linear(x, layer.weight, layer.bias))
    assert torch.equal(layer(x), F.linear(x, layer.weight, layer.bias))


def test_float32_changes_nothing() -> None:
    layer, x = nn.Linear(16, 16), torch.randn(2, 16)
    with autocast("float32", torch.device("cpu")):
        assert torch.equal(layer(x), F.linear(x, layer.weight, layer.bias))


def test_hardware_is_asked() -> None:
    assert fast_bfloat16(torch.device("cpu")) in (True, False)
    assert fast_bfloat16(torch.device("meta")) is False
