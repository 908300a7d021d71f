"""Learning-rate schedules: pure functions from the step to a factor between 0 and 1 of the optimizer's own rate.

A run that goes by the clock stands between two of the planned steps (`run.deadline`), so a step need not be whole.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal

from pydantic import Field

from octavo.config.parts import MOST, PartConfig, register

Schedule = Callable[[float], float]


def constant(step: float) -> float:
    """The full rate at every step."""
    return 1.0


def cosine(step: float, *, steps: int, floor: float) -> float:
    """From 1 down half a cosine wave to `floor` at the last of `steps` (Loshchilov & Hutter 2016)."""
    progress = min(step / max(1, steps - 1), 1.0)
    return floor + (1 - floor) * 0.5 * (1 + math.cos(math.pi * progress))


def linear(step: float, *, steps: int, floor: float) -> float:
    """From 1 straight down to `floor` at the last of `steps`."""
    return 1 - (1 - floor) * min(step / max(1, steps - 1), 1.0)


def stable_decay(step: float, *, steps: int, decay: float, floor: float) -> float:
    """1 until the last `decay` share of the steps, then straight down to `floor` (Hu et al. 2024)."""
    falling = min(steps, max(2, round(decay * steps)))  # one step alone cannot fall
    return linear(max(0, step - (steps - falling)), steps=falling, floor=floor)


def inverse_root(step: float, *, scale: int) -> float:
    """1 at first, and then down with the root of the steps: √(scale / (scale + step)) (Vaswani et al. 2017)."""
    return math.sqrt(scale / (scale + step))


def warmed(schedule: Schedule, *, warmup: int) -> Schedule:
    """From near 0 straight up over the first `warmup` steps, then `schedule`, counted from there."""
    return lambda step: (step + 1) / (warmup + 1) if step < warmup else schedule(step - warmup)


class ScheduleConfig(PartConfig):
    """Base of the schedules."""

    warmup: int = Field(0, ge=0, le=MOST)
    """Steps over which the rate rises from near zero."""


class DecayConfig(ScheduleConfig):
    """Base of the schedules that fall."""

    floor: float = Field(0.1, ge=0, le=1)
    """The factor at the end."""


@register("schedule")
class ConstantConfig(ScheduleConfig):
    """The same rate throughout."""

    kind: Literal["constant"] = "constant"

    def build(self, *, steps: int) -> Schedule:
        return warmed(constant, warmup=self.warmup)


@register("schedule")
class CosineConfig(DecayConfig):
    """Down half a cosine wave."""

    kind: Literal["cosine"] = "cosine"

    def build(self, *, steps: int) -> Schedule:
        falling = steps - self.warmup
        return warmed(lambda step: cosine(step, steps=falling, floor=self.floor), warmup=self.warmup)


@register("schedule")
class LinearConfig(DecayConfig):
    """Down a straight line."""

    kind: Literal["linear"] = "linear"

    def build(self, *, steps: int) -> Schedule:
        falling = steps - self.warmup
        return warmed(lambda step: linear(step, steps=falling, floor=self.floor), warmup=self.warmup)


@register("schedule")
class InverseRootConfig(ScheduleConfig):
    """Up over the warm-up, then down with the root of the steps, however many there are (Vaswani et al. 2017)."""

    kind: Literal["inverse-root"] = "inverse-root"
    scale: int = Field(1000, ge=1, le=MOST)
    """Steps after the warm-up in which the rate falls by a third, to 1/√2; in the paper as many as the warm-up has."""

    def build(self, *, steps: int) -> Schedule:
        return warmed(lambda step: inverse_root(step, scale=self.scale), warmup=self.warmup)


@register("schedule")
class WarmupStableDecayConfig(DecayConfig):
    """Up, flat, and down at the end."""

    kind: Literal["wsd"] = "wsd"
    decay: float = Field(0.3, gt=0, le=1)
    """Share of the steps in which the rate falls."""

    def build(self, *, steps: int) -> Schedule:
        after = steps - self.warmup
        return warmed(
            lambda step: stable_decay(step, steps=after, decay=self.decay, floor=self.floor),
            warmup=self.warmup,
        )
