"""Stories on their way: which numbers are open, which may go out now, and what was said about each so far."""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from dataclasses import dataclass, field

from octavo.synthesis.writing.calls import Message


@dataclass
class Draft:
    """A story that is not there yet. `attempt` counts calls of all sessions, `tries` replies of this one that did
    not pass, `failures` calls in a row without a reply, `refusals` those of them that were refused; `due` is the
    earliest time of the next call; `calls` names those under way; `closed`: the story is there, or given up."""

    number: int
    attempt: int = 0
    tries: int = 0
    failures: int = 0
    refusals: int = 0
    due: float = 0.0
    messages: list[Message] = field(default_factory=list)
    calls: set[str] = field(default_factory=set)
    closed: bool = False


class Work:
    """Hands out drafts so that there are never more than are still wanted.

    Args:
        missing: stories that are still wanted.
        opened: numbers that were begun, with their next attempt and the time from which they may go out.
        next_number: the first number that was never begun.
    """

    def __init__(self, missing: int, opened: Iterable[tuple[int, int, float]], next_number: int) -> None:
        self.missing, self._next = missing, next_number
        self._waiting = [(due, number, Draft(number, attempt, due=due)) for number, attempt, due in opened]
        heapq.heapify(self._waiting)
        self.out = 0

    def take(self, now: float) -> Draft | None:
        """A draft that may go out now, or None."""
        if self.out >= self.missing:
            return None
        if self._waiting and self._waiting[0][0] <= now:
            self.out += 1
            return heapq.heappop(self._waiting)[2]
        if self.out + len(self._waiting) >= self.missing:
            return None
        self.out += 1
        self._next += 1
        return Draft(self._next - 1)

    def next_time(self) -> float:
        """When a draft that waits will be due."""
        return self._waiting[0][0] if self._waiting and self.out < self.missing else float("inf")

    def back(self, draft: Draft, due: float) -> None:
        """It goes out again, not before a time."""
        self.out -= 1
        draft.due = due
        heapq.heappush(self._waiting, (due, draft.number, draft))

    def done(self, *, story: bool) -> None:
        """A number is closed, with a story or without."""
        self.out -= 1
        self.missing -= story
