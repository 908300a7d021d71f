"""What is said before a training of what will come out of it, calibrated by what came of such promises before."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from statistics import NormalDist

import numpy as np

from octavo.auto.choose import Choice
from octavo.auto.law import LIKELY
from octavo.report.promised import interval

PRIOR = [sign * NormalDist().inv_cdf(0.55 + each / 10) for each in range(5) for sign in (-1, 1)]
"""How far ten promises are off for which the law is right, in standard deviations: what it is worth beside a user's own
when these calibrate the next."""
NARROWEST = 0.5
"""Of what the law says."""


@dataclass(frozen=True)
class Promise:
    """Bits per byte on held-out text: the middle, and how far to both sides 80 of 100 promises hold.

    Attributes:
        law_bits, law_error: what the law says alone, before earlier promises, and the standard deviation of that.
    """

    minutes: float
    bits: float
    within: float
    parameters: int
    steps: int
    law_bits: float
    law_error: float

    def holds(self, bits: float) -> bool:
        """Whether what came out is in the interval."""
        return abs(bits - self.bits) <= self.within

    def __str__(self) -> str:
        return f"{interval(self.bits, self.within)} bits per byte (80 %)"

    def as_plain(self) -> dict[str, float]:
        """For the manifest, and for --json."""
        return asdict(self)


def promise(minutes: float, choice: Choice, earlier: Sequence[float] = ()) -> Promise:
    """The promise of a choice, calibrated by how far `earlier` ones were off."""
    shift, scale = calibration(earlier)
    return Promise(
        minutes=minutes,
        bits=max(0.0, choice.bits + shift * choice.error),
        within=LIKELY * scale * choice.error,
        parameters=choice.parameters,
        steps=choice.steps,
        law_bits=choice.bits,
        law_error=choice.error,
    )


def calibration(earlier: Sequence[float]) -> tuple[float, float]:
    """(shift, factor) in standard deviations, from how far earlier promises were off; (0, 1) without any.

    The median, and where 80 % lie around it: a text like no other does not spoil the promises that follow.
    """
    known = np.array([*PRIOR, *earlier])
    shift = float(np.median(known))
    usual, found = (float(np.quantile(np.abs(each), 0.8)) for each in (np.array(PRIOR), known - shift))
    return shift, max(NARROWEST, found / usual)
