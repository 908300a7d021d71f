"""Attention that is not causal, that is in part, or that looks at a memory: the formula, the twins, the caches."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from octavo.generation.native import knows
from octavo.model.attention import (
    Attention,
    CrossAttention,
    ExplicitAttend,
    FusedAttend,
    KeyValueCache,
    causal_mask,
    padding_mask,
    prefix_mask,
    segment_mask,
)
from octavo.model.base import build_model
from octavo.model.config import GPTConfig
from octavo.model.positions import RotaryPositions

B, T, S, C, M, H, D = 2, 5, 7, 12, 10, 4, 6
KINDS = {"fused": FusedAttend, "explicit": ExplicitAttend}
GROUPS = {"heads": 4, "groups": 2, "one key for all": 1}


def options(kind: str, groups: int, *, qk_norm: bool = False) -> dict[str, Any]:
    return {
        "width": C,
        "heads": H,
        "kv_heads": groups,
        "head_width": D,
        "attend": KINDS[kind](scale=0.6, dropout=0.0),
        "qkv_bias": True,
        "qk_norm": qk_norm,
        "project": nn.Identity(),
        "dropout": 0.0,
    }


def attention(kind: str = "fused", groups: int = 2, *, causal: bool = True) -> Attention:
    return drawn(Attention(**options(kind, groups), causal=causal))


def cross(kind: str = "fused", groups: int = 2, *, qk_norm: bool = False) -> CrossAttention:
    return drawn(CrossAttention(**options(kind, groups, qk_norm=qk_norm), memory_width=M))


def drawn(module: Any) -> Any:
    torch.manual_seed(3)
    for weight in module.parameters():
        nn.init.normal_(weight, std=0.5)
    return module.eval()


def sequences(length: int, width: int, seed: int = 0) -> Tensor:
    return torch.randn(B, length, width, generator=torch.Generator().manual_seed(seed))


def one_by_one(q: Tensor, k: Tensor, v: Tensor, allowed: Tensor) -> Tensor:
    """Joined heads (B, T, H·D), each query of each head by itself, in double; `allowed` (B, T, S)."""
    y = torch.zeros(q.size(0), q.size(2), H, D, dtype=torch.double)
    for batch in range(q.size(0)):
        for head in range(H):
            group = head // (H // k.size(1))
            for query in range(q.size(2)):
                seen = allowed[batch, query]
                if seen.any():
                    scores = 0.6 * k[batch, group, seen].double() @ q[batch, head, query].double()
                    y[batch, query, head] = scores.softmax(0) @ v[batch, group, seen].double()
    return y.flatten(2)


def split(x: Tensor) -> Tensor:
    return x.unflatten(-1, (-1, D)).transpose(1, 2)


MASKS = {
    "everything": (None, torch.ones(B, T, T, dtype=torch.bool)),
    "padding": (padding_mask(torch.tensor([[5, 3, 0, -1, -1], [2, 1, 0, 4, 9]])), None),
    "prefix": (prefix_mask(torch.tensor([3, 0]), T), None),
    "segments": (segment_mask(torch.tensor([[0, 0, 1, 1, 1], [0, 1, 1, 2, 2]]), causal=False), None),
    "nowhere": (padding_mask(torch.tensor([[-1] * T, [1] * T])), None),
}


@torch.no_grad()
@pytest.mark.parametrize("name", MASKS)
@pytest.mark.parametrize("groups", GROUPS.values(), ids=GROUPS)
@pytest.mark.parametrize("kind", KINDS)
def test_what_is_not_causal_is_the_formula(kind: str, groups: int, name: str) -> None:
    mask, allowed = MASKS[name]
    if allowed is None:
        allowed = mask.expand(B, 1, T, T)[:, 0]
    own, x = attention(kind, groups, causal=False), sequences(T, C)
    q, k, v = split(own.qkv(x)).split((H, groups, groups), dim=1)
    found = own(x, mask=mask)
    torch.testing.assert_close(found.double(), one_by_one(q, k, v, allowed), rtol=1e-4, atol=1e-5)


@torch.no_grad()
@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("qk_norm", [False, True])
@pytest.mark.parametrize("groups", GROUPS.values(), ids=GROUPS)
@pytest.mark.parametrize("kind", KINDS)
def test_attention_over_a_memory_is_the_formula(kind: str, groups: int, qk_norm: bool, padded: bool) -> None:
    over, x, memory = cross(kind, groups, qk_norm=qk_norm), sequences(T, C), sequences(S, M, seed=1)
    q, (k, v) = split(over.q(x)), split(over.kv(memory)).split((groups, groups), dim=1)
    if qk_norm:
        q, k = (part / (part.square().mean(-1, keepdim=True) + 1e-6).sqrt() for part in (q, k))
    ids = torch.tensor([[1] * S, [1] * 3 + [-1] * (S - 3)]) if padded else torch.ones(B, S)
    expected = one_by_one(q, k, v, (ids >= 0)[:, None].expand(B, T, S))
    mask = padding_mask(ids) if padded else None
    torch.testing.assert_close(over(x, memory, mask).double(), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("way", ["itself", "memory"])
def test_the_twins_have_the_same_gradients(way: str) -> None:
    """Also where a row may look nowhere, and no number comes of it."""
    found = []
    for kind in KINDS:
        own: Any = attention(kind, causal=False) if way == "itself" else cross(kind)
        x, memory = sequences(T, C).requires_grad_(), sequences(S, M, seed=1).requires_grad_()
        length = T if way == "itself" else S
        mask = padding_mask(torch.tensor([[1] * length, [-1] * length]))
        y = own(x, mask=mask) if way == "itself" else own(x, memory, mask)
        y.square().mean().backward()
        read = x if way == "itself" else memory
        assert (read.grad[1] == 0).all() and (read.grad[0] != 0).any()
        assert (y[1] == 0).all()
        found.append([y, x.grad, *(weight.grad for weight in own.parameters())])
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


@torch.no_grad()
@pytest.mark.parametrize("kind", KINDS)
def test_what_is_padded_changes_nothing(kind: str) -> None:
    """A source among longer ones is what it is alone."""
    encoder, over = attention(kind, causal=False), cross(kind)
    x, memory = sequences(T, C), sequences(S, M, seed=1)
    ids = torch.ones(B, T)
    ids[:, 3:] = -1
    found = encoder(x, mask=padding_mask(ids))[:, :3]
    torch.testing.assert_close(found, encoder(x[:, :3]), rtol=1e-4, atol=1e-5)
    ids = torch.ones(B, S)
    ids[:, 4:] = -1
    found = over(x, memory, padding_mask(ids))
    torch.testing.assert_close(found, over(x, memory[:, :4]), rtol=1e-4, atol=1e-5)


@torch.no_grad()
def test_a_memory_that_is_kept_is_the_memory() -> None:
    over, x, memory = cross(), sequences(T, C), sequences(S, M, seed=1)
    whole, kept = over(x, memory), over.remember(memory)
    assert kept.keys.shape == kept.values.shape == (B, 2, S, D)
    assert torch.equal(over(x, kept), whole)
    calls = []
    over.kv.register_forward_hook(lambda *_: calls.append(1))
    pieces = [
        over(x[:, [at]], kept) for at in range(T)
    ]  # token by token: nothing of the memory is computed again
    torch.testing.assert_close(torch.cat(pieces, dim=1), whole, rtol=1e-4, atol=1e-5)
    assert not calls


@torch.no_grad()
@pytest.mark.parametrize("kind", KINDS)
def test_a_prefix_is_read_at_once_and_the_rest_goes_on_in_a_cache(kind: str) -> None:
    own, x = attention(kind), sequences(T, C)
    prefix = 3
    whole = own(x, mask=prefix_mask(torch.full((B,), prefix), T))
    cache = KeyValueCache(batch=B, heads=2, capacity=T, head_width=D, like=x)
    seen = torch.ones(1, 1, prefix, prefix, dtype=torch.bool)
    pieces = [own(x[:, :prefix], None, cache, seen)]
    pieces += [own(x[:, [at]], None, cache) for at in range(prefix, T)]
    torch.testing.assert_close(torch.cat(pieces, dim=1), whole, rtol=1e-4, atol=1e-5)


@torch.no_grad()
def test_an_encoder_tells_turned_places_apart_and_knows_only_their_distance() -> None:
    encoder, x = attention(causal=False), sequences(T, C)
    positions = RotaryPositions(context=16, head_width=D)
    turned = encoder(x, positions.rotation(0, T))
    assert not torch.allclose(turned, encoder(x), atol=1e-2)
    torch.testing.assert_close(encoder(x, positions.rotation(9, T)), turned, rtol=1e-4, atol=1e-5)


def test_masks() -> None:
    assert prefix_mask(torch.tensor([2, 0, 9]), 3).int().tolist() == [
        [[[1, 1, 0], [1, 1, 0], [1, 1, 1]]],
        [[[1, 0, 0], [1, 1, 0], [1, 1, 1]]],
        [[[1, 1, 1], [1, 1, 1], [1, 1, 1]]],
    ]
    assert padding_mask(torch.tensor([[0, 3, -1]])).tolist() == [[[[True, True, False]]]]
    segments = torch.tensor([[0, 0, 1]])
    assert segment_mask(segments, causal=False).int().tolist() == [[[[1, 1, 0], [1, 1, 0], [0, 0, 1]]]]
    assert torch.equal(segment_mask(torch.zeros(1, 4))[0, 0], causal_mask(4, 4, torch.device("cpu")))


def test_a_cache_is_for_what_is_causal() -> None:
    cache = KeyValueCache(batch=B, heads=2, capacity=T, head_width=D, like=torch.zeros(1))
    with pytest.raises(AssertionError, match="stands before"):
        attention(causal=False)(sequences(T, C), None, cache)


def test_the_kernel_for_writing_knows_only_what_is_causal() -> None:
    config = GPTConfig.model_validate({"layers": 2, "width": 16, "heads": 2, "context": 8})
    model = build_model(config, vocab_size=5, seed=1)
    assert knows(model)
    for block in model.blocks:
        block.attention.causal = False
    assert not knows(model)
    model.blocks[0].attention.causal = True
    assert not knows(model)
