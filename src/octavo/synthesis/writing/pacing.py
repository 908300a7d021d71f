"""How many calls a writer is given at once, and when: it says so by its answers.

The number in flight doubles every second until the writer complains for the first time; from then on each good answer
adds a little and each complaint halves it (additive increase, multiplicative decrease, as TCP does). A time that the
writer names is kept for all calls to it.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from random import Random

FIRST = 8
"""Calls in flight at the beginning."""

LONGEST_BACKOFF = 60.0
_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


class Pace:
    """The number of calls in flight to one writer and the time of the next; times are of a monotonic clock."""

    def __init__(self, most: int, *, first: int = FIRST, not_before: float = 0.0) -> None:
        self.most, self.not_before = most, not_before
        self.limit = float(min(first, most))
        self.in_flight = 0
        self.complained = False
        self._changed = 0.0  # when the limit last changed

    def free(self, now: float) -> bool:
        """Whether a call can go out now."""
        if now < self.not_before:
            return False
        full = self.in_flight >= int(self.limit)
        if full and not self.complained and self.limit < self.most and now - self._changed >= 1:
            self.limit, self._changed = min(self.most, self.limit * 2), now
            full = False
        return not full

    def next_time(self, now: float) -> float:
        """When a call may be possible that is not possible now, if no answer comes before."""
        if now < self.not_before:
            return self.not_before
        grows = not self.complained and self.limit < self.most
        return max(now, self._changed + 1) if grows else float("inf")

    def good(self) -> None:
        """An answer came."""
        if self.complained:
            self.limit = min(self.most, self.limit + 1 / self.limit)

    def complaint(self, sent: float, now: float) -> None:
        """The writer had too many calls. Those sent before the last halving say nothing new."""
        self.complained = True
        if sent >= self._changed:
            self.limit, self._changed = max(1.0, self.limit / 2), now

    def stay_away(self, until: float) -> None:
        """No call before this time."""
        self.not_before = max(self.not_before, until)


def backoff(failures: int, first: float, random: Random) -> float:
    """Seconds before the next try after so many failures in a row: doubling, with full jitter."""
    return random.uniform(0, min(LONGEST_BACKOFF, first * 2 ** min(failures - 1, 16)))


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds that a `Retry-After` header asks for: a number, or a date (by the server's own clock where it says its
    time). A whole second is added to a date, because dates have no fractions."""
    text = headers.get("retry-after")
    if text is None:
        return None
    try:
        return max(0.0, float(text))
    except ValueError:
        pass
    try:
        date = parsedate_to_datetime(text).timestamp()
        own = headers.get("date")
        now = parsedate_to_datetime(own).timestamp() if own else time.time()
    except (ValueError, TypeError, OverflowError):
        return None
    return max(0.0, date - now + 1)


def quota_wait(headers: Mapping[str, str]) -> float:
    """Seconds until the quota is new, where `x-ratelimit-remaining-…` says that nothing is left; else 0."""
    waits = [0.0]
    for name in ("requests", "tokens"):
        if headers.get(f"x-ratelimit-remaining-{name}", "").strip() == "0":
            waits.append(duration(headers.get(f"x-ratelimit-reset-{name}", "")))
    return max(waits)


def duration(text: str) -> float:
    """Seconds of `6m0s`, `20ms`, `1.5` or of a moment given in seconds since 1970; 0 where it is none of these."""
    text = text.strip()
    try:
        value = float(text)
    except ValueError:
        found = _DURATION.findall(text)
        whole = "".join(number + unit for number, unit in found) == text
        return sum(float(number) * _SECONDS[unit] for number, unit in found) if whole else 0.0
    return max(0.0, value - time.time()) if value > 1e9 else max(0.0, value)
