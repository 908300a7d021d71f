"""How positions enter the model: learned, sinusoidal, rotary, none; along a line, or on a grid (`grid.py`).

A positions module has two doors: `forward` adds to the embeddings, `rotation` gives the angles that attention
turns queries and keys by. Each kind uses one of them or neither.
B batch, T positions, C width, D head width.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar, Literal

import numpy as np
import torch
from pydantic import Field
from torch import Tensor, nn

from octavo.config.parts import PartConfig, register
from octavo.model.angles import turned_of, turns, waves

Rotation = tuple[Tensor, Tensor]

LONGEST = 2**24
"""The largest context of a config."""


class Positions(nn.Module):
    """No positions: the causal mask alone lets the model tell order (Haviv et al. 2022)."""

    def forward(self, x: Tensor, start: int) -> Tensor:
        """Add what belongs to positions start … start+T to x (B, T, C)."""
        return x

    def at(self, x: Tensor, places: Tensor) -> Tensor:
        """The same where each of x (B, T, C) has a position of its own, `places` (B, T)."""
        if type(self).forward is Positions.forward:
            return x
        shifted = x.clone()  # place by place, for kinds that have no faster way
        for place in places.unique().tolist():
            there = places == place
            shifted[there] = self(x[there][:, None], place)[:, 0]
        return shifted

    def rotation(self, start: int, length: int) -> Rotation | None:
        """Cosines and sines (T, R/2), for R ≤ D dimensions that turn, of positions start … start+length, or None."""
        return None

    def shorten(self, context: int) -> None:
        """Forget what was trained for the positions from `context` on."""


def placed(positions: Positions, x: Tensor, starts: Sequence[int]) -> Tensor:
    """`positions.forward` for rows of x (B, T, C) that begin at places of their own."""
    return torch.cat([positions(row, start) for row, start in zip(x.split(1), starts, strict=True)])


def rotations(positions: Positions, starts: Sequence[int], length: int) -> Rotation | None:
    """`positions.rotation` for rows that begin at places of their own, (B, 1, T, R/2)."""
    tables = {start: positions.rotation(start, length) for start in starts}
    cos, sin = zip(*(tables[start] or (None, None) for start in starts), strict=True)
    return None if cos[0] is None else (torch.stack(cos)[:, None], torch.stack(sin)[:, None])


def turned_at(positions: Positions, places: Tensor, *, most: int) -> Rotation | None:
    """`positions.rotation` where each position of a row has a place of its own, (B, T), below `most`:
    (B, 1, T, R/2).
    """
    table = positions.rotation(0, most)
    return None if table is None else (table[0][places][:, None], table[1][places][:, None])


def in_segments(segments: Tensor) -> Tensor:
    """The place of each position in its own segment, (B, T), by the `segments` (B, T) of a row."""
    column = torch.arange(segments.size(1), device=segments.device).expand_as(segments)
    begins = torch.zeros_like(column)
    begins[:, 1:] = column[:, 1:] * (segments[:, 1:] != segments[:, :-1])
    return column - begins.cummax(dim=1).values


def _tables(numbers: Callable[[], Sequence[np.ndarray]], *shape: int, count: int = 1) -> list[Tensor]:
    """Tables where torch makes tensors now; nothing is computed where these have no numbers."""
    empty = [torch.empty(shape) for _ in range(count)]
    if not empty[0].is_meta:
        for each, known in zip(empty, numbers(), strict=True):
            each.copy_(torch.from_numpy(known))
    return empty


class LearnedPositions(Positions):
    """One trained vector for each position (reports A, D, E)."""

    def __init__(self, *, context: int, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(context, width).normal_())

    def forward(self, x: Tensor, start: int) -> Tensor:
        return x + self.weight[start : start + x.size(1)]

    def at(self, x: Tensor, places: Tensor) -> Tensor:
        return x + self.weight[places]

    def shorten(self, context: int) -> None:
        self.weight = nn.Parameter(self.weight.detach()[:context].clone())


class SinusoidalPositions(Positions):
    """Fixed sines and cosines (Vaswani et al. 2017; reports B, C)."""

    table: Tensor

    def __init__(self, *, context: int, width: int, base: float = 10000.0) -> None:
        super().__init__()
        (table,) = _tables(lambda: (waves(context, width, base),), context, width)
        self.register_buffer("table", table, persistent=False)

    def forward(self, x: Tensor, start: int) -> Tensor:
        return x + self.table[start : start + x.size(1)]

    def at(self, x: Tensor, places: Tensor) -> Tensor:
        return x + self.table[places]


class RotaryPositions(Positions):
    """Queries and keys turned by an angle that grows with the position (Su et al. 2021)."""

    cos: Tensor
    sin: Tensor

    def __init__(self, *, context: int, head_width: int, base: float = 10000.0, share: float = 1.0) -> None:
        super().__init__()
        turned = turned_of(head_width, share)
        cos, sin = _tables(lambda: turns(context, turned, base), context, turned // 2, count=2)
        self.register_buffer("cos", cos, persistent=False)
        self.register_buffer("sin", sin, persistent=False)

    def rotation(self, start: int, length: int) -> Rotation:
        return self.cos[start : start + length], self.sin[start : start + length]


def rotate(x: Tensor, rotation: Rotation) -> Tensor:
    """Turn each pair (x[i], x[i + R/2]) of x (B, H, T, D) by its position's angle, Llama's layout; the rest stays."""
    cos, sin = rotation[0].to(x.dtype), rotation[1].to(x.dtype)
    half = cos.size(-1)
    first, second, still = x.split((half, half, x.size(-1) - 2 * half), dim=-1)
    return torch.cat((first * cos - second * sin, second * cos + first * sin, still), dim=-1)


class PositionsConfig(PartConfig):
    """Base of the positions' configs."""

    turns: ClassVar[bool] = False
    """Whether they turn pairs of a head's dimensions, so that its width must be even."""

    def parameters(self, *, context: int, width: int) -> int:
        return 0

    def longest(self, *, context: int) -> int:
        """The largest context that can be used after training with `context`."""
        return LONGEST


