"""How what a study compares is written: its unit, the better direction, as many decimals as the noise allows."""

from __future__ import annotations

from dataclasses import dataclass

from octavo.studies.measures import Measure


@dataclass(frozen=True)
class Scale:
    """How a measure is written, with the decimals that the noise allows."""

    measure: Measure
    decimals: int = 3

    @property
    def metric(self) -> str:
        """Its name."""
        return self.measure.metric

    @property
    def unit(self) -> str:
        """The words after a number."""
        return self.measure.unit

    @property
    def lower_is_better(self) -> bool:
        """Whether a smaller value is the better one."""
        return self.measure.lower_is_better

    @property
    def factor(self) -> int:
        """What a number is multiplied with to be written."""
        return self.measure.factor

    def text(self, value: float, *, signed: bool = False) -> str:
        """The number, shares in points of a hundred; a true minus sign."""
        value = self.factor * value
        words = f"{value:+.{self.decimals}f}" if signed else f"{value:.{self.decimals}f}"
        return words.replace("-", "−")
