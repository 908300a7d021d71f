"""Attention against its formula, written out query by query; every way to compute it, whole and with a cache."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from octavo.model.attention import KeyValueCache, causal_mask
from octavo.model.base import build_model
from octavo.model.config import GPTConfig

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
