"""The law: how many bits per byte a model of the family reaches, as a share of what it has before its first step
(`facts.before_learning`), when its n-grams and what the text has said so far are all that it knows.

Fitted by `benchmarks/law.py` on runs of the family itself; its numbers stand in law.json, with the range that they were
fitted in. N parameters, D bytes learned from, U bytes of the training text: in bytes, models of different tokens are
alike.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
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
APART = 1.8
"""Standard deviations, beyond which a pilot says that a text is of another kind; those of the fit stay within 1.6."""
NAMES = ("floor", "size", "size_power", "data", "data_power", "fit", "fit_power", "blend", "passes_power")


@dataclass(frozen=True)
class Law:
    """Numbers of the fit, and for a text of which more is known, the factor by which it is `moved`.

    Attributes:
        values: by NAMES.
        covariance: of the values.
        residual: standard deviation of a run around the law, as a share.
        text: the same between texts of any kind.
        alike: between texts of the kinds that the law was fitted on, found by leaving each out of the fit.
        beyond: of other kinds, how far off the law is once it is moved to where a pilot ended, as a share of that move.
        ranges: least and greatest of POINT in the runs.
    """

    values: tuple[float, ...]
    covariance: tuple[tuple[float, ...], ...]
    residual: float
    text: float
    alike: float
    beyond: float
    ranges: Mapping[str, tuple[float, float]]
    moved: float = 1.0

    def share(self, *point: float) -> float:
        """The model's bits per byte, divided by those before its first step."""
        found = float(shares(np.array(self.values), np.array([point], dtype=np.float64))[0])
        return min(1.0, self.moved * found)

    def known(self, share: float, *point: float) -> Law:
        """For a text of which a pilot at a point came to a share. Where that is as expected, the text is like those of
        the fit; for another, the law is moved to where the pilot ended, and less sure."""
        expected = self.share(*point)
        off = share - expected
        if abs(off) <= APART * math.hypot(self.residual, self.alike):
            return replace(self, text=self.alike)
        return replace(self, text=math.hypot(self.alike, self.beyond * off), moved=share / expected)

    def error(self, *point: float) -> float:
        """The standard deviation of that for a new text; it grows outside of the range of the fit."""
        slope = slopes(np.array(self.values), np.array([point], dtype=np.float64))[0]
        fit = float(slope @ np.array(self.covariance) @ slope)
        return math.sqrt(fit + self.residual**2 + self.text**2) * (1 + self.outside(*point))

    def outside(self, *point: float) -> float:
        """How far a point is from the runs of the fit: factors of e beyond their range, added up."""
        ends = (self.ranges[name] for name in POINT)
        return sum(
            max(0.0, math.log(least / value), math.log(value / most))
            for value, (least, most) in zip(point, ends, strict=True)
        )


def shares(values: np.ndarray, points: np.ndarray) -> np.ndarray:
    """(n,) shares at points (n, 3) of POINT.

    The network alone has floor + ((size · N^−size_power)^JOINT + (data · D^−data_power)^JOINT)^(1/JOINT)
    + fit · (N/U)^fit_power · (D/U)^passes_power (after Kaplan et al. 2020, with a term for what is learned by heart).
    Mixed with counts it is never above 1, and better than both where they are alike: a soft minimum of width `blend`.
    """
    floor, size, size_power, data, data_power, fit, fit_power, blend, passes_power = values
    n, d, u = points.T
    too_small, too_little = size * (n / 1e6) ** -size_power, data * (d / 1e6) ** -data_power
    network = (
        floor
        + (too_small**JOINT + too_little**JOINT) ** (1 / JOINT)
        + fit * (n / u) ** fit_power * (d / u) ** passes_power
    )
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
        residual=found["residual"],
        text=found["text"],
        alike=found["alike"],
        beyond=found["beyond"],
        ranges={name: (least, most) for name, (least, most) in found["ranges"].items()},
    )


def as_plain(
    values: Sequence[float],
    covariance: np.ndarray,
    *,
    residual: float,
    text: float,
    alike: float,
    beyond: float,
    ranges: Mapping[str, tuple[float, float]],
) -> dict[str, Any]:
    """As it stands in law.json."""
    return {
        "values": dict(zip(NAMES, (float(f"{value:.5g}") for value in values), strict=True)),
        "covariance": [[float(f"{value:.4g}") for value in row] for row in covariance.tolist()],
        "residual": float(f"{residual:.4g}"),
        "text": float(f"{text:.4g}"),
        "alike": float(f"{alike:.4g}"),
        "beyond": float(f"{beyond:.4g}"),
        "ranges": {name: list(ends) for name, ends in ranges.items()},
    }
