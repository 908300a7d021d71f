"""A writer and its window under a clock that is a number: what a window makes of a server, in no time."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from octavo.llm_corpus.pacing import Pace

Answer = tuple[str, float, float]
"""good, throttled, broken or silent; the seconds until then; and the rest that is asked for."""
Server = Callable[[Random, int, float], Answer]
"""Answers a call, given how many are under way and the time."""


@dataclass
class Trial:
    good: int
    throttled: int
    limits: list[int]
    most_slow: int


def run(server: Server, *, most: int, seconds: float, timeout: float = 120.0, seed: int = 0) -> Trial:
    """Call a server for a while, as `Writing` does: a place is free, a call goes out; what fails is another call's
    matter."""
    pace, draw, now, number = Pace(most), Random(seed), 0.0, 0
    found, events = Trial(0, 0, [], 0), list[tuple[float, str, float, str, float]]()
    while now < seconds:
        while pace.free(now):
            name, number = f"call {number}", number + 1
            pace.begin(name)
            pace.sent(name, now)
            under_way = pace.in_flight + pace.slow
            kind, takes, wait = server(draw, under_way, now)
            patience = min(timeout, pace.patience())
            if kind == "silent" or takes > patience:
                kind, takes = "silent", patience
            heapq.heappush(events, (now + takes, name, now, kind, wait))
        found.limits.append(int(pace.limit))
        found.most_slow = max(found.most_slow, pace.slow)
        due = pace.next_time(now)
        if events and events[0][0] <= due:
            now, name, sent, kind, wait = heapq.heappop(events)
            if kind == "good":
                found.good += 1
                pace.good(sent, now)
            elif kind == "throttled":
                found.throttled += 1
                pace.complaint(sent, now, wait)
                pace.stay_away(now + wait)
            elif kind == "silent":
                pace.given_up(name, sent, now)
            pace.end(name)
        else:
            now = max(due, now + 1e-6)
    return found
