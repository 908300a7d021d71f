"""What a model says at each position: logits of the next token, or a distribution of the next row of numbers.

B sequences, T positions, C width, D columns, P numbers that describe a distribution, V vocabulary (of rows, D).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import ClassVar, Literal

import numpy as np
import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional as F

from octavo.config.parts import PartConfig, register
from octavo.model.families import Bins, Family, Gaussian, Mixture, Quantiles, StudentT
from octavo.model.vectors import fill, last_seen, spread_of, spread_of_steps

SEEN = 10.0
"""Spreads; a channel's number that is farther away is told to the channels after it as this far."""

NO_ZERO = -2.0
"""The logit of a zero before anything is learned."""


class Chain(nn.Module):
    """What the channels before each channel say about it: a small layer of its own, and a matrix besides.

    Args:
        hidden: K, features of each channel's layer.
    """

    def __init__(self, *, columns: int, hidden: int, numbers: int) -> None:
        super().__init__()
        self.columns, self.hidden, self.numbers = columns, hidden, numbers
        self.into = nn.Parameter(torch.zeros(columns * hidden, 2 * columns))
        self.skip = nn.Parameter(torch.zeros(columns * numbers, 2 * columns))
        self.out = nn.Parameter(torch.empty(columns, hidden, numbers))
        nn.init.normal_(self.out, std=0.02)
        earlier = torch.ones(columns, columns).tril(-1).repeat(1, 2)  # (D, 2D): channels before each one
        self.register_buffer("earlier", earlier, persistent=False)

    def forward(self, pieces: Tensor, seen: Tensor) -> Tensor:
        """From what the head says without them (…, D·(P + K)) and the channels (…, 2D) to (…, D, P)."""
        alone, features = pieces.split([self.columns * self.numbers, self.columns * self.hidden], dim=-1)
        into = self.into * self.earlier.repeat_interleave(self.hidden, dim=0)
        skip = self.skip * self.earlier.repeat_interleave(self.numbers, dim=0)
        features = F.gelu(features + F.linear(seen, into)).unflatten(-1, (self.columns, self.hidden))
        own = torch.einsum("...dk,dkp->...dp", features, self.out)
        return (alone + F.linear(seen, skip)).unflatten(-1, (self.columns, self.numbers)) + own


