"""How many calls a writer is given at once, when, and for how long one is waited for: its answers say so.

The window, the number of calls in flight, doubles every second until the writer complains often for the first time.
From then on it grows by a little with each good answer and each quiet second, and is halved when more than about one
call in eight complains (additive increase, multiplicative decrease, as TCP does). Single complaints, as every busy
server has them, do not matter. A time that the writer names is kept for all calls to it.

A call that takes much longer than its fellows leaves the window: its place is given on, while it may still answer.
At the end, when no other story is left to ask for, its own is asked for once more.
"""

from __future__ import annotations

import re
import time
from bisect import bisect_left, insort
from collections import deque
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from math import inf
from random import Random

FIRST = 8
"""Calls in flight at the beginning."""

TOLERATED = 0.15
"""Complaints that one good answer makes up for."""

TOO_MANY = 6.0
"""Complaints, less those that answers made up for, at which the window is halved."""

GROWTH, LONGEST_STEP = 0.05, 10.0
"""By this part the window grows in the time of an answer without complaints, once it was halved: in a second at least,
and in so many at most."""

SLOW, SLOW_LEAST, SLOW_AFTER = 10.0, 1.0, 8
"""A call is slow after so many times the median of its fellows, at least so many seconds, once so many answered."""

SLOW_MOST = 256
"""The most slow calls next to a window, if the window itself is smaller."""

PATIENCE, PATIENCE_LEAST, PATIENCE_AFTER = 30.0, 10.0, 20
"""A call is given up after so many times what nine of ten took, at least so many seconds, once so many have ended."""

LONGEST_BACKOFF = 60.0
LONGEST_WAIT = 86_400.0
"""Seconds that a server can ask for, at most; a wait without end would be a way to hold the reader for ever."""

_KEPT = 100  # durations by which calls are judged
_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


