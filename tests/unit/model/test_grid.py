"""Positions on a grid: coordinates, sums, turns, and a shorter context."""

from __future__ import annotations

import pytest
import torch

from octavo.model.config import GPTConfig
from octavo.model.grid import GridPositions, GridRotary, coordinates, sizes_of
from octavo.model.positions import RotaryPositions, rotate


def test_a_position_has_the_coordinates_of_the_symbol_that_it_predicts() -> None:
    found = coordinates((3, 4), 30)  # frames of 3 rows and 4 columns
    assert sizes_of((3, 4), 30) == (3, 3, 4)
    for position in range(30):
        assert found[position].tolist() == [position // 12, position // 4 % 3, position % 4]


@torch.no_grad()
def test_vectors_of_rows_and_columns_are_added() -> None:
    positions = GridPositions(context=10, width=5, axes=(4,))
    assert positions.vectors.shape == (3 + 4, 5)
    found = positions(torch.zeros(2, 3, 5), 5)
    for at, position in enumerate(range(5, 8)):
        expected = positions.vectors[position // 4] + positions.vectors[3 + position % 4]
        torch.testing.assert_close(found[0, at], expected)
        torch.testing.assert_close(positions.table[position], expected)
    assert torch.equal(found[0], found[1])


@torch.no_grad()
def test_a_shorter_context_is_the_beginning_of_the_longer_one() -> None:
    positions = GridPositions(context=14, width=6, axes=(2, 3))
    before = positions.table
    positions.shorten(8)
    assert positions.table.shape == (8, 6)
    torch.testing.assert_close(positions.table, before[:8])
    assert positions.vectors.shape == (2 + 2 + 3, 6)


@torch.no_grad()
def test_a_turned_score_depends_on_the_distance_along_each_axis() -> None:
    width = 12
    positions = GridRotary(context=40, head_width=width, axes=(8,), base=100.0)
    q, k = torch.randn(2, 1, 1, 1, width, generator=torch.Generator().manual_seed(3))

    def score(row: int, column: int, other_row: int, other_column: int) -> float:
        here, there = (
            positions.rotation(8 * r + c, 1) for r, c in ((row, column), (other_row, other_column))
        )
        return float((rotate(q, here) * rotate(k, there)).sum())

    assert score(2, 5, 1, 1) == pytest.approx(score(4, 7, 3, 3), abs=1e-4)
    assert score(2, 5, 1, 1) != pytest.approx(score(4, 6, 3, 3), abs=1e-4)
    assert score(2, 5, 1, 1) != pytest.approx(score(4, 7, 2, 3), abs=1e-4)


def test_a_grid_of_one_column_is_a_line() -> None:
    line = RotaryPositions(context=9, head_width=8, base=50.0)
    grid = GridRotary(context=9, head_width=16, axes=(1,), base=50.0)  # every other pair stands in column 0
    torch.testing.assert_close(grid.cos[:, ::2], line.cos)
    assert (grid.cos[:, 1::2] == 1).all() and (grid.sin[:, 1::2] == 0).all()


@pytest.mark.parametrize("axes", [[], [0], [1.5]])
def test_what_is_no_grid(axes: list[float]) -> None:
    with pytest.raises(ValueError, match="axes"):
        GPTConfig.model_validate({"positions": {"kind": "grid", "axes": axes}})


def test_a_head_that_turns_has_an_even_width() -> None:
    with pytest.raises(ValueError, match="grid-rotary positions need an even head width, not 3"):
        GPTConfig.model_validate({"positions": "grid-rotary", "width": 12, "heads": 4})