class VectorHead(nn.Linear):
    """A distribution for each column of the next row.

    Its numbers describe u, which is (next − base) / scale: the base is the last number seen, or the column's mean, and
    the scale is what u's spread was in the training split. So every density is one of the numbers themselves.
    """

    center: Tensor
    scale: Tensor

    def __init__(
        self, *, width: int, columns: int, family: Family, zero: bool, difference: bool, hidden: int | None
    ) -> None:
        numbers = family.size + zero
        super().__init__(width, columns * (numbers + (hidden or 0)))
        self.family, self.zero, self.difference, self.columns = family, zero, difference, columns
        self.chain = None if hidden is None else Chain(columns=columns, hidden=hidden, numbers=numbers)
        self.register_buffer("center", torch.zeros(columns))
        self.register_buffer("scale", torch.ones(columns))

    def calibrate(self, rows: np.ndarray) -> None:
        mean, spread = spread_of(rows)
        fill(self.center, mean)
        fill(self.scale, spread_of_steps(rows) if self.difference else spread)

    def base(self, rows: Tensor) -> Tensor:
        """What is predicted from, (B, T, D), after each of rows (B, T, D)."""
        return last_seen(rows, self.center) if self.difference else self.center.expand_as(rows)

    def forward(self, input: Tensor, rows: Tensor | None = None, values: Tensor | None = None) -> Tensor:
        """What describes the next row, (B, T, D·P); `input` (B, T, C). Channels that follow one another need the
        truth: the rows and the `values` (B, T, D) that follow them. Without it, what `draw` needs.
        """
        pieces = super().forward(input)
        if self.chain is None or rows is None or values is None:
            return pieces
        return self.chain(pieces, self.heard((values - self.base(rows)) / self.scale, values)).flatten(-2)

    @staticmethod
    def heard(u: Tensor, values: Tensor) -> Tensor:
        """What a channel hears of the others, (…, 2D); nothing of one that is missing."""
        return torch.cat([u.nan_to_num(0.0).clamp(-SEEN, SEEN), (values == 0).to(u.dtype)], dim=-1)

    def log_prob(self, raw: Tensor, rows: Tensor, values: Tensor) -> Tensor:
        """Log density of each number that follows, (B, T, D), in nats; 0 where it is missing. Of one that is exactly
        zero, where the head has a mass there, the log of that mass."""
        return self._log_prob(raw.unflatten(-1, (self.columns, -1)), self.base(rows), values)

    def penalty(self, raw: Tensor, rows: Tensor, values: Tensor) -> Tensor:
        """What is learned to be small at each number that follows, (B, T, D): of most families −log_prob, but for a
        constant."""
        return -self._found(
            raw.unflatten(-1, (self.columns, -1)),
            self.base(rows),
            values,
            lambda *at: -self.family.penalty(*at),
        )

    def log_density(self, pieces: Tensor, rows: Tensor, values: Tensor, drawn: Tensor) -> Tensor:
        """The same of one row (B, D) after rows (B, T, D), from what `forward` gave for the last position (B, …). Of
        channels that see one another, each is told of what was `drawn` for those before it."""
        base = self.base(rows)[:, -1]
        if self.chain is None:
            return self._log_prob(pieces.unflatten(-1, (self.columns, -1)), base, values)
        return self._log_prob(
            self.chain(pieces, self.heard((drawn - base) / self.scale, drawn)), base, values
        )

    def _log_prob(self, numbers: Tensor, base: Tensor, values: Tensor) -> Tensor:
        return self._found(numbers, base, values, lambda *at: self.family.log_prob(*at) - self.scale.log())

    def _found(
        self, numbers: Tensor, base: Tensor, values: Tensor, of_density: Callable[[Tensor, Tensor], Tensor]
    ) -> Tensor:
        """`of_density` of each number that is no mass at zero, and the log of the mass of each that is."""
        missing = values.isnan()
        u = ((values - base) / self.scale).masked_fill(missing, 0.0)
        scores = of_density(numbers[..., : self.family.size], u)
        if self.zero:
            logit = numbers[..., -1] + NO_ZERO
            scores = torch.where(values == 0, F.logsigmoid(logit), F.logsigmoid(-logit) + scores)
        return scores.masked_fill(missing, 0.0)

    def pinball(self, raw: Tensor, rows: Tensor, values: Tensor) -> Tensor:
        """Twice the mean pinball loss of each number that follows, (B, T, D), in spreads; 0 where it is missing. Of a
        head of quantiles."""
        missing = values.isnan()
        u = ((values - self.base(rows)) / self.scale).masked_fill(missing, 0.0)
        losses = self.family.pinball(raw.unflatten(-1, (self.columns, -1)), u)
        return losses.masked_fill(missing, 0.0)

    def draw(self, pieces: Tensor, rows: Tensor, generator: torch.Generator) -> Tensor:
        """A next row (B, D) after rows (B, T, D), from what `forward` gave for the last position (B, …)."""
        base = self.base(rows)[:, -1]
        if self.chain is None:
            return self._numbers(pieces.unflatten(-1, (self.columns, -1)), base, self.scale, generator)
        values = torch.full_like(base, float("nan"))
        for channel in range(self.columns):
            numbers = self.chain(pieces, self.heard((values - base) / self.scale, values))[:, channel]
            values[:, channel] = self._numbers(numbers, base[:, channel], self.scale[channel], generator)
        return values

    def _numbers(self, raw: Tensor, base: Tensor, scale: Tensor, generator: torch.Generator) -> Tensor:
        drawn = base + scale * self.family.draw(raw[..., : self.family.size], generator)
        if not self.zero:
            return drawn
        chance = torch.rand(base.shape, generator=generator, device=base.device)
        return torch.where(chance < (raw[..., -1] + NO_ZERO).sigmoid(), 0.0, drawn)


class OutputConfig(PartConfig):
    """Base of the kinds. `vectors`: whether it predicts a row of numbers, not a token."""

    vectors: ClassVar[bool] = False

    @abstractmethod
    def build(self, *, vocab_size: int, width: int, bias: bool) -> nn.Linear:
        """From (B, T, C) to what describes what follows."""

    @abstractmethod
    def matrix_parameters(self, *, vocab_size: int, width: int) -> int:
        """Numbers that take part in matrix products."""

    def parameters(self, *, vocab_size: int, width: int, bias: bool) -> int:
        return self.matrix_parameters(vocab_size=vocab_size, width=width) + bias * vocab_size


