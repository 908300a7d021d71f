"""The kernel of attention against torch's operations, forward and backward."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from octavo.model import attend as kernel
from octavo.model.attention import Attention, FusedAttend
from octavo.model.native import library
from octavo.model.positions import RotaryPositions

pytestmark = pytest.mark.skipif(
    library("octavo.model", "attend") is None, reason="there is no C compiler here, or it is switched off"
)


def attention(
    *, heads: int, kv_heads: int, width: int, scale: float = 0.3, qk_norm: bool = False
) -> Attention:
    torch.manual_seed(0)
    return Attention(
        width=12,
        heads=heads,
        kv_heads=kv_heads,
        head_width=width,
        attend=FusedAttend(scale=scale, dropout=0.0),
        qkv_bias=False,
        qk_norm=qk_norm,
        project=torch.nn.Identity(),
        dropout=0.0,
    )


@settings(deadline=None, max_examples=60)
@given(
    batch=st.integers(1, 3),
    length=st.integers(1, 70),
    kv_heads=st.integers(1, 3),
    share=st.integers(1, 3),
    width=st.integers(1, 20).map(lambda half: 2 * half),
    turned=st.sampled_from([0.0, 0.5, 1.0]),
    qk_norm=st.booleans(),
    spread=st.sampled_from([0.1, 1.0, 30.0]),
)
def test_is_what_torch_does(
    batch: int,
    length: int,
    kv_heads: int,
    share: int,
    width: int,
    turned: float,
    qk_norm: bool,
    spread: float,
) -> None:
    heads = kv_heads * share
    module = attention(heads=heads, kv_heads=kv_heads, width=width, qk_norm=qk_norm)
    rotation = None
    if turned:
        positions = RotaryPositions(context=length, head_width=width, share=turned)
        rotation = positions.rotation(0, length)
    drawn = spread * torch.randn(
        batch, length, (heads + 2 * kv_heads) * width, generator=torch.Generator().manual_seed(1)
    )
    gradient = torch.randn(batch, length, heads * width, generator=torch.Generator().manual_seed(2))
    assert kernel.fits(drawn, width)
    ways = {
        "kernel": (torch.float32, lambda qkv: kernel.attend(qkv, module.described(), rotation)),
        "torch": (torch.float32, lambda qkv: module.in_parts(qkv, rotation, None)),
        "exact": (torch.float64, lambda qkv: module.in_parts(qkv, rotation, None)),
    }
    results = {}
    for name, (dtype, way) in ways.items():
        qkv = drawn.to(dtype, copy=True).requires_grad_()
        y = way(qkv)
        y.backward(gradient.to(dtype))
        assert qkv.grad is not None
        results[name] = (y.detach().double(), qkv.grad.double())
    for found, torchs, exact in zip(*results.values(), strict=True):
        least = 1e-6 * max(1.0, spread**2)  # of this order is what cancels out in a score's gradient
        assert (found - exact).abs().max() <= 4 * (torchs - exact).abs().max() + least


def test_long_contexts_agree_and_longer_ones_are_left_to_torch() -> None:
    module = attention(heads=2, kv_heads=2, width=48)
    qkv = torch.randn(1, kernel.LONGEST, 6 * 48, generator=torch.Generator().manual_seed(1))
    torch.testing.assert_close(
        kernel.attend(qkv, module.described(), None), module.in_parts(qkv, None, None), rtol=2e-5, atol=2e-5
    )
    assert not kernel.fits(torch.zeros(1, kernel.LONGEST + 1, 6 * 48), 48)
    assert not kernel.fits(qkv.double(), 48)


def test_number_of_threads_changes_nothing() -> None:
    module, results = attention(heads=3, kv_heads=3, width=16), []
    before = torch.get_num_threads()
    try:
        for threads in (1, 2):
            torch.set_num_threads(threads)
            qkv = torch.randn(5, 40, 9 * 16, generator=torch.Generator().manual_seed(1)).requires_grad_()
            y = kernel.attend(qkv, module.described(), None)
            y.sum().backward()
            assert qkv.grad is not None
            results.append((y.detach(), qkv.grad))
    finally:
        torch.set_num_threads(before)
    assert all(torch.equal(one, other) for one, other in zip(*results, strict=True))


def test_dropout_is_left_to_torch() -> None:
    assert FusedAttend(scale=1.0, dropout=0.1).whole(training=False)
    assert not FusedAttend(scale=1.0, dropout=0.1).whole(training=True)
