"""How what stands at a position becomes a vector: a token by a table, a row of numbers by a matrix; and what the last
few positions add to it.

The vectors for the last few tokens together are what an n-gram model knows, at hardly any cost: hash embeddings of
n-grams (Svenstrup et al. 2017; Clark et al. 2022, CANINE), tables without collision handling, trained with the rest. A
lookup costs as much as a token's, whatever n is.

B sequences, T positions, C width, D columns, V vocabulary (of rows, D).
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional as F

from octavo.config.parts import PartConfig, register
from octavo.model.base import TablesConfig
from octavo.model.vectors import fill, spread_of, spread_of_steps

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


LARGEST_INPUT = 20.0
"""Spreads; what is farther away is read as this far."""

FEATURES = 3
"""Of each column: its number, whether it is missing, and whether it is exactly zero."""


class VectorInput(nn.Linear):
    """A matrix on each column's number, scaled by the training split, and on whether it is missing or exactly zero."""

    center: Tensor
    scale: Tensor

    def __init__(self, *, columns: int, width: int) -> None:
        super().__init__(FEATURES * columns, width)
        self.num_embeddings = columns  # as a table of tokens calls its V
        self.register_buffer("center", torch.zeros(columns))
        self.register_buffer("scale", torch.ones(columns))

    def calibrate(self, rows: np.ndarray) -> None:
        for buffer, values in zip((self.center, self.scale), spread_of(rows), strict=True):
            fill(buffer, values)

    def forward(self, input: Tensor) -> Tensor:
        """From rows (B, T, D) to (B, T, C)."""
        missing = input.isnan()
        scaled = ((input - self.center) / self.scale).clamp(-LARGEST_INPUT, LARGEST_INPUT)
        flags = [missing.to(input.dtype), (input == 0).to(input.dtype)]
        return super().forward(torch.cat([scaled.masked_fill(missing, 0.0), *flags], dim=-1))


class Steps(NGrams):
    """A matrix on the last few steps, from each row to the next; a step that is not known is 0."""

    scale: Tensor

    def __init__(self, *, columns: int, width: int, lags: int) -> None:
        super().__init__()
        self.before = lags
        self.proj = nn.Linear(columns * lags, width, bias=False)
        self.register_buffer("scale", torch.ones(columns))

    def sparse_parameters(self) -> list[nn.Parameter]:
        """A matrix is no table."""
        return []

    def calibrate(self, rows: np.ndarray) -> None:
        fill(self.scale, spread_of_steps(rows))

    def forward(
        self, x: Tensor, tokens: Tensor, earlier: Tensor | None = None, segments: Tensor | None = None
    ) -> Tensor:
        """`tokens` are rows (B, T, D)."""
        assert segments is None, "steps cross the borders of segments"
        known = tokens if earlier is None else torch.cat([earlier.to(tokens.dtype), tokens], dim=1)
        short = tokens.size(1) + self.before - known.size(1)
        known = F.pad(known, (0, 0, short, 0), value=float("nan"))
        steps = ((known[:, 1:] - known[:, :-1]) / self.scale).clamp(-LARGEST_INPUT, LARGEST_INPUT)
        steps = steps.nan_to_num(0.0)  # (B, T + lags − 1, D)
        windows = steps.unfold(1, self.before, 1)  # (B, T, D, lags)
        return x + self.proj(windows.flatten(2))


class InputConfig(PartConfig):
    """Base of the kinds. `vectors`: whether a position holds a row of numbers, not a token."""

    vectors: ClassVar[bool] = False

    def unfit(self, model: Any) -> str | None:
        """What of a `GPTConfig` does not go with this input, as a sentence; None where all does."""
        if self.vectors == model.output.vectors:
            return None
        return (
            f"input={self.kind} and output={model.output.kind}: one is for tokens, the other for rows of numbers; "
            "both are for the same"
        )

    @abstractmethod
    def build(self, *, vocab_size: int, width: int) -> nn.Module:
        """From inputs, (B, T) or (B, T, D), to (B, T, C)."""

    def recent(self, *, vocab_size: int, width: int) -> NGrams | None:
        """What the last few inputs add to each one, where that is the input's own matter and not `model.ngrams`'."""
        return None

    @abstractmethod
    def parameters(self, *, vocab_size: int, width: int) -> int:
        """Trained numbers."""

    @abstractmethod
    def matrix_parameters(self, *, vocab_size: int, width: int) -> int:
        """Those of them that take part in matrix products."""


@register("input")
class TokenInputConfig(InputConfig):
    """Tokens: a table with a vector for each."""

    kind: Literal["tokens"] = "tokens"

    def build(self, *, vocab_size: int, width: int) -> nn.Module:
        return nn.Embedding(vocab_size, width)

    def parameters(self, *, vocab_size: int, width: int) -> int:
        return vocab_size * width

    def matrix_parameters(self, *, vocab_size: int, width: int) -> int:
        """A lookup is no product."""
        return 0


@register("input")
class LinearInputConfig(InputConfig):
    """Rows of numbers, each column scaled by its mean and spread in the training split: a matrix."""

    kind: Literal["linear"] = "linear"
    lags: int = Field(0, ge=0, le=1024)
    """How many of the last steps (differences of one row to the next) a matrix reads besides: with a model without
    `final_norm` it can then be an autoregression of this order by itself."""

    vectors: ClassVar[bool] = True

    def unfit(self, model: Any) -> str | None:
        for name, idle in (("tied", False), ("head_bias", False), ("logit_softcap", None)):
            if getattr(model, name) != idle:
                return f"{name} is for a model of tokens, and input={self.kind} reads numbers"
        if model.ngrams.kind != "none":
            return f"ngrams are of tokens, and input={self.kind} reads numbers; it has `lags`"
        if model.counts.kind != "none":
            return "counts are of tokens, and model.input reads rows of numbers; set counts=none"
        return super().unfit(model)

    def build(self, *, vocab_size: int, width: int) -> nn.Module:
        return VectorInput(columns=vocab_size, width=width)

    def recent(self, *, vocab_size: int, width: int) -> NGrams | None:
        return Steps(columns=vocab_size, width=width, lags=self.lags) if self.lags else None

    def parameters(self, *, vocab_size: int, width: int) -> int:
        return self.matrix_parameters(vocab_size=vocab_size, width=width) + width

    def matrix_parameters(self, *, vocab_size: int, width: int) -> int:
        return (FEATURES + self.lags) * vocab_size * width
