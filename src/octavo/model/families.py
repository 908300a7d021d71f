"""What the numbers of a head mean: a distribution of one number u, whose usual size is 1. Pure functions.

`raw` is (…, P): what a head gives for each u (…). All zeros is a sensible distribution around 0.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from statistics import NormalDist

import torch
from torch import Tensor
from torch.nn import functional as F

ONE = math.log(math.e - 1)  # softplus of it is 1
LOG_2PI = math.log(2 * math.pi)


def positive(raw: Tensor, floor: float, at_zero: float = 1.0) -> Tensor:
    """A spread above `floor`; `floor` + `at_zero` where raw is 0."""
    return floor + at_zero * F.softplus(raw + ONE)


def uniform(like: Tensor, generator: torch.Generator) -> Tensor:
    """A draw between 0 and 1, neither of them, for each number."""
    drawn = torch.rand(like.shape, generator=generator, dtype=like.dtype, device=like.device)
    return drawn.clamp(1e-7, 1 - 1e-7)


def normal(like: Tensor, generator: torch.Generator) -> Tensor:
    """A standard normal draw for each number."""
    return torch.randn(like.shape, generator=generator, dtype=like.dtype, device=like.device)


class Family(ABC):
    """A kind of distribution. `size` is P."""

    size: int
    by_likelihood: bool = True
    """Whether it learns by its log density, as `log_prob` gives it; else by `penalty`."""

    def penalty(self, raw: Tensor, u: Tensor) -> Tensor:
        """What is learned to be small at u (…)."""
        return -self.log_prob(raw, u)

    @abstractmethod
    def log_prob(self, raw: Tensor, u: Tensor) -> Tensor:
        """Log density at u (…), in nats."""

    def pinball(self, raw: Tensor, u: Tensor) -> Tensor:
        """Twice the mean pinball loss over the levels at u (…), an estimate of the CRPS. Of quantiles alone."""
        raise AssertionError("no other family has a pinball loss")

    @abstractmethod
    def draw(self, raw: Tensor, generator: torch.Generator) -> Tensor:
        """A number (…) from each distribution."""


class Gaussian(Family):
    """Normal: place and spread."""

    size = 2

    def __init__(self, *, floor: float) -> None:
        self.floor = floor

    def log_prob(self, raw: Tensor, u: Tensor) -> Tensor:
        spread = positive(raw[..., 1], self.floor)
        return -0.5 * ((u - raw[..., 0]) / spread) ** 2 - spread.log() - 0.5 * LOG_2PI

    def draw(self, raw: Tensor, generator: torch.Generator) -> Tensor:
        return raw[..., 0] + positive(raw[..., 1], self.floor) * normal(raw[..., 0], generator)


class StudentT(Family):
    """Student's t: place, spread, and degrees of freedom above 1."""

    size = 3
    least = 1.0

    def __init__(self, *, floor: float) -> None:
        self.floor = floor

    def freedom(self, raw: Tensor) -> Tensor:
        """Degrees of freedom; 5 or so where raw is 0."""
        return self.least + F.softplus(raw[..., 2] + 4.0)

    def log_prob(self, raw: Tensor, u: Tensor) -> Tensor:
        spread, freedom = positive(raw[..., 1], self.floor), self.freedom(raw)
        z = (u - raw[..., 0]) / spread
        constant = torch.lgamma((freedom + 1) / 2) - torch.lgamma(freedom / 2)
        constant = constant - 0.5 * (freedom * math.pi).log() - spread.log()
        return constant - (freedom + 1) / 2 * torch.log1p(z * z / freedom)

    def draw(self, raw: Tensor, generator: torch.Generator) -> Tensor:
        freedom = self.freedom(raw)
        gamma = torch._standard_gamma(freedom / 2, generator=generator)
        z = normal(freedom, generator) * (freedom / 2 / gamma.clamp_min(1e-6)).sqrt()
        return raw[..., 0] + positive(raw[..., 1], self.floor) * z


