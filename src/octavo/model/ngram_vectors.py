"""Vectors for the last few tokens together, added to the token's own: what an n-gram model knows, at hardly any cost.

Hash embeddings of n-grams (Svenstrup et al. 2017; Clark et al. 2022, CANINE): tables without collision handling,
trained with the rest. A lookup costs as much as a token's, whatever n is. B batch, T positions, C width.
"""

from __future__ import annotations

from typing import ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional as F

from octavo.config.parts import PartConfig, register
from octavo.model.base import TablesConfig

# Odd numbers that mix well; products wrap around at 64 bits, here and in C alike.
_STEP, _MIX = 1_000_003, 0x9E3779B97F4A7C15 - 2**64


class NGrams(nn.Module):
    """No vectors but the tokens' own.

    Attributes:
        before: tokens before a position that its vector depends on.
    """

    before: int = 0

    def sparse_parameters(self) -> list[nn.Parameter]:
        return list(self.parameters())

    def forward(
        self, x: Tensor, tokens: Tensor, earlier: Tensor | None = None, segments: Tensor | None = None
    ) -> Tensor:
        """Add to the embeddings x (B, T, C) of `tokens` (B, T); `earlier` (B, ≤ before) stand before them.

        With `segments` (B, T) nothing of another segment is looked at, and nothing is earlier.
        """
        return x


class HashedNGrams(NGrams):
    """For each n from 2 to `longest` the vector in the row of a table that the last n tokens' hash names.

    The rows start at zero. In training most are untouched by a step, so the gradient is sparse; `octavo`'s optimizers
    update just the rows that it holds (`RowAdagrad`).
    """

    def __init__(self, *, longest: int, buckets: int, width: int) -> None:
        super().__init__()
        self.before, self.buckets = longest - 1, buckets
        self.sparse = True
        self.weight = nn.Parameter(torch.zeros(self.before * buckets, width))

    def prepare_for_processes(self) -> None:
        """Give dense gradients: what processes add up has to have the same shape everywhere."""
        self.sparse = False

    def rows(self, tokens: Tensor, earlier: Tensor | None = None, segments: Tensor | None = None) -> Tensor:
        """(B, T, n − 1): for each n the row of the table; what stands before the first token, or in another segment,
        counts as nothing.
        """
        held = tokens if earlier is None else torch.cat((earlier, tokens), dim=1)
        held = F.pad(held + 1, (self.before, 0))  # 0: nothing
        length = tokens.size(1)
        hashed, rows = held[:, -length:], []
        for back in range(1, self.before + 1):
            end = held.size(1) - back
            before = held[:, end - length : end]
            if segments is not None:
                own = (
                    F.pad(segments, (back, 0))[:, :length] == segments
                )  # before the row stands nothing anyway
                before = before * own
            hashed = hashed * _STEP + before
            rows.append(((hashed * _MIX >> 32) % self.buckets) + (back - 1) * self.buckets)
        return torch.stack(rows, dim=-1)

    def forward(
        self, x: Tensor, tokens: Tensor, earlier: Tensor | None = None, segments: Tensor | None = None
    ) -> Tensor:
        rows = self.rows(tokens, earlier, segments)
        return x + F.embedding(rows, self.weight, sparse=self.sparse).sum(dim=-2)


class NGramsConfig(TablesConfig):
    """Base of the kinds."""

    takes_segments: ClassVar[bool] = False
    """Whether the module's `forward` takes `segments=`, as `NGrams` has it."""

    def without_tables(self) -> PartConfig:
        return NoNGramsConfig()


@register("ngrams")
class NoNGramsConfig(NGramsConfig):
    """Each token by itself: the plain GPT."""

    kind: Literal["none"] = "none"
    takes_segments: ClassVar[bool] = True

    def build(self, *, width: int) -> NGrams:
        return NGrams()


@register("ngrams")
class HashedNGramsConfig(NGramsConfig):
    """Tables of vectors for pairs, triples and so on of tokens, found by hash. Small models learn much sooner."""

    kind: Literal["hashed"] = "hashed"
    takes_segments: ClassVar[bool] = True
    longest: int = Field(4, ge=2, le=8)
    """Tokens of the longest n-gram; each n from 2 on has its table."""
    buckets: int = Field(16384, ge=2, le=2**31)
    """Rows of each table; n-grams with the same hash share one."""

    def build(self, *, width: int) -> NGrams:
        return HashedNGrams(longest=self.longest, buckets=self.buckets, width=width)

    @property
    def tables(self) -> int:
        return self.longest - 1

    @property
    def rows(self) -> int:
        return self.tables * self.buckets