class Pace:
    """The window of one writer and the time of its next call; times are of a monotonic clock.

    Args:
        most: calls in the window, at most.
        first: those at the beginning.
        not_before: no call before this time.
        judged: whether slow calls leave the window; not where calls wait for each other, as in a batch.
    """

    def __init__(
        self, most: int, *, first: int = FIRST, not_before: float = 0.0, judged: bool = True
    ) -> None:
        self.most, self.not_before, self.judged = most, not_before, judged
        self.limit = float(min(first, most))
        self._ready: set[str] = set()  # calls that have a place and are still being written down
        self._sent: dict[str, float] = {}  # when the other calls in the window went out, in that order
        self._slow: dict[str, float] = {}  # when those went out that have left it
        self._latest = inf  # when the last call went out
        self._closed = False
        self._seconds: deque[float] = deque()  # of the last calls; ∞: given up
        self._ordered: list[float] = []  # the same
        self._complaints = 0.0
        self._fallen = -inf  # when the window was last halved
        self._told_to_wait = False  # then each complaint costs time, and the window grows by time alone
        self._changed = 0.0  # when it last changed by time

    @property
    def in_flight(self) -> int:
        """Calls that were sent and have no answer yet."""
        return len(self._ready) + len(self._sent)

    @property
    def slow(self) -> int:
        """Calls that have left the window and may still answer."""
        return len(self._slow)

    @property
    def late(self) -> list[str]:
        """Those calls, the first that left first."""
        return list(self._slow)

    def close(self) -> None:
        """No more calls go out: those that are still waited for are left over."""
        self._closed = True

    def begin(self, call: str) -> None:
        """A call takes its place; it has a name of its own."""
        self._ready.add(call)

    def sent(self, call: str, now: float) -> None:
        """Note that a call was sent."""
        self._ready.discard(call)
        self._sent[call] = self._latest = now

    def end(self, call: str) -> None:
        """It is over, however it ended."""
        self._ready.discard(call)
        self._sent.pop(call, None)
        self._slow.pop(call, None)

    def free(self, now: float) -> bool:
        """Whether a call can go out now."""
        self._leave(now)
        if now < self.not_before:
            return False
        if self._full and self._may_grow and now - self._changed >= self._step:
            more = self.limit if self._fallen == -inf else max(1.0, self.limit * GROWTH)
            self.limit, self._changed = min(self.most, self.limit + more), now
        return not self._full

    def next_time(self, now: float) -> float:
        """When a call may be possible that is not possible now, if no answer comes before."""
        if now < self.not_before:
            return self.not_before
        if not self._full:
            return inf
        grows = self._changed + self._step if self._may_grow else inf
        leaves = next(iter(self._sent.values()), inf) + self.slow_after() if self._may_leave else inf
        return max(now, min(grows, leaves))

    @property
    def _step(self) -> float:
        """Seconds in which the window grows once."""
        return 1.0 if self._fallen == -inf else min(LONGEST_STEP, max(1.0, self._usual))

    @property
    def _usual(self) -> float:
        """Seconds of an answer, as far as one knows."""
        return self._quantile(0.5) if self._seconds else 1.0

    @property
    def _full(self) -> bool:
        return self.in_flight >= int(self.limit)

    @property
    def _may_grow(self) -> bool:
        silent = self._fallen > -inf and (not self._may_leave or self._usual == inf)
        return self._complaints < 1 and self.limit < self.most and not silent

    @property
    def _may_leave(self) -> bool:
        return self.slow < max(self.most, SLOW_MOST)

    def _leave(self, now: float) -> None:
        """Slow calls go out of the window; each is a complaint."""
        after = self.slow_after()
        while self._sent and self._may_leave:
            call, sent = next(iter(self._sent.items()))
            if now - sent < after:
                return
            del self._sent[call]
            self._slow[call] = sent
            self.complaint(sent, now)

    def slow_after(self) -> float:
        """Seconds after which a call is slow; ∞ as long as nobody knows."""
        if not self.judged or len(self._seconds) < SLOW_AFTER:
            return inf
        return max(SLOW_LEAST, SLOW * self._quantile(0.5))

    def patience(self) -> float:
        """Seconds for which a call is waited for; ∞: as long as its writer's own limit says."""
        if not self.judged or len(self._seconds) < PATIENCE_AFTER:
            return inf
        return max(PATIENCE_LEAST, PATIENCE * self._quantile(0.9))

    def overdue(self, now: float) -> list[str]:
        """Calls that nobody should wait for any longer."""
        latest = now - self.patience()
        if latest == -inf:
            return []
        calls = (*self._slow.items(), *self._sent.items())
        return [call for call, sent in calls if sent < latest]

    def _quantile(self, share: float) -> float:
        return self._ordered[int(share * (len(self._ordered) - 1))]

    def _took(self, seconds: float) -> None:
        if len(self._seconds) == _KEPT:
            del self._ordered[bisect_left(self._ordered, self._seconds.popleft())]
        self._seconds.append(seconds)
        insort(self._ordered, seconds)

    def good(self, sent: float, now: float) -> None:
        """An answer came to a call that was sent at a time."""
        self._took(now - sent)
        if sent >= self._fallen:
            self._complaints = max(0.0, self._complaints - TOLERATED)
        if self._fallen > -inf and not self._told_to_wait:
            self.limit = min(self.most, self.limit + 1 / self.limit)

    def given_up(self, call: str, sent: float, now: float) -> None:
        """No answer came in time. Where no calls go out any more those without an answer are left over, however few
        they were; that says nothing about the others."""
        if not self._closed and now - self._latest < self.slow_after():
            self._took(inf)
        if call not in self._slow:  # which complained when it left
            self.complaint(sent, now)

    def complaint(self, sent: float, now: float, wait: float = 0.0) -> None:
        """The writer had too many calls, or one was slow. `wait`: the seconds that it asked for; they weigh as the
        calls that a place could have made in them. Calls sent before the last halving say nothing new."""
        if sent < self._fallen:
            return
        calls = wait / max(self._usual, 0.001) if self._seconds else 0.0
        self._complaints += 1 + calls
        if self._complaints >= TOO_MANY:
            self.limit, self._complaints = max(1.0, self.limit / 2), 0.0
            self._fallen, self._changed, self._told_to_wait = now, now, wait > 0

    def stay_away(self, until: float) -> None:
        """No call before this time."""
        self.not_before = max(self.not_before, until)


def backoff(failures: int, first: float, random: Random) -> float:
    """Seconds before the next try after so many failures in a row: doubling, with full jitter."""
    return random.uniform(0, min(LONGEST_BACKOFF, first * 2 ** min(failures - 1, 16)))


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds that a `Retry-After` header asks for: a number, or a date (by the server's own clock where it says its
    time); 0 for one that is past. A whole second is added to a date to come, because dates have no fractions."""
    text = headers.get("retry-after")
    if text is None:
        return None
    try:
        return _wait(float(text))
    except ValueError:
        pass
    try:
        date = parsedate_to_datetime(text).timestamp()
        own = headers.get("date")
        now = parsedate_to_datetime(own).timestamp() if own else time.time()
    except (ValueError, TypeError, OverflowError):
        return None
    return _wait(date - now + 1) if date > now else 0.0


def _wait(seconds: float) -> float:
    """What a server asks for, within bounds."""
    return min(LONGEST_WAIT, seconds) if seconds > 0 else 0.0  # 0 too for what is no number


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
        return _wait(sum(float(number) * _SECONDS[unit] for number, unit in found) if whole else 0.0)
    return _wait(value - time.time() if value > 1e9 else value)