@register("output")
class TokenOutputConfig(OutputConfig):
    """Logits of the next token."""

    kind: Literal["tokens"] = "tokens"

    def build(self, *, vocab_size: int, width: int, bias: bool) -> nn.Linear:
        return nn.Linear(width, vocab_size, bias=bias)

    def matrix_parameters(self, *, vocab_size: int, width: int) -> int:
        return width * vocab_size


class VectorOutputConfig(OutputConfig):
    """Base of the distributions of a row of numbers."""

    vectors: ClassVar[bool] = True

    predict: Literal["difference", "value"] = "difference"
    """Around what it predicts: the last number seen, or the column's mean."""
    zero: bool = False
    """A probability that the number is exactly zero, besides the density of all others: for what rests, such as the
    force under a foot in the air, where a density alone would grow without bound."""
    channels: Literal["independent", "chained"] = "independent"
    """Given the past, columns are independent, or each one also sees those that stand before it in the same row."""
    hidden: int = Field(16, ge=1, le=2**16)
    """Features of the layer that sees these; for `chained`."""
    floor: float = Field(1e-3, gt=0, le=1)
    """Least spread, as a share of what the predicted number's was in the training split."""

    @abstractmethod
    def family(self) -> Family:
        """The distribution whose parameters the head predicts."""

    def build(self, *, vocab_size: int, width: int, bias: bool) -> VectorHead:
        """It always has a bias."""
        return VectorHead(
            width=width,
            columns=vocab_size,
            family=self.family(),
            zero=self.zero,
            difference=self.predict == "difference",
            hidden=self.hidden if self.channels == "chained" else None,
        )

    @property
    def _outputs(self) -> int:
        """Of the matrix, for each column."""
        return self.family().size + self.zero + (self.hidden if self.channels == "chained" else 0)

    def matrix_parameters(self, *, vocab_size: int, width: int) -> int:
        count = vocab_size * width * self._outputs
        if self.channels == "chained":
            numbers = self.family().size + self.zero
            count += 2 * vocab_size**2 * (self.hidden + numbers) + vocab_size * self.hidden * numbers
        return count

    def parameters(self, *, vocab_size: int, width: int, bias: bool) -> int:
        return self.matrix_parameters(vocab_size=vocab_size, width=width) + vocab_size * self._outputs


@register("output")
class GaussianConfig(VectorOutputConfig):
    """A normal distribution."""

    kind: Literal["gaussian"] = "gaussian"

    def family(self) -> Family:
        return Gaussian(floor=self.floor)


@register("output")
class StudentTConfig(VectorOutputConfig):
    """Student's t: heavier tails, as heavy as the data want them (DeepAR, Salinas et al. 2017)."""

    kind: Literal["student-t"] = "student-t"

    def family(self) -> Family:
        return StudentT(floor=self.floor)


@register("output")
class MixtureConfig(VectorOutputConfig):
    """Several normal distributions (Bishop 1994)."""

    kind: Literal["mixture"] = "mixture"
    components: int = Field(4, ge=1, le=256)
    """How many."""

    def family(self) -> Family:
        return Mixture(components=self.components, floor=self.floor)


@register("output")
class QuantilesConfig(VectorOutputConfig):
    """Quantiles, with a density: straight lines between them and exponential tails."""

    kind: Literal["quantiles"] = "quantiles"
    levels: int = Field(20, ge=2, le=1024)
    """How many."""

    def family(self) -> Family:
        return Quantiles(levels=self.levels, floor=self.floor)


@register("output")
class BinsConfig(VectorOutputConfig):
    """Numbers scaled and cut into bins, and cross-entropy (Ansari et al. 2024, Chronos)."""

    kind: Literal["bins"] = "bins"
    bins: int = Field(64, ge=4, le=65_536)
    """How many."""
    limit: float = Field(8.0, gt=0, le=1e6)
    """Spreads that they reach to on either side."""

    def family(self) -> Family:
        return Bins(bins=self.bins, limit=self.limit)