@register("positions")
class NoPositionsConfig(PositionsConfig):
    """No positions."""

    kind: Literal["none"] = "none"

    def build(self, *, context: int, width: int, head_width: int) -> Positions:
        return Positions()


@register("positions")
class LearnedPositionsConfig(PositionsConfig):
    """One trained vector for each position."""

    kind: Literal["learned"] = "learned"

    def build(self, *, context: int, width: int, head_width: int) -> Positions:
        return LearnedPositions(context=context, width=width)

    def parameters(self, *, context: int, width: int) -> int:
        return context * width

    def longest(self, *, context: int) -> int:
        """No vector was trained for positions beyond."""
        return context


@register("positions")
class SinusoidalPositionsConfig(PositionsConfig):
    """Fixed sines and cosines."""

    kind: Literal["sinusoidal"] = "sinusoidal"
    base: float = Field(10000.0, gt=1, le=1e12)
    """The longest wave is 2π times this."""

    def build(self, *, context: int, width: int, head_width: int) -> Positions:
        return SinusoidalPositions(context=context, width=width, base=self.base)


@register("positions")
class RotaryPositionsConfig(PositionsConfig):
    """Queries and keys turned by their position."""

    kind: Literal["rotary"] = "rotary"

    turns: ClassVar[bool] = True

    base: float = Field(10000.0, gt=1, le=1e12)
    """The slowest turn takes 2π times this."""
    share: float = Field(1.0, gt=0, le=1)
    """Share of each head's dimensions that turn; the others compare content alone (Black et al. 2022)."""

    def build(self, *, context: int, width: int, head_width: int) -> Positions:
        """The module; the head width must be even."""
        return RotaryPositions(context=context, head_width=head_width, base=self.base, share=self.share)
