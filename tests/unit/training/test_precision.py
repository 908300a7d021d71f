"""The bfloat16 path of the CPU beside its float32 twin."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from octavo.config import load_recipe
from octavo.data.batch import Batch
from octavo.model import attention
from octavo.model.base import build_model
from octavo.training import device
from octavo.training.device import Bfloat16Products, autocast, fast_bfloat16, linear
from octavo.training.objective import NEXT_TOKEN

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


@pytest.mark.parametrize("fast", [True, False])
def test_without_such_arithmetic_products_are_those_of_rounded_numbers(
    fast: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each product of two is exact in float32; what is left is the order of the sum, and one rounding."""
    monkeypatch.setattr(device, "FAST_ON_CPU", fast)
    random = torch.Generator().manual_seed(2)
    a, b = (torch.randn(*shape, generator=random).bfloat16() for shape in ((7, 300), (300, 11)))
    exact = a.double() @ b.double()
    multiplied, product = [], torch.Tensor.__matmul__
    monkeypatch.setattr(
        torch.Tensor, "__matmul__", lambda x, y: (multiplied.append(x.dtype), product(x, y))[1]
    )
    found = device.times(a, b)
    assert multiplied == [torch.bfloat16 if fast else torch.float32]
    assert found.dtype == torch.bfloat16
    size = a.double().abs() @ b.double().abs()
    assert ((found.double() - exact).abs() <= EPSILON * exact.abs() + 1e-6 * size).all()


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


SHAPES = {
    "nanoGPT": [
        "model.norm=layer",
        "model.feed_forward={kind: gelu, bias: false}",
        "model.output_bias=false",
    ],
    "modern": [
        "model.positions=rotary",
        "model.qk_norm=true",
        "model.feed_forward={kind: relu2, bias: false}",
    ],
    "relu, dropout": ["model.feed_forward={kind: relu, bias: false}", "model.dropout=0.3"],
    "with biases": ["model.qkv_bias=true", "model.feed_forward=gelu"],
    "no projection": ["model.output_projection=false"],
}


@pytest.mark.parametrize("kernel", [True, False])
@pytest.mark.parametrize("shape", SHAPES)
def test_what_stays_short_between_two_products_changes_no_bit(
    shape: str, kernel: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not kernel:
        monkeypatch.setattr(attention, "fits", lambda *_: False)
    size = ["model.layers=2", "model.width=32", "model.heads=4", "model.context=24"]
    recipe = load_recipe("shakespeare-char", [*size, *SHAPES[shape]])
    tokens = torch.randint(65, (3, 24), generator=torch.Generator().manual_seed(0))
    results = []
    for short in (True, False):
        model = build_model(recipe.model, vocab_size=65, seed=1).train()
        with torch.no_grad():
            for weight in model.parameters():  # outputs that start at zero would hide mistakes
                weight.add_(torch.sin(torch.arange(weight.numel()).float()).view_as(weight), alpha=0.05)
        marked = [weight for weight in model.parameters() if getattr(weight, "short_output", False)]
        assert bool(marked) == (shape != "with biases")
        for weight in marked if not short else ():
            weight.short_output = False  # pyrefly: ignore
        torch.manual_seed(5)
        with Bfloat16Products():
            loss = NEXT_TOKEN.loss(model, Batch(tokens, tokens)).total / tokens.numel()
        loss.backward()
        results.append([loss.detach(), *(weight.grad for weight in model.parameters())])
    assert all(torch.equal(one, other) for one, other in zip(*results, strict=True))
