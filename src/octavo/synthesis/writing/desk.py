"""One writer at work: how it is doing, and when it gets no more calls."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from random import Random

from octavo.synthesis.writing.calls import Backend, CallFailed, Reply, Request
from octavo.synthesis.writing.pacing import Pace, backoff

NEVER_REACHED = 5
"""Failures of a writer that never answered, one after another, after which it is given up."""

REFUSED = 5
"""Refusals of a writer that has answered before, one after another, after which it is given up."""


@dataclass
class Desk:
    """A writer with its pace. `first_wait`: seconds of the first rest after a failure; `give_up_after`: seconds
    without one good answer."""

    name: str
    backend: Backend
    pace: Pace
    first_wait: float
    give_up_after: float
    closed: str = ""  # why it gets no more calls
    good: int = 0
    failed_in_row: int = 0  # calls that were out together fail as one
    last_failed: float = 0.0
    last_good: float = field(default_factory=time.monotonic)
    random: Random = field(default_factory=Random)  # jitter alone
    waits: dict[str, asyncio.Timeout] = field(default_factory=dict)  # by the name of the call
    overtaken: set[str] = field(
        default_factory=set
    )  # calls that are not waited for because another was faster

    def hanging(self) -> list[str]:
        """Calls that left the window and have not been answered, the first one first."""
        return [call for call in self.pace.late if call in self.waits]

    async def ask(self, request: Request) -> Reply:
        """The writer's answer. Raises CallFailed, also when none will come any more."""
        limit = self.waits[request.id] = asyncio.timeout(None)
        try:
            async with limit:
                return await self.backend.write(request)
        except TimeoutError:
            if not limit.expired():
                raise
            if request.id in self.overtaken:
                raise CallFailed(
                    "overtaken", "Another call for this story was faster.", billed=True
                ) from None
            raise CallFailed("timeout", "No answer; its fellows were much faster.", billed=True) from None
        finally:
            self.waits.pop(request.id, None)

    def let_go(self, now: float) -> None:
        """Wait no longer for calls that take far longer than their fellows."""
        for call in self.pace.overdue(now):
            self._end(call)

    def overtake(self, calls: Iterable[str]) -> None:
        """Wait no longer for calls whose story is there."""
        for call in calls:
            if self._end(call):
                self.overtaken.add(call)

    def _end(self, call: str) -> bool:
        limit = self.waits.pop(call, None)
        if limit is not None:
            limit.reschedule(0.0)
        return limit is not None

    def answered(self, sent: float, now: float) -> None:
        """A good answer to a call that was sent at a time."""
        self.good += 1
        self.failed_in_row = 0
        self.last_good = now
        self.pace.good(sent, now)
        self.pace.stay_away(now + self.backend.quota)

    def failed(self, failure: CallFailed, call: str, sent: float, now: float) -> None:
        """A call that was sent at a time has failed."""
        if failure.kind == "overtaken":  # which says nothing about the writer
            return
        if sent >= self.last_failed:
            self.failed_in_row, self.last_failed = self.failed_in_row + 1, now
        if failure.kind == "throttled":
            self.pace.complaint(sent, now, failure.wait or 0.0)
        elif failure.kind == "timeout":
            self.pace.given_up(call, sent, now)
        elif failure.kind == "refused" and self.failed_in_row > 1:  # not the whim of one machine of many
            self.pace.stay_away(now + backoff(self.failed_in_row, self.first_wait, self.random))
        if failure.wait is not None:
            self.pace.stay_away(now + failure.wait)
        self.closed = self.closed or self._why_closed(failure, now)

    def _why_closed(self, failure: CallFailed, now: float) -> str:
        if failure.kind == "refused" and (not self.good or self.failed_in_row >= REFUSED):
            return str(failure)
        if not self.good and self.failed_in_row >= NEVER_REACHED and failure.wait is None:
            return str(failure)
        silent = now - max(self.last_good, self.pace.not_before)
        if self.failed_in_row >= NEVER_REACHED and silent > self.give_up_after:
            return f"no good answer for {silent:.0f} seconds; the last was: {failure}"
        return ""