class Mixture(Family):
    """Several normals: weights, places, spreads. They begin at different places, or they would stay alike."""

    def __init__(self, *, components: int, floor: float) -> None:
        self.components, self.floor, self.size = components, floor, 3 * components
        self.places = torch.linspace(-1.5, 1.5, components) if components > 1 else torch.zeros(1)

    def _parts(self, raw: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        weights, places, spreads = raw.unflatten(-1, (3, self.components)).unbind(-2)
        return weights, places + self.places.to(raw), positive(spreads, self.floor)

    def log_prob(self, raw: Tensor, u: Tensor) -> Tensor:
        weights, places, spreads = self._parts(raw)
        each = -0.5 * ((u[..., None] - places) / spreads) ** 2 - spreads.log() - 0.5 * LOG_2PI
        return (weights.log_softmax(dim=-1) + each).logsumexp(dim=-1)

    def draw(self, raw: Tensor, generator: torch.Generator) -> Tensor:
        weights, places, spreads = self._parts(raw)
        below = weights.softmax(dim=-1).cumsum(dim=-1)
        chosen = (uniform(raw[..., :1], generator) > below[..., :-1]).sum(dim=-1, keepdim=True)
        place, spread = places.gather(-1, chosen)[..., 0], spreads.gather(-1, chosen)[..., 0]
        return place + spread * normal(place, generator)


class Quantiles(Family):
    """Quantiles of evenly spread levels; straight lines between them, exponential tails beyond.

    The density jumps at each quantile, and its slope knows nothing of jumps: by it every gap that a number falls into
    would shrink, and none would grow. So quantiles learn by the pinball loss, and tails by what falls into them.
    """

    by_likelihood = False

    def __init__(self, *, levels: int, floor: float) -> None:
        self.count, self.floor, self.size = levels, floor, levels + 2
        self.levels = (torch.arange(levels) + 0.5) / levels
        places = math.sqrt(2) * torch.erfinv(2 * self.levels.double() - 1)
        self.gaps = places.diff().float()  # a normal distribution's
        self.lowest = NormalDist().inv_cdf(0.5 / levels)

    def _parts(self, raw: Tensor) -> tuple[Tensor, Tensor]:
        """The quantiles (…, K), and the scales of the lower and the upper tail (…, 2)."""
        gaps = self.floor / self.count + self.gaps.to(raw) * F.softplus(raw[..., 1:-2] + ONE)
        first = raw[..., :1] + self.lowest
        return torch.cat([first, first + gaps.cumsum(dim=-1)], dim=-1), positive(
            raw[..., -2:], self.floor, 0.5
        )

    def log_prob(self, raw: Tensor, u: Tensor) -> Tensor:
        places, tails = self._parts(raw)
        edge, each = math.log(0.5 / self.count), math.log(1 / self.count)
        below, above = (places[..., 0] - u) / tails[..., 0], (u - places[..., -1]) / tails[..., 1]
        index = (u[..., None] >= places).sum(dim=-1)  # 0 below all of them, K above
        inside = (index > 0) & (index < self.count)
        gaps = places.diff(dim=-1).gather(-1, (index - 1).clamp(0, self.count - 2)[..., None])[..., 0]
        low = edge - tails[..., 0].log() - below.clamp_min(0)
        high = edge - tails[..., 1].log() - above.clamp_min(0)
        return torch.where(inside, each - gaps.log(), torch.where(index == 0, low, high))

    def draw(self, raw: Tensor, generator: torch.Generator) -> Tensor:
        places, tails = self._parts(raw)
        level = uniform(raw[..., 0], generator)
        at = (level * self.count - 0.5).clamp(0, self.count - 1)
        index = at.floor().long().clamp(max=self.count - 2)[..., None]
        left, right = places.gather(-1, index)[..., 0], places.gather(-1, index + 1)[..., 0]
        inside = left + (right - left) * (at - index[..., 0])
        low = places[..., 0] + tails[..., 0] * (2 * self.count * level).clamp(max=1.0).log()
        high = places[..., -1] - tails[..., 1] * (2 * self.count * (1 - level)).clamp(max=1.0).log()
        edge = 0.5 / self.count
        return torch.where(level < edge, low, torch.where(level > 1 - edge, high, inside))

    def penalty(self, raw: Tensor, u: Tensor) -> Tensor:
        places, tails = self._parts(raw)
        beyond = torch.stack([places[..., 0] - u, u - places[..., -1]], dim=-1).detach()
        return self.pinball(raw, u) + torch.where(beyond > 0, beyond / tails + tails.log(), 0.0).sum(dim=-1)

    def pinball(self, raw: Tensor, u: Tensor) -> Tensor:
        error = u[..., None] - self._parts(raw)[0]
        levels = self.levels.to(raw)
        return 2 * torch.maximum(levels * error, (levels - 1) * error).mean(dim=-1)


class Bins(Family):
    """Numbers scaled and cut into bins (Ansari et al. 2024, Chronos): narrow around 0 and wider outwards, evenly likely
    inside each; what lies beyond ± `limit` belongs to exponential tails of the outer ones."""

    steepness = 4.0  # the outer bins are some cosh(4) = 27 times as wide as those around 0

    def __init__(self, *, bins: int, limit: float) -> None:
        self.size, self.limit = bins, limit
        even = torch.linspace(-self.steepness, self.steepness, bins + 1, dtype=torch.float64)
        edges = (limit * even.sinh() / math.sinh(self.steepness)).float()
        self.inner, self.left, self.widths = edges[1:-1].contiguous(), edges[:-1], edges.diff()
        # The inner edge of an outer bin.
        self.inwards = limit * math.sinh(self.steepness * (1 - 2 / bins)) / math.sinh(self.steepness)

    def encode(self, u: Tensor) -> Tensor:
        """The bin (…) of each number."""
        return torch.bucketize(u.contiguous(), self.inner.to(u.device), right=True)

    def decode(self, index: Tensor, share: Tensor | float = 0.5) -> Tensor:
        """The number at a share of each bin (…) from its left edge."""
        return self.left.to(index.device)[index] + share * self.widths.to(index.device)[index]

    def log_prob(self, raw: Tensor, u: Tensor) -> Tensor:
        index = self.encode(u)
        chosen = raw.log_softmax(dim=-1).gather(-1, index[..., None])[..., 0]
        widths = self.widths.to(raw)[index]
        outer = (index == 0) | (index == self.size - 1)
        # From its inner edge outwards, with the bin's width as its scale.
        return chosen - widths.log() - torch.where(outer, (u.abs() - self.inwards).clamp_min(0) / widths, 0.0)

    def draw(self, raw: Tensor, generator: torch.Generator) -> Tensor:
        below = raw.softmax(dim=-1).cumsum(dim=-1)
        index = (uniform(raw[..., :1], generator) > below[..., :-1]).sum(dim=-1)
        share = uniform(raw[..., 0], generator)
        inside = self.decode(index, share)
        beyond = self.inwards - self.widths.to(raw)[index] * share.log()
        high, low = index == self.size - 1, index == 0
        return torch.where(high, beyond, torch.where(low, -beyond, inside))
