"""The law: how many bits per byte a model of the family reaches, as a share of what it has before its first step
(`TextFacts.start`), when its n-grams and what the text has said so far are all that it knows.

Fitted by `benchmarks/law_fit.py` on runs of the family itself; its numbers stand in law.json, with the range of these
runs. N parameters, D bytes learned from, U bytes of the training text: in bytes, models of different tokens are alike.
Texts differ by how much of them can be learned beside counting: a share of the law, to the power of a number of the
text's own, which is 1 for a text of the middle. It is not known before; a pilot tells of it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from importlib import resources
from typing import Any

import numpy as np

from octavo.ground.records import parse_json

POINT = ("parameters", "bytes", "train_bytes")
"""What the law is told: N, D and U."""
JOINT = 3.0
"""How sharply a model goes over from having read too little to being too small; 1 would add the two up."""
NAMES = (
    "floor",
    "size",
    "size_power",
    "data",
    "data_power",
    "fit",
    "fit_power",
    "blend",
    "passes_power",
    "counted",
)
TAILS = 4.0
"""Degrees of freedom of Student's t, which texts' own numbers follow: few texts are of another kind, but those are far
off."""
TRIED = np.linspace(-4.0, 4.0, 1601)
"""Logarithms of a text's own number that are weighed."""
LIKELY = 1.2816
"""Standard deviations on both sides of the middle that hold 80 %."""


@dataclass(frozen=True)
class Law:
    """Numbers of the fit, and what is known of a text.

    Attributes:
        values: by NAMES.
        covariance: of the values.
        residual: standard deviation of a run's share around what the law says with its text's own number.
        texts: how far the logarithms of texts' own numbers lie apart: the scale of Student's t.
        bend: standard deviation of the logarithm of a text's own number by a pilot around that by its other runs,
            beyond what `residual` explains.
        ranges: least and greatest of POINT in the runs.
        own: the text's own number, the middle of what it may be; 1 where nothing is known.
        own_error: standard deviation of its logarithm, by where 80 % lie; None: of any text.
    """

    values: tuple[float, ...]
    covariance: tuple[tuple[float, ...], ...]
    residual: float
    texts: float
    bend: float
    ranges: Mapping[str, tuple[float, float]]
    own: float = 1.0
    own_error: float | None = None

    def share(self, *point: float) -> float:
        """The model's bits per byte, divided by those before its first step."""
        found = float(shares(np.array(self.values), np.array([point], dtype=np.float64))[0])
        return min(1.0, found) ** self.own

    def known(self, share: float, *point: float) -> Law:
        """For a text of which a pilot at a point came to a share: how much of it can be learned, by Bayes' rule."""
        expected = replace(self, own=1.0).share(*point)
        off = (share - expected ** np.exp(TRIED)) / self.residual
        own, error = middle(_of_any_text(self.texts) * np.exp(-(off**2 - np.min(off**2)) / 2))
        return replace(self, own=math.exp(own), own_error=math.hypot(error, self.bend))

    def error(self, *point: float) -> float:
        """The standard deviation of that for a new text; it grows outside of the range of the fit."""
        share = self.share(*point)
        values = np.array([point], dtype=np.float64)
        alone = min(1.0, float(shares(np.array(self.values), values)[0]))
        slope = self.own * share / alone * slopes(np.array(self.values), values)[0]
        fit = float(slope @ np.array(self.covariance) @ slope)
        of_text = middle(_of_any_text(self.texts))[1] if self.own_error is None else self.own_error
        text = of_text * share * -math.log(share)
        return math.sqrt(fit + self.residual**2 + text**2) * (1 + self.outside(*point))

    def outside(self, *point: float) -> float:
        """How far a point is from the runs of the fit: factors of e beyond their range, added up."""
        ends = (self.ranges[name] for name in POINT)
        return sum(
            max(0.0, math.log(least / value), math.log(value / most))
            for value, (least, most) in zip(point, ends, strict=True)
        )


def _of_any_text(scale: float) -> np.ndarray:
    """How likely each of TRIED is before anything is known of a text."""
    return (1 + (TRIED / scale) ** 2 / TAILS) ** (-(TAILS + 1) / 2)


def middle(likely: np.ndarray) -> tuple[float, float]:
    """The median of TRIED, which are so likely, and a standard deviation by where 80 % of it lie."""
    below = np.cumsum(likely) - likely / 2
    low, median, high = np.interp(np.array([0.1, 0.5, 0.9]) * likely.sum(), below, TRIED)
    return float(median), float(high - low) / (2 * LIKELY)


def shares(values: np.ndarray, points: np.ndarray) -> np.ndarray:
    """(n,) shares at points (n, 3) of POINT, for a text of the middle.

    The network alone has (floor + ((size · N^−size_power)^JOINT + (data · D^−data_power)^JOINT)^(1/JOINT)) · U^counted
    + fit · (N/U)^fit_power · (D/U)^passes_power (after Kaplan et al. 2020, with a term for what is learned by heart):
    the longer a text, the better is counting, which it is compared with. Mixed with counts it is never above 1, and
    better than both where they are alike: a soft minimum of width `blend`.
    """
    floor, size, size_power, data, data_power, fit, fit_power, blend, passes_power, counted = values
    n, d, u = points.T
    too_small, too_little = size * (n / 1e6) ** -size_power, data * (d / 1e6) ** -data_power
    network = (floor + (too_small**JOINT + too_little**JOINT) ** (1 / JOINT)) * (u / 1e6) ** counted + fit * (
        n / u
    ) ** fit_power * (d / u) ** passes_power
    return -blend * np.logaddexp(-1 / blend, -network / blend)


def slopes(values: np.ndarray, points: np.ndarray) -> np.ndarray:
    """(n, parameters of the law) of the shares, by differences."""
    steps = 1e-5 * np.maximum(1e-3, np.abs(values))
    return np.stack(
        [
            (shares(values + step * unit, points) - shares(values - step * unit, points)) / (2 * step)
            for step, unit in zip(steps, np.eye(len(values)), strict=True)
        ],
        axis=1,
    )


@cache
def shipped_law() -> Law:
    """The law that comes with Octavo."""
    return law_from(parse_json(resources.files("octavo.auto").joinpath("law.json").read_bytes()))


def law_from(found: Mapping[str, Any]) -> Law:
    """From the plain data of law.json."""
    return Law(
        values=tuple(found["values"][name] for name in NAMES),
        covariance=tuple(map(tuple, found["covariance"])),
        **{name: found[name] for name in ("residual", "texts", "bend")},
        ranges={name: (least, most) for name, (least, most) in found["ranges"].items()},
    )


def as_plain(law: Law) -> dict[str, Any]:
    """As it stands in law.json."""
    return {
        "values": dict(zip(NAMES, (float(f"{value:.5g}") for value in law.values), strict=True)),
        "covariance": [[float(f"{value:.4g}") for value in row] for row in law.covariance],
        **{name: float(f"{getattr(law, name):.4g}") for name in ("residual", "texts", "bend")},
        "ranges": {name: list(ends) for name, ends in law.ranges.items()},
    }
