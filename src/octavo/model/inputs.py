"""How what stands at a position becomes a vector: a token by a table, a row of numbers by a matrix.

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
from octavo.model.ngram_vectors import NGrams
from octavo.model.vectors import fill, spread_of, spread_of_steps

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
