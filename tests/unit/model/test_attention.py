"""Attention against its formula, written out query by query; every way to compute it, whole and with a cache. The
kernel of attention against torch's operations, forward and backward."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import Tensor

from octavo.model import attention as kernel
from octavo.model.attention import Attention, ExplicitAttend, FusedAttend, KeyValueCache, causal_mask
from octavo.model.base import build_model
from octavo.model.config import GPTConfig
from octavo.model.positions import RotaryPositions, Rotation, rotate
from octavo.util.kernels import in_use
from unit.conftest import names_in_c

T, C = 7, 24

SHAPES: dict[str, tuple[dict[str, object], float]] = {
    "plain": ({"heads": 3}, 8**-0.5),
    "groups": ({"heads": 4, "kv_heads": 2}, 6**-0.5),
    "one key for all": ({"heads": 4, "kv_heads": 1}, 6**-0.5),
    "scaled by the width": ({"heads": 3, "attention_scale": "model"}, 24**-0.5),
    "normed": ({"heads": 3, "qk_norm": True, "attention_scale": 0.7}, 0.7),
    "normed and scaled": (
        {"heads": 4, "kv_heads": 2, "qk_norm": True, "qk_norm_eps": 0.1, "qk_norm_scale": True},
        6**-0.5,
    ),
}


def written_out(
    x: np.ndarray, weight: np.ndarray, scales: np.ndarray, config: GPTConfig, scale: float
) -> np.ndarray:
    """Joined heads (T, H·D) from x (T, C): loops over heads and queries, in double precision."""
    heads, groups, width = config.heads, config.resolved_kv_heads, config.resolved_head_width
    rows = (x @ weight.T).reshape(len(x), heads + 2 * groups, width)
    if config.qk_norm:
        turned = rows[:, : heads + groups]
        turned /= np.sqrt((turned**2).mean(axis=-1, keepdims=True) + config.qk_norm_eps)
        turned[:, :heads] *= scales[0]
        turned[:, heads:] *= scales[1]
    y = np.zeros((len(x), heads, width))
    for head in range(heads):
        group = head // (heads // groups)
        keys, values = rows[:, heads + group], rows[:, heads + groups + group]
        for query in range(len(x)):
            scores = scale * keys[: query + 1] @ rows[query, head]
            weights = np.exp(scores - scores.max())
            y[query, head] = weights @ values[: query + 1] / weights.sum()
    return y.reshape(len(x), -1)


@torch.no_grad()
@pytest.mark.parametrize("explicit", [False, True], ids=["fused", "explicit"])
@pytest.mark.parametrize("shape", SHAPES)
def test_it_is_the_formula(shape: str, explicit: bool) -> None:
    options, scale = SHAPES[shape]
    config = GPTConfig.model_validate(
        {"layers": 1, "width": C, "context": T, "positions": "none", "qkv_bias": False}
        | {"output_projection": False}
        | options
    )
    model = build_model(config, vocab_size=5, seed=1, explicit_attention=explicit).eval()
    attention = model.blocks[0].attention
    attention.qkv.weight.normal_(generator=torch.Generator().manual_seed(2))
    x = torch.randn(2, T, C, generator=torch.Generator().manual_seed(3))
    weight = attention.qkv.weight.double().numpy()
    scales = np.ones((2, config.resolved_head_width))
    if config.qk_norm_scale:
        scales = np.random.default_rng(4).normal(size=scales.shape)
        for parameter, values in zip((attention.q_scale, attention.k_scale), scales, strict=True):
            parameter.copy_(torch.from_numpy(values))
    expected = np.stack([written_out(row, weight, scales, config, scale) for row in x.double().numpy()])
    np.testing.assert_allclose(attention(x).numpy(), expected, rtol=1e-4, atol=1e-5)
    for cuts in ((T,), (1,) * T, (3, 1, 3), (2, 5)):  # with a cache, piece by piece
        width, groups = config.resolved_head_width, config.resolved_kv_heads
        cache = KeyValueCache(batch=2, heads=groups, capacity=T, head_width=width, like=x)
        pieces = [attention(piece, None, cache) for piece in x.split(list(cuts), dim=1)]
        np.testing.assert_allclose(torch.cat(pieces, dim=1).numpy(), expected, rtol=1e-4, atol=1e-5)


def test_the_queries_are_the_last_of_the_positions() -> None:
    for seen in range(1, 6):
        for length in range(1, seen + 1):
            mask = causal_mask(length, seen, torch.device("cpu"))
            expected = [[key <= seen - length + query for key in range(seen)] for query in range(length)]
            assert mask.tolist() == expected


pytestmark = pytest.mark.skipif(
    in_use().native is None, reason="there is no C compiler here, or it is switched off"
)


def attention(
    *,
    heads: int,
    kv_heads: int,
    width: int,
    scale: float = 0.3,
    qk_norm: bool = False,
    qk_norm_eps: float = 1e-6,
    qk_norm_scale: bool = False,
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
        qk_norm_eps=qk_norm_eps,
        qk_norm_scale=qk_norm_scale,
        project=torch.nn.Identity(),
        dropout=0.0,
    )


# One kernel serves all examples of a processor.
@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
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
    processor: None,
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
        "exact": (torch.float64, lambda qkv: module.in_parts(qkv, rotation, None)),
    }
    results = {}
    for name, (dtype, way) in ways.items():
        qkv = drawn.to(dtype, copy=True).requires_grad_()
        y = way(qkv)
        y.backward(gradient.to(dtype))
        assert qkv.grad is not None
        results[name] = (y.detach().double(), qkv.grad.double())
    bounds = rounding(module, drawn.double(), gradient.double(), rotation)
    for found, exact, bound in zip(*results.values(), bounds, strict=True):
        assert ((found - exact).abs() <= bound).all()


def rounding(
    module: Attention, qkv: Tensor, gradient: Tensor, rotation: Rotation | None
) -> tuple[Tensor, Tensor]:
    """How far joined heads, and the gradient of `qkv`, may lie from the exact ones where all is rounded to float32.

    To first order: roundings are as if by chance, so a sum of n products is off by at most 2 √n · 2⁻²⁴ · Σ |products|
    (Higham and Mary 2019), scores off by δ change weights p by at most p · ((1 − 2p) δ + Σ pδ), and every further step
    passes on what comes in. By how much torch's float32 is off is no measure: it is one draw of either sign, and where
    two large scores of a query are close, so that all depends on their last bits, it may happen to be small.
    """
    (batch, length, _), width, share = qkv.shape, module.head_width, module.heads // module.kv_heads
    pairs = 0 if rotation is None else rotation[0].size(1)

    def turned(x: Tensor) -> Tensor:
        """No smaller than |x|, however its pairs are turned."""
        first, second, rest = x.abs().split((pairs, pairs, width - 2 * pairs), dim=-1)
        return torch.cat((torch.hypot(first, second),) * 2 + (rest,), dim=-1)

    def joined(x: Tensor) -> Tensor:
        return x.transpose(1, 2).flatten(2)

    unit = 2 * (2 * width + share * length + 32) ** 0.5 * 2.0**-24
    heads = qkv.view(batch, length, -1, width).transpose(1, 2)
    qk, v = heads.split((module.heads + module.kv_heads, module.kv_heads), dim=1)
    factor = torch.ones_like(qk[..., :1])
    if module.qk_norm:
        factor = (qk.square().mean(-1, keepdim=True) + module.qk_norm_eps).rsqrt()
    qk = qk * factor if rotation is None else rotate(qk * factor, rotation)
    each, big = (x.split((module.heads, module.kv_heads), dim=1) for x in (qk, turned(qk)))
    (q, big_q), (k, big_k) = zip(each, big, strict=True)
    k, big_k, v = (x.repeat_interleave(share, dim=1) for x in (k, big_k, v))
    dy = gradient.view(batch, length, -1, width).transpose(1, 2)
    scale, seen = module.attend.scale, causal_mask(length, length, qkv.device)

    p = (scale * q @ k.mT).masked_fill(~seen, -torch.inf).softmax(dim=-1)
    off = unit * scale * (big_q @ big_k.mT) * seen
    off_p = p * ((1 - 2 * p) * off + (p * off).sum(-1, keepdim=True) + unit) + 1e-27  # the least ones are cut
    off_y = (off_p + unit * p) @ v.abs()

    dp, size_dp = dy @ v.mT, dy.abs() @ v.abs().mT
    along = (p * dp).sum(-1, keepdim=True)
    off_along = (off_p * dp.abs() + 2 * unit * p * size_dp).sum(-1, keepdim=True)
    ds = scale * p * (dp - along)
    off_ds = scale * (off_p * (dp - along).abs() + p * (unit * size_dp + off_along)) + 2 * unit * ds.abs()
    dqk = torch.cat((ds @ k, of_groups(ds.mT @ q, share)), dim=1)
    off_dqk = torch.cat((off_ds @ big_k, of_groups(off_ds.mT @ big_q, share)), dim=1)
    off_dv = of_groups((off_p + unit * p).mT @ dy.abs(), share)

    size, off_dqk, large = turned(dqk), turned(off_dqk), turned(qk)
    off_dqk = off_dqk + unit * size
    if module.qk_norm:
        off_dqk = off_dqk + large * ((off_dqk + 2 * unit * size) * large).mean(-1, keepdim=True)
    return joined(off_y), joined(torch.cat((factor * off_dqk, off_dv), dim=1))


def of_groups(x: Tensor, share: int) -> Tensor:
    """Sums over the query heads (B, H, T, D) that share keys and values."""
    return x.unflatten(1, (-1, share)).sum(dim=2)


def test_long_contexts_agree_and_longer_ones_are_left_to_torch() -> None:
    module = attention(heads=2, kv_heads=2, width=48)
    qkv = torch.randn(1, kernel.LONGEST, 6 * 48, generator=torch.Generator().manual_seed(1))
    torch.testing.assert_close(
        kernel.attend(qkv, module.described(), None), module.in_parts(qkv, None, None), rtol=2e-5, atol=2e-5
    )
    assert not kernel.fits(torch.zeros(1, kernel.LONGEST + 1, 6 * 48), 48)
    assert not kernel.fits(qkv.double(), 48)


def test_weights_of_almost_nothing_are_nothing(processor: None) -> None:
    """No gradient is a denormal number: some processors take a hundred times as long to multiply those."""
    module = attention(heads=2, kv_heads=2, width=16, scale=1.0)
    qkv = 5 * torch.randn(2, 40, 6 * 16, generator=torch.Generator().manual_seed(3))
    qkv.requires_grad_()
    kernel.attend(qkv, module.described(), None).sum().backward()
    assert qkv.grad is not None
    size = qkv.grad.abs()
    assert not ((size > 0) & (size < torch.finfo(torch.float32).tiny)).any() and (size == 0).any()


@pytest.mark.parametrize("eps", [1e-6, 0.5, 100.0])
def test_queries_and_keys_are_normed_alike(eps: float) -> None:
    module = attention(heads=2, kv_heads=1, width=8, qk_norm=True, qk_norm_eps=eps)
    qkv = torch.randn(2, 9, 4 * 8, generator=torch.Generator().manual_seed(1))
    found = kernel.attend(qkv, module.described(), None)
    torch.testing.assert_close(found, module.in_parts(qkv, None, None), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_scale_of_queries_and_keys_is_torchs_work_before_the_kernels(dtype: torch.dtype) -> None:
    results = {}
    for way, kind in (("kernel", dtype), ("exact", torch.float64)):
        module = attention(heads=4, kv_heads=2, width=6, qk_norm=True, qk_norm_scale=True).to(
            torch.float32 if way == "kernel" else kind
        )
        rotation = RotaryPositions(context=13, head_width=6, share=1.0).rotation(0, 13)
        random = torch.Generator().manual_seed(1)
        scales = [parameter for parameter in (module.q_scale, module.k_scale) if parameter is not None]
        assert len(scales) == 2
        with torch.no_grad():
            for scale in scales:
                scale.copy_(torch.randn(6, generator=random))
        qkv = torch.randn(2, 13, 8 * 6, generator=random).to(dtype).to(kind).requires_grad_()
        y = module.by_kernel(qkv, rotation) if way == "kernel" else module.in_parts(qkv, rotation, None)
        y.backward(torch.randn(2, 13, 4 * 6, generator=random).to(y.dtype))
        results[way] = [y.detach(), qkv.grad, *(scale.grad for scale in scales)]
    for found, exact in zip(*results.values(), strict=True):
        assert found is not None and exact is not None
        rough = 1e-5 if found.dtype == torch.float32 else 1e-2  # a gradient of bfloat16 is rounded to it
        torch.testing.assert_close(found.double(), exact, rtol=rough, atol=rough)


def test_both_sides_mean_the_same_memory() -> None:
    assert names_in_c("octavo.model", "attend", "Shape") == [name for name, *_ in kernel._Shape._fields_]


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


def spared(seed: int, *, heads: int, length: int, rate: float) -> np.ndarray:
    """Which weights dropout keeps, (heads, query, key), as attend.c says it."""

    def scrambled(value: int) -> int:
        z = (seed + 0x9E3779B97F4A7C15 * (value + 1)) % 2**64
        z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 % 2**64
        z = (z ^ z >> 27) * 0x94D049BB133111EB % 2**64
        return z ^ z >> 31

    query, key = np.meshgrid(np.arange(length), np.arange(length), indexing="ij")
    kept = []
    for salt in map(scrambled, range(heads)):
        x = (key * length + query + salt % 2**32).astype(np.uint32)
        x = (x ^ x >> 16) * np.uint32(0x7FEB352D) ^ np.uint32(salt >> 32)
        x = (x ^ x >> 15) * np.uint32(0x846CA68B)
        kept.append((x ^ x >> 16) >= round(rate * kernel.LEVELS))
    return np.stack(kept)


@pytest.mark.parametrize("rate", [0.1, 0.5])
@pytest.mark.parametrize("length", [5, 37])
def test_dropout_is_torchs_with_the_mask_written_out(processor: None, rate: float, length: int) -> None:
    batch, heads, width = 2, 4, 6
    module = attention(heads=heads, kv_heads=2, width=width, qk_norm=True)
    module.attend.dropout = rate
    drawn = torch.randn(batch, length, 8 * width, generator=torch.Generator().manual_seed(1))
    gradient = torch.randn(batch, length, heads * width, generator=torch.Generator().manual_seed(2))
    torch.manual_seed(3)
    found = drawn.clone().requires_grad_()
    y = kernel.attend(found, module.described(), None)
    y.backward(gradient)
    torch.manual_seed(3)
    seed = int(torch.randint(2**63 - 1, ()))
    mask = torch.from_numpy(spared(seed, heads=batch * heads, length=length, rate=rate)).double()
    explicit = attention(heads=heads, kv_heads=2, width=width, qk_norm=True)
    explicit.attend = ExplicitAttend(scale=0.3, dropout=0.0)
    explicit.attend.drop = Times(mask.view(batch, heads, length, length) / (1 - rate))
    expected = drawn.double().requires_grad_()
    z = explicit.in_parts(expected, None, None)
    z.backward(gradient.double())
    assert found.grad is not None and expected.grad is not None
    torch.testing.assert_close(y.double(), z, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(found.grad.double(), expected.grad, rtol=1e-5, atol=1e-5)


class Times(torch.nn.Module):
    """Dropout with a mask that is given."""

    def __init__(self, factor: torch.Tensor) -> None:
        super().__init__()
        self.factor = factor

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.factor


def test_dropout_drops_its_share_and_no_place_follows_another() -> None:
    length = 64
    masks = np.stack([spared(seed, heads=8, length=length, rate=0.25) for seed in (5, 6)]).reshape(16, -1)
    assert abs(masks.mean() - 0.75) < 4 * (0.25 * 0.75 / masks.size) ** 0.5
    between = np.corrcoef(masks) - np.eye(16)
    assert np.abs(between).max() < 5 / length
    for step in (1, length, length + 1):  # the next query, the next key, along the diagonal
        assert abs(np.corrcoef(masks[:, :-step].ravel(), masks[:, step:].ravel())[0, 1]) < 5 / masks.size**0.5


def test_dropout_is_for_training_alone() -> None:
    module = attention(heads=2, kv_heads=2, width=4)
    x = torch.randn(1, 9, 12, generator=torch.Generator().manual_seed(1))
    plain = module(x)
    module.attend.dropout = 0.5
    assert not torch.equal(module(x), plain)
    assert torch.equal(module.eval()(x), plain)


@pytest.mark.parametrize("dropout", [0.0, 0.3])
def test_bfloat16_comes_and_goes_as_its_float32(processor: None, dropout: float) -> None:
    """Inside all is float32: to the bit what comes out for the same numbers in float32, rounded."""
    module = attention(heads=4, kv_heads=2, width=6, qk_norm=True)
    module.attend.dropout = dropout
    rotation = RotaryPositions(context=21, head_width=6, share=1.0).rotation(0, 21)
    drawn = torch.randn(2, 21, 8 * 6, generator=torch.Generator().manual_seed(1)).bfloat16()
    gradient = torch.randn(2, 21, 4 * 6, generator=torch.Generator().manual_seed(2)).bfloat16()
    results = []
    for dtype in (torch.bfloat16, torch.float32):
        torch.manual_seed(3)
        qkv = drawn.to(dtype, copy=True).requires_grad_()
        assert kernel.fits(qkv, 6)
        y = kernel.attend(qkv, module.described(), rotation)
        y.backward(gradient.to(dtype))
        assert qkv.grad is not None and y.dtype == qkv.grad.dtype == dtype
        results.append((y.detach().bfloat16(), qkv.grad.bfloat16()))
    assert all(torch.equal(short, long) for short, long in zip(*results, strict=True))


def test_bfloat16_keeps_what_is_not_a_number() -> None:
    module = attention(heads=1, kv_heads=1, width=4)
    qkv = torch.zeros(1, 3, 12, dtype=torch.bfloat16)
    qkv[0, 1, 8] = torch.nan
    assert kernel.attend(qkv, module.described(), None)[0, 1:, 0].isnan().all()
