"""Tables of n-grams: the right row, whatever way the tokens come in."""

from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st

from octavo.model.inputs import HashedNGrams

BITS = 2**64


def row_of(tokens: list[int], *, buckets: int, table: int) -> int:
    """The slow twin: one n-gram (oldest last), by whole numbers that do not wrap around by themselves."""
    hashed = tokens[0] + 1
    for token in tokens[1:]:
        hashed = (hashed * 1_000_003 + token + 1) % BITS
    mixed = hashed * 0x9E3779B97F4A7C15 % BITS
    signed = mixed - BITS if mixed >= BITS // 2 else mixed
    return (signed >> 32) % buckets + table * buckets


@given(
    tokens=st.lists(st.integers(0, 60_000), min_size=1, max_size=12),
    longest=st.integers(2, 5),
    buckets=st.integers(2, 1000),
    cut=st.integers(0, 11),
)
def test_rows_are_those_of_the_hash_and_do_not_depend_on_how_the_text_is_cut(
    tokens: list[int], longest: int, buckets: int, cut: int
) -> None:
    module = HashedNGrams(longest=longest, buckets=buckets, width=2)
    ids = torch.tensor([tokens])
    rows = module.rows(ids)
    padded = [-1] * (longest - 1) + tokens  # -1 + 1: nothing
    for position in range(len(tokens)):
        last = padded[position : position + longest][::-1]
        expected = [row_of(last[: back + 1], buckets=buckets, table=back - 1) for back in range(1, longest)]
        assert rows[0, position].tolist() == expected
    if 0 < cut < len(tokens):
        earlier = ids[:, max(0, cut - longest + 1) : cut]
        assert torch.equal(module.rows(ids[:, cut:], earlier), rows[:, cut:])


def test_adds_the_sum_of_the_rows_and_gives_a_gradient_to_them_alone() -> None:
    module = HashedNGrams(longest=3, buckets=50, width=4)
    with torch.no_grad():
        module.weight.normal_(generator=torch.Generator().manual_seed(1))
    tokens = torch.tensor([[3, 1, 4, 1, 5]])
    x = torch.zeros(1, 5, 4)
    y = module(x, tokens)
    torch.testing.assert_close(y, module.weight[module.rows(tokens)].sum(dim=2))
    y.sum().backward()
    assert module.weight.grad is not None
    found = module.weight.grad.coalesce()
    assert found.indices()[0].tolist() == sorted(set(module.rows(tokens).flatten().tolist()))
