"""A loss curve and its noise: its level, its fall at the end, its lowest point, and how certain these are.

Nothing is assumed about how noisy a curve is; that is estimated from the curve itself, from the scatter of second
differences, which a smooth trend hardly touches. Medians throughout, so that single wild values do not decide.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

SIGMA = 1.4826
"""Median absolute deviation × this = standard deviation, for normal noise."""

POINTS = 120
"""Points that a slope is estimated from at most; a longer curve is thinned by medians first."""


@dataclass(frozen=True)
class Trend:
    """A straight line through a part of a curve."""

    slope: float
    """Nats per step."""
    error: float
    """Its standard error."""
    span: float
    """Steps from the part's first point to its last."""
    points: int

    @property
    def fall(self) -> float:
        """Nats by which the line falls over the part."""
        return -self.slope * self.span

    @property
    def doubt(self) -> float:
        """Standard error of the fall."""
        return self.error * self.span


@dataclass(frozen=True)
class Curve:
    """Losses by step, finite, in the order of the steps."""

    steps: np.ndarray
    losses: np.ndarray

    @classmethod
    def of(cls, rows: Iterable[Mapping[str, Any]], event: str) -> Curve:
        """From rows of metrics.jsonl; of a step that was done again, the last; rows without a finite loss are out."""
        points = {}
        for row in rows:
            loss = row.get("loss")
            if row.get("event") == event and isinstance(loss, int | float) and math.isfinite(loss):
                points[int(row["step"])] = float(loss)
        ordered = sorted(points)
        return cls(np.array(ordered, float), np.array([points[step] for step in ordered], float))

    def __len__(self) -> int:
        return len(self.steps)

    @property
    def noise(self) -> float:
        """Standard deviation of one value about the trend; 0 where there are too few to tell."""
        if len(self) < 4:
            return 0.0
        second = self.losses[:-2] - 2 * self.losses[1:-1] + self.losses[2:]
        second = second[-max(4, len(second) // 2) :]  # the steep start bends; the end tells the noise
        return SIGMA * float(np.median(np.abs(second))) / math.sqrt(6)

    @property
    def best(self) -> int:
        """Index of the lowest loss, the first of them."""
        return int(self.losses.argmin())

    def level(self, at: float, reach: float) -> float:
        """Median loss of the values within `reach` steps of a step, or the nearest one's where there is none."""
        near = np.abs(self.steps - at) <= reach
        if not near.any():
            near[int(np.abs(self.steps - at).argmin())] = True
        return float(np.median(self.losses[near]))

    def tail(self, share: float) -> Curve:
        """The part within the last `share` of the steps."""
        inside = self.steps >= self.steps[-1] * (1 - share)
        return Curve(self.steps[inside], self.losses[inside])

    def thinned(self) -> Curve:
        """At most `POINTS` points, each the median of its neighbours."""
        if len(self) <= POINTS:
            return self
        edges = np.linspace(0, len(self), POINTS + 1).astype(int)
        parts = [slice(first, stop) for first, stop in pairwise(edges)]
        return Curve(
            np.array([np.median(self.steps[part]) for part in parts]),
            np.array([np.median(self.losses[part]) for part in parts]),
        )

    def trend(self) -> Trend | None:
        """The line through it (Theil and Sen: the median of all slopes); None for fewer than three points."""
        curve = self.thinned()
        if len(curve) < 3:
            return None
        first, second = np.triu_indices(len(curve), 1)
        slopes = (curve.losses[second] - curve.losses[first]) / (curve.steps[second] - curve.steps[first])
        slope = float(np.median(slopes))
        rest = curve.losses - slope * curve.steps
        noise = SIGMA * float(np.median(np.abs(rest - np.median(rest))))
        scatter = float(np.sum((curve.steps - curve.steps.mean()) ** 2))
        # Theil and Sen's slope scatters a little more than that of least squares.
        error = 1.1 * noise / math.sqrt(scatter)
        return Trend(slope, error, float(curve.steps[-1] - curve.steps[0]), len(curve))
