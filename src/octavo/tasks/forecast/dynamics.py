"""A world of numbers whose next row has a density that is known exactly: the floor that no forecast can go below.

*linear*: a damped rotation that nobody sees, and noisy channels that see it. The Kalman filter knows the density.
*switching*: what is seen moves by one of two rules, and nobody sees which; rules change at random. The density is a sum
over rules, weighted by what the past says of them (Hamilton 1989).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

import numpy as np
from pydantic import Field

from octavo.config.parts import MOST, register
from octavo.corpus import Report
from octavo.tasks.forecast.source import Series, SeriesSource, SeriesSourceConfig

CHANNELS = 2


def rotation(period: float, decay: float) -> np.ndarray:
    """A turn by 1/period, shortened by `decay`."""
    angle = 2 * np.pi / period
    return decay * np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])


def normal_log_density(x: np.ndarray, mean: np.ndarray, covariance: np.ndarray) -> float:
    """Of a normal distribution in as many dimensions as x (D,) has."""
    error = x - mean
    _, log_determinant = np.linalg.slogdet(covariance)
    distance = error @ np.linalg.solve(covariance, error)
    return float(-0.5 * (distance + log_determinant + len(x) * np.log(2 * np.pi)))


class Linear:
    """z' = A z + w, x = z + v, with normal w and v."""

    turn = rotation(20.0, 0.98)
    drive = np.array([[1.0, 0.6], [0.6, 1.0]])
    noise = np.array([[0.5, 0.0], [0.0, 0.5]])

    def draw(self, rows: int, random: np.random.Generator) -> np.ndarray:
        state = random.multivariate_normal(np.zeros(2), self.rest())
        states = np.empty((rows, 2))
        for row in range(rows):
            state = self.turn @ state + random.multivariate_normal(np.zeros(2), self.drive)
            states[row] = state + random.multivariate_normal(np.zeros(2), self.noise)
        return states

    def rest(self) -> np.ndarray:
        """Covariance of the state after a long time."""
        covariance = np.zeros((2, 2))
        for _ in range(2000):
            covariance = self.turn @ covariance @ self.turn.T + self.drive
        return covariance

    def log_density(self, rows: np.ndarray) -> np.ndarray:
        """Of each row given those before it (N,), by the Kalman filter."""
        mean, spread = np.zeros(2), self.rest()
        densities = np.empty(len(rows))
        for place, row in enumerate(rows.astype(np.float64)):
            mean, spread = self.turn @ mean, self.turn @ spread @ self.turn.T + self.drive
            seen = spread + self.noise
            densities[place] = normal_log_density(row, mean, seen)
            gain = np.linalg.solve(seen, spread).T
            mean, spread = mean + gain @ (row - mean), spread - gain @ spread
        return densities


class Switching:
    """x' = A_s x + w_s, where s is one of two rules and changes with probability `change`."""

    turns = (rotation(12.0, 0.97), rotation(-30.0, 0.9))
    drives = (np.array([[0.3, 0.2], [0.2, 0.3]]), np.array([[2.0, -1.2], [-1.2, 2.0]]))
    change = 0.05

    def draw(self, rows: int, random: np.random.Generator) -> np.ndarray:
        rule, x = int(random.integers(2)), np.zeros(2)
        states = np.empty((rows, 2))
        for row in range(rows):
            rule = 1 - rule if random.random() < self.change else rule
            x = self.turns[rule] @ x + random.multivariate_normal(np.zeros(2), self.drives[rule])
            states[row] = x
        return states

    def log_density(self, rows: np.ndarray) -> np.ndarray:
        """Of each row given those before it (N,), by summing over the rules."""
        weights, before = np.array([0.5, 0.5]), np.zeros(2)
        change = np.array([[1 - self.change, self.change], [self.change, 1 - self.change]])
        densities = np.empty(len(rows))
        for place, row in enumerate(rows.astype(np.float64)):
            weights = change.T @ weights
            each = np.array(
                [
                    normal_log_density(row, turn @ before, drive)
                    for turn, drive in zip(self.turns, self.drives, strict=True)
                ]
            )
            most = each.max()
            joint = weights * np.exp(each - most)
            densities[place] = most + np.log(joint.sum())
            weights, before = joint / joint.sum(), row
        return densities


WORLDS = {"linear": Linear, "switching": Switching}


class DynamicsSeries(SeriesSource):
    """Series of a world, each drawn by its own number."""

    channels = ("x", "y")

    def __init__(self, config: DynamicsConfig) -> None:
        self._config, self._world = config, WORLDS[config.world]()

    def series(self) -> Iterator[Series]:
        for number in range(self._config.series):
            random = np.random.Generator(np.random.Philox(key=[self._config.seed, number]))
            rows = self._world.draw(self._config.rows, random).astype(np.float32)
            yield Series(f"series {number}", f"series {number}", rows)

    def describe(self) -> dict[str, Any]:
        return self._config.model_dump(mode="json")

    def log_density(self, rows: np.ndarray) -> np.ndarray:
        return self._world.log_density(rows)


@register("source")
class DynamicsConfig(SeriesSourceConfig):
    """Made-up series of two channels, whose exact density is known; needs no file."""

    kind: Literal["dynamics"] = "dynamics"
    world: Literal["linear", "switching"] = "switching"
    """linear: a rotation behind noise; switching: one of two rules, which change unseen."""
    series: int = Field(40, ge=2, le=100_000)
    """How many."""
    rows: int = Field(1000, ge=2, le=MOST)
    """Of each."""
    seed: int = Field(0, ge=0, le=MOST)
    """Which ones."""

    def build(self, report: Report | None = None) -> DynamicsSeries:
        """The source; series are drawn as they are read."""
        return DynamicsSeries(self)
