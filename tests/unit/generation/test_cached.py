"""Where in memory a decoder's keys and values lie does not depend on their slot."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn import functional as F

from octavo.generation.cached import BOUNDARY, lined_up


def at_boundaries(x: torch.Tensor) -> bool:
    return all(
        x[row, head].data_ptr() % BOUNDARY == 0 for row in range(x.size(0)) for head in range(x.size(1))
    )


@given(
    slots=st.integers(1, 4),
    heads=st.integers(1, 3),
    length=st.integers(1, 70),
    width=st.integers(1, 70),
    offset=st.integers(0, 17),
    dtype=st.sampled_from([torch.float32, torch.bfloat16]),
)
def test_every_matrix_begins_at_a_boundary_and_is_the_same(
    slots: int, heads: int, length: int, width: int, offset: int, dtype: torch.dtype
) -> None:
    memory = torch.randn(offset + slots * heads * length * width).to(dtype)
    x = memory[offset:].view(slots, heads, length, width)
    assert torch.equal(lined_up(x), x) and at_boundaries(lined_up(x))
    assert lined_up(lined_up(x)).data_ptr() != x.data_ptr() or at_boundaries(x)


def test_what_is_lined_up_is_not_copied_and_nor_are_its_first_positions() -> None:
    x = lined_up(torch.randn(3, 2, 9, 7))
    assert lined_up(x) is x
    first = x[1:3, :, :5]
    assert lined_up(first) is first


@pytest.mark.parametrize("width", [7, 16, 27, 33])
def test_attention_is_the_same_to_the_bit_for_a_row_alone_and_among_others(width: int) -> None:
    random = torch.Generator().manual_seed(0)
    for length in (*range(1, 20), 64, 65):
        q, k, v = (torch.randn(1, 2, rows, width, generator=random) for rows in (1, length, length))
        alone = F.scaled_dot_product_attention(*map(lined_up, (q, k, v)))
        many = [lined_up(x.repeat(3, 1, 1, 1)) for x in (q, k, v)]
        assert torch.equal(F.scaled_dot_product_attention(*many), alone.expand(3, -1, -1, -1)), length
