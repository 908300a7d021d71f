"""How a study's metric is written: its unit, the better direction, as many decimals as the noise allows."""

from __future__ import annotations

from dataclasses import dataclass

UNITS = {
    "bits_per_byte": "bits per byte",
    "val_loss": "nats per token",
    "perplexity": "in perplexity",
    "accuracy": "points of accuracy",
    "improvement": "points of relative improvement",
}
SHARES = ("accuracy", "improvement")
"""Metrics of which more is better, written in points of a hundred."""


@dataclass(frozen=True)
class Scale:
    """How a metric is written: its unit, the direction that is better, decimals that the noise allows."""

    metric: str
    decimals: int = 3

    @property
    def unit(self) -> str:
        """The words after a number."""
        return UNITS[self.metric]

    @property
    def lower_is_better(self) -> bool:
        """Whether a smaller value is the better one."""
        return self.metric not in SHARES

    @property
    def factor(self) -> int:
        """What a number is multiplied with to be written."""
        return 100 if self.metric in SHARES else 1

    def text(self, value: float, *, signed: bool = False) -> str:
        """The number, shares in points of a hundred; a true minus sign."""
        value = self.factor * value
        words = f"{value:+.{self.decimals}f}" if signed else f"{value:.{self.decimals}f}"
        return words.replace("-", "−")
