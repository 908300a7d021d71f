"""What calls cost, and a cap that holds whatever is on its way.

Amounts are whole picodollars (10⁻¹² $), so that sums are exact: a price of 1 $ per million tokens is 10⁶ of them a
token. Before a call is sent, the most that it can cost is reserved; after it, the reservation gives way to what it
did cost. A call whose end nobody saw keeps its reservation for good.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from datetime import datetime, time, timedelta
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import Field, field_validator

from octavo.config.parts import Strict
from octavo.errors import InputError

PICO = 10**12
"""Picodollars in a dollar."""


@dataclass(frozen=True)
class Tokens:
    """Tokens of a call: of the prompt, how many of those came from the writer's cache, and of the reply."""

    prompt: int
    cached: int
    reply: int


@dataclass(frozen=True)
class Hours:
    """A part of every day in a time zone, such as 10:00-18:30@America/Denver; it may run over midnight."""

    start: time
    end: time
    zone: ZoneInfo

    @classmethod
    def parse(cls, text: str) -> Hours:
        """Raises InputError that says how hours are written."""
        match = re.fullmatch(r"(\d{1,2}):(\d{2})\s*-\s*(\d{1,2}):(\d{2})@(\S+)", text.strip())
        remedy = "write them as 10:00-18:30@America/Denver"
        if not match:
            raise InputError(f"'{text}' are no hours.", remedy=remedy)
        first, first_minute, last, last_minute = (int(part) for part in match.groups()[:4])
        try:
            start, end = time(first, first_minute), time(last % 24 if last == 24 else last, last_minute)
        except ValueError as error:
            raise InputError(f"'{text}' names a time that no clock shows.", remedy=remedy) from error
        if start == end:
            raise InputError(f"'{text}' begins and ends at the same time.", remedy=remedy)
        try:
            return cls(start, end, ZoneInfo(match[5]))
        except (ZoneInfoNotFoundError, ValueError, OSError) as error:
            raise InputError(f"There is no time zone '{match[5]}'.", remedy=remedy) from error

    def __contains__(self, moment: float) -> bool:
        """Whether a moment (seconds since 1970) lies in these hours."""
        now = datetime.fromtimestamp(moment, self.zone).time()
        if self.start < self.end:
            return self.start <= now < self.end
        return now >= self.start or now < self.end

    def wait(self, moment: float) -> float:
        """Seconds from a moment until these hours; 0 within them."""
        if moment in self:
            return 0.0
        now = datetime.fromtimestamp(moment, self.zone)
        day = now.date() if now.time() < self.start else now.date() + timedelta(days=1)
        return max(1.0, datetime.combine(day, self.start, self.zone).timestamp() - moment)


class Rates(Strict):
    """Dollars for a million tokens."""

    input: float = Field(ge=0)
    """Tokens of the prompt."""
    output: float = Field(ge=0)
    """Tokens of the reply."""
    cached_input: float | None = Field(None, ge=0)
    """Tokens of the prompt that the writer still knew; left out: as input."""

    def cost(self, tokens: Tokens) -> int:
        """Price of a call in picodollars."""
        cached = self.input if self.cached_input is None else self.cached_input
        known = min(tokens.cached, tokens.prompt)
        exact = (tokens.prompt - known) * self.input + known * cached + tokens.reply * self.output
        return math.ceil(exact * 10**6 - 1e-6)


class OffPeak(Rates):
    """The rates of the cheap hours."""

    hours: str
    """When they hold, such as 10:00-18:30@America/Denver."""

    @field_validator("hours")
    @classmethod
    def _are_hours(cls, value: str) -> str:
        try:
            Hours.parse(value)
        except InputError as error:
            raise ValueError(str(error)) from error
        return value


class Prices(Rates):
    """What a writer takes, at every hour."""

    off_peak: OffPeak | None = None
    """Other rates at some hours."""
    batch: float = Field(1.0, gt=0, le=1)
    """What a batch costs of these rates: 0.5 where it is half price."""

    def in_batches(self) -> Prices:
        """The table for calls that are sent in a batch."""
        off_peak = self.off_peak and self.off_peak.model_copy(update=self._scaled(self.off_peak))
        return self.model_copy(update={**self._scaled(self), "off_peak": off_peak, "batch": 1.0})

    def _scaled(self, rates: Rates) -> dict[str, float | None]:
        found = {name: getattr(rates, name) for name in ("input", "output", "cached_input")}
        return {name: None if rate is None else rate * self.batch for name, rate in found.items()}

    def most(self, tokens: Tokens) -> int:
        """The most that so many tokens can cost, at the dearest hour and with nothing in the cache (picodollars)."""
        bare = Tokens(tokens.prompt, 0, tokens.reply)
        cached = Tokens(tokens.prompt, tokens.prompt, tokens.reply)  # dearer only in a strange table
        rates: list[Rates] = [self, *([self.off_peak] if self.off_peak else [])]
        return max(rate.cost(mix) for rate in rates for mix in (bare, cached))

    def at(self, tokens: Tokens, sent: float, answered: float) -> int:
        """The cost of a call; where the hours changed meanwhile, by the dearer rates (picodollars)."""
        return max(self._rates(moment).cost(tokens) for moment in (sent, answered))

    def _rates(self, moment: float) -> Rates:
        return self.off_peak if self.off_peak and moment in Hours.parse(self.off_peak.hours) else self


class Budget:
    """A cap on all calls of a corpus together; None for none. Amounts in picodollars."""

    def __init__(self, cap: int | None, spent: int = 0) -> None:
        self.cap, self.spent, self.reserved = cap, spent, 0

    def reserve(self, amount: int) -> bool:
        """Set an amount aside, if it still fits under the cap with all that is spent or on its way."""
        if self.cap is not None and self.spent + self.reserved + amount > self.cap:
            return False
        self.reserved += amount
        return True

    def take_up(self, amount: int) -> None:
        """What was counted as spent is on its way again: a call of an earlier process, whose reply is still to come."""
        self.spent -= amount
        self.reserved += amount

    def settle(self, reserved: int, cost: int) -> None:
        """What a reservation has become."""
        self.reserved -= reserved
        self.spent += cost


def dollars(amount: float) -> str:
    """Picodollars as people read money."""
    value = amount / PICO
    return f"${value:,.2f}" if value >= 1 or not value else f"${value:.4f}"


def facts(prices: Prices | None) -> dict[str, Any] | None:
    """A price table as plain data."""
    return None if prices is None else prices.model_dump(mode="json", exclude_none=True)
