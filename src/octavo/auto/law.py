"""The law: how many bits per byte a model of the family reaches, as a share of what it has before its first step
(`TextFacts.start`), when what counts is all that it knows: n-grams with what the text has said so far, or a context
mixer.

Fitted by `benchmarks/law_fit.py` on runs of the family itself, beside either; the numbers stand in law.json and
law_mixing.json, with the range of these runs. N parameters, D bytes learned from, U bytes of the training text: in
bytes, models of different tokens are alike.
Texts differ by how much of them can be learned beside counting: a share of the law, to the power of a number of the
text's own, which is 1 for a text of the middle; its logarithm is a line over ln (N·D). It is not known before; a pilot
tells of it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib import resources
from typing import Any, NamedTuple

import numpy as np

from octavo.util.records import parse_json

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
SCATTER = ("residual", "texts", "bend", "beyond", "at")
"""How far runs and texts lie around it, and where."""
TAILS = 4.0
"""Degrees of freedom of Student's t, which texts' own numbers follow: few texts are of another kind, but those are far
off."""
TRIED = np.linspace(-4.0, 4.0, 1601)
"""Logarithms of a text's own number that are weighed."""
LIKELY = 1.2816
"""Standard deviations on both sides of the middle that hold 80 %."""


class Told(NamedTuple):
    """What a pilot told of a text: the logarithm of N·D where it stands, that of the text's own number there, and the
    standard deviation of this."""

    at: float
    own: float
    error: float


@dataclass(frozen=True)
class Law:
    """Numbers of the fit, and what is known of a text.

    Attributes:
        values: by NAMES.
        covariance: of the values.
        residual: standard deviation of a run's share around what the law says with its text's own number.
        texts: how far the logarithms of texts' own numbers lie apart at `at`: the scale of Student's t.
        bend: how far the logarithm of a text's own number moves for each factor of e of N·D: standard deviation.
        beyond: how far it is off, by a pilot, for each unit of itself: texts of other kinds are less like the law.
        at: logarithm of N·D where own numbers lie least apart.
        ranges: least and greatest of POINT in the runs.
        told: what a pilot of the text told, if there was one.
    """

    values: tuple[float, ...]
    covariance: tuple[tuple[float, ...], ...]
    residual: float
    texts: float
    bend: float
    beyond: float
    at: float
    ranges: Mapping[str, tuple[float, float]]
    told: Told | None = None

    def share(self, *point: float) -> float:
        """The model's bits per byte, divided by those before its first step."""
        return self._alone(*point) ** math.exp(self.own_at(*point)[0])

    def _alone(self, *point: float) -> float:
        """For a text of the middle."""
        return float(shares(np.array(self.values), np.array([point], dtype=np.float64))[0])

    def known(self, share: float, *point: float) -> Law:
        """For a text of which a pilot at a point came to a share: how much of it can be learned, by Bayes' rule."""
        off = (share - self._alone(*point) ** np.exp(TRIED)) / self.residual
        before = students(TRIED / self._apart(work(point)))
        return replace(self, told=Told(work(point), *middle(before * np.exp(-(off**2 - np.min(off**2)) / 2))))

    def error(self, *point: float) -> float:
        """The standard deviation of that for a new text; it grows outside of the range of the fit."""
        share, (own, own_error) = self.share(*point), self.own_at(*point)
        values = np.array([point], dtype=np.float64)
        slope = math.exp(own) * share / self._alone(*point) * slopes(np.array(self.values), values)[0]
        fit = float(slope @ np.array(self.covariance) @ slope)
        text = own_error * share * -math.log(share)
        return math.sqrt(fit + self.residual**2 + text**2) * (1 + self.outside(*point))

    def own_at(self, *point: float) -> tuple[float, float]:
        """The logarithm of the text's own number at a point, and the standard deviation of that.

        It is a line over the logarithm of N·D, whose level (`texts`) and slope (`bend`) are each text's own; a pilot
        tells of both, as far as normal deviates would.
        """
        here = work(point)
        if self.told is None:
            return 0.0, OF_TEXTS * self._apart(here)
        way, apart = here - self.told.at, self._apart(self.told.at)
        kept = max(0.0, 1 + self.bend**2 * (self.told.at - self.at) * way / apart**2)
        moved = OF_TEXTS * self.bend * self.texts / apart * way
        own = kept * self.told.own
        return own, math.hypot(kept * self.told.error, moved, self.beyond * own)

    def _apart(self, here: float) -> float:
        """How far the logarithms of texts' own numbers lie apart: the scale of Student's t."""
        return math.hypot(self.texts, self.bend * (here - self.at))

    def outside(self, *point: float) -> float:
        """How far a point is from the runs of the fit: factors of e beyond their range, added up."""
        ends = (self.ranges[name] for name in POINT)
        return sum(
            max(0.0, math.log(least / value), math.log(value / most))
            for value, (least, most) in zip(point, ends, strict=True)
        )


def work(point: Sequence[float]) -> float:
    """The logarithm of N·D, which operations go with."""
    parameters, learned, _ = point
    return math.log(parameters * learned)


def students(off: np.ndarray) -> np.ndarray:
    """The density of Student's t but for a factor."""
    return (1 + off**2 / TAILS) ** (-(TAILS + 1) / 2)


def middle(likely: np.ndarray) -> tuple[float, float]:
    """The median of TRIED, which are so likely, and a standard deviation by where 80 % of it lie."""
    below = np.cumsum(likely) - likely / 2
    low, median, high = np.interp(np.array([0.1, 0.5, 0.9]) * likely.sum(), below, TRIED)
    return float(median), float(high - low) / (2 * LIKELY)


OF_TEXTS = middle(students(TRIED / 0.1))[1] / 0.1
"""By where 80 % of it lie, the standard deviation of Student's t with a scale of 1."""


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
def shipped_law(*, mixed: bool) -> Law:
    """The law that comes with Octavo: of models beside n-grams, or beside a context mixer."""
    name = "law_mixing.json" if mixed else "law.json"
    return law_from(parse_json(resources.files("octavo.auto").joinpath(name).read_bytes()))


def law_from(found: Mapping[str, Any]) -> Law:
    """From the plain data of law.json."""
    return Law(
        values=tuple(found["values"][name] for name in NAMES),
        covariance=tuple(map(tuple, found["covariance"])),
        **{name: found[name] for name in SCATTER},
        ranges={name: (least, most) for name, (least, most) in found["ranges"].items()},
    )


def as_plain(law: Law) -> dict[str, Any]:
    """As it stands in law.json."""
    return {
        "values": dict(zip(NAMES, (float(f"{value:.5g}") for value in law.values), strict=True)),
        "covariance": [[float(f"{value:.4g}") for value in row] for row in law.covariance],
        **{name: float(f"{getattr(law, name):.4g}") for name in SCATTER},
        "ranges": {name: list(ends) for name, ends in law.ranges.items()},
    }
