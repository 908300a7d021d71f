"""Positions against their formulae and symmetries."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from octavo.config.parts import parts
from octavo.model.positions import LearnedPositions, Positions, RotaryPositions, SinusoidalPositions, rotate

CONTEXT, D = 60, 12


def turned(x: torch.Tensor, position: int, share: float = 1.0) -> torch.Tensor:
    """A vector (D,) at a position."""
    rotation = RotaryPositions(context=CONTEXT, head_width=D, share=share).rotation(position, 1)
    return rotate(x.view(1, 1, 1, D), rotation).view(D)


@given(seed=st.integers(0, 10_000), first=st.integers(0, 19), apart=st.integers(0, 19), on=st.integers(1, 20))
def test_a_score_depends_on_the_distance_alone(seed: int, first: int, apart: int, on: int) -> None:
    q, k = torch.randn(2, D, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    here = turned(q, first + apart) @ turned(k, first)
    there = turned(q, first + apart + on) @ turned(k, first + on)
    torch.testing.assert_close(here, there, rtol=1e-5, atol=1e-5)


@given(
    seed=st.integers(0, 10_000), position=st.integers(0, CONTEXT - 1), share=st.sampled_from([0.2, 0.5, 1.0])
)
def test_turning_changes_no_length_and_the_rest_stays(seed: int, position: int, share: float) -> None:
    x = torch.randn(D, generator=torch.Generator().manual_seed(seed))
    y, half = turned(x, position, share), max(2, int(share * D) // 2 * 2) // 2
    for pair in range(half):
        length = torch.stack((x[pair], x[pair + half])).norm()
        assert torch.stack((y[pair], y[pair + half])).norm().item() == pytest.approx(length.item(), rel=1e-5)
    assert torch.equal(y[2 * half :], x[2 * half :])


def test_each_pair_turns_by_its_own_angle() -> None:
    for pair in range(D // 2):
        x = torch.zeros(D)
        x[pair] = 1.0
        y, angle = turned(x, 5), 5 * 10000 ** (-2 * pair / D)
        assert y[pair].item() == pytest.approx(math.cos(angle), abs=1e-6)
        assert y[pair + D // 2].item() == pytest.approx(math.sin(angle), abs=1e-6)


def test_sinusoidal_positions_are_vaswanis() -> None:
    table = SinusoidalPositions(context=9, width=7)(torch.zeros(1, 4, 7), 5)[0]
    for position in range(5, 9):
        for column in range(7):
            angle = position / 10000 ** (2 * (column // 2) / 7)
            expected = math.cos(angle) if column % 2 else math.sin(angle)
            assert table[position - 5, column].item() == pytest.approx(expected, abs=1e-5)


def test_learned_positions_begin_where_they_are_told() -> None:
    module = LearnedPositions(context=9, width=3)
    assert torch.equal(module(torch.zeros(2, 4, 3), 5), module.weight[5:].expand(2, 4, 3))


@pytest.mark.parametrize("kind", parts("positions"))
@pytest.mark.parametrize("rows", [1, 5])
def test_places_of_their_own_are_those_of_a_line(kind: str, rows: int) -> None:
    """As a decoder asks for them whose streams have come to different places, and its slow twin."""
    positions = parts("positions")[kind]().build(context=CONTEXT, width=D, head_width=D)
    places = torch.randint(CONTEXT, (7, rows), generator=torch.Generator().manual_seed(0))
    x = torch.randn(7, rows, D, generator=torch.Generator().manual_seed(1))
    expected = torch.stack(
        [
            torch.cat(
                [positions(x[row, column][None, None], int(place))[0] for column, place in enumerate(line)]
            )
            for row, line in enumerate(places)
        ]
    )
    torch.testing.assert_close(positions.at(x, places), expected)
    torch.testing.assert_close(Positions.at(positions, x, places), expected)
