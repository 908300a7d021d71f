"""Positions on a grid: of pixels in an image, or of pixels in the frames of a film.

A sequence walks through the grid along its innermost axis first, as a raster does. Position t, which predicts the t-th
symbol of a record, has that symbol's coordinates: t modulo the innermost axis, and so on outwards. The outermost axis
is as long as the context needs.
B batch, T positions, C width, D head width.
"""

from __future__ import annotations

from math import prod
from typing import Annotated, ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from octavo.config.parts import register
from octavo.model.positions import LONGEST, Positions, PositionsConfig, RotaryPositions

Axes = Annotated[tuple[Annotated[int, Field(ge=1, le=LONGEST)], ...], Field(min_length=1, max_length=8)]


def sizes_of(axes: tuple[int, ...], context: int) -> tuple[int, ...]:
    """All axes of a grid with these inner ones, the outermost first."""
    return -(-context // prod(axes)), *axes


def coordinates(axes: tuple[int, ...], context: int) -> Tensor:
    """Where each position stands, (T, axes)."""
    return torch.stack(torch.unravel_index(torch.arange(context), sizes_of(axes, context)), dim=1)


class GridPositions(Positions):
    """One trained vector for each row, each column and so on; a position's is the sum of its own."""

    select: Tensor

    def __init__(self, *, context: int, width: int, axes: tuple[int, ...]) -> None:
        super().__init__()
        self.axes = axes
        sizes = sizes_of(axes, context)
        self.vectors = nn.Parameter(torch.empty(sum(sizes), width).normal_())
        chosen = [
            nn.functional.one_hot(places, size)
            for places, size in zip(coordinates(axes, context).unbind(1), sizes, strict=True)
        ]
        self.register_buffer("select", torch.cat(chosen, dim=1).float(), persistent=False)  # (T, sum of axes)

    @property
    def table(self) -> Tensor:
        """Sums of row and column vectors, (T, C)."""
        return self.select @ self.vectors

    def forward(self, x: Tensor, start: int) -> Tensor:
        return x + self.select[start : start + x.size(1)] @ self.vectors

    def at(self, x: Tensor, places: Tensor) -> Tensor:
        return x + self.select[places] @ self.vectors

    def shorten(self, context: int) -> None:
        outermost, left = self.select.size(1) - sum(self.axes), sizes_of(self.axes, context)[0]
        kept = torch.cat((self.vectors.detach()[:left], self.vectors.detach()[outermost:]))
        self.select = torch.cat((self.select[:context, :left], self.select[:context, outermost:]), dim=1)
        self.vectors = nn.Parameter(kept)


class GridRotary(RotaryPositions):
    """Queries and keys turned by their place on each axis. The axes share the turning pairs: the first pair is the
    outermost axis's, the next one the following axis's, and round again.
    """

    def __init__(
        self, *, context: int, head_width: int, axes: tuple[int, ...], base: float, share: float = 1.0
    ) -> None:
        super().__init__(context=context, head_width=head_width, base=base, share=share)
        pairs, count = self.cos.size(1), len(axes) + 1
        axis, number = torch.arange(pairs) % count, torch.arange(pairs) // count
        slower = -(-(pairs - axis) // count)  # pairs of that axis
        speeds = base ** -(number / slower)
        angles = coordinates(axes, context)[:, axis] * speeds  # (T, pairs)
        self.cos, self.sin = angles.cos(), angles.sin()


@register("positions")
class GridPositionsConfig(PositionsConfig):
    """One trained vector for each place on each axis of a grid, such as rows and columns; they are added up."""

    kind: Literal["grid"] = "grid"
    axes: Axes = (8,)
    """The inner axes: [28] for images 28 pixels wide, [8, 8] for films whose frames are 8 × 8 (rows, columns)."""

    def build(self, *, context: int, width: int, head_width: int) -> Positions:
        return GridPositions(context=context, width=width, axes=self.axes)

    def parameters(self, *, context: int, width: int) -> int:
        return sum(sizes_of(self.axes, context)) * width

    def longest(self, *, context: int) -> int:
        """Beyond, a place on the outermost axis was not trained, or not after each place on the others."""
        return context


@register("positions")
class GridRotaryConfig(PositionsConfig):
    """Queries and keys turned by their place on each axis of a grid, such as rows and columns."""

    kind: Literal["grid-rotary"] = "grid-rotary"

    turns: ClassVar[bool] = True

    axes: Axes = (8,)
    """As of `grid`."""
    base: float = Field(100.0, gt=1, le=1e12)
    """The slowest turn of an axis takes nearly 2π times this."""
    share: float = Field(1.0, gt=0, le=1)
    """Share of each head's dimensions that turn."""

    def build(self, *, context: int, width: int, head_width: int) -> Positions:
        """The module; the head width must be even, and better 2 for each axis or more."""
        return GridRotary(
            context=context, head_width=head_width, axes=self.axes, base=self.base, share=self.share
        )
