"""The threads of a run on a machine that others use from the start, where no step is slower than the ones before."""

from __future__ import annotations

import time

from octavo.training.threads import CLEARLY, SELDOM, Crew, Timing

FIRST = 3.0
"""Seconds after which it is first looked at; each look in vain makes the next one wait twice as long."""
OURS = 0.85
"""The share of its threads' time with less of which others may use the cores. Alone a run has 0.99, for threads that
wait for each other compute."""
SUSTAINED, MOST = 1.0, 100
"""Seconds of passes, and how many at most. A single one may have the cores for itself: who has waited goes first."""


class WatchfulCrew(Crew):
    """A `Crew` that times for longer than a moment, and looks at its share of the cores too: where the system gives its
    threads less than their time, all of them are timed beside one, and one goes on where it is faster by far.
    """

    def __init__(self, most: int, changes: list[list[int]], timing: Timing, *, first: int) -> None:
        super().__init__(most, changes, lambda threads: sustained(timing, threads), first=first)
        self._look = FIRST
        self._mark()

    def after_step(self, step: int, seconds: float) -> str:
        """See `Crew`."""
        said = super().after_step(step, seconds)
        if said or self.threads != self.most:
            self._mark()
            return said
        wall = time.monotonic() - self._began
        if wall < self._look:
            return ""
        share = (time.process_time() - self._worked) / (wall * self.most)
        said = self._alone_from_the_start(step) if share < OURS else ""
        self._mark()
        return said

    def _mark(self) -> None:
        self._began, self._worked = time.monotonic(), time.process_time()

    def _alone_from_the_start(self, step: int) -> str:
        ratio = self._timing(self.most) / self._timing(1)
        if ratio < CLEARLY:
            self._look = min(2 * self._look, SELDOM)
            return ""
        self._pace.forget()
        self._change(step, 1)
        self._wait = min(2 * self._wait, SELDOM)  # the cores seemed free when it was last looked
        return (
            f"after step {step}: other programs use the cores, and {self.most} threads take {ratio:.0f} times as long "
            "as one. Continuing with 1 thread; from here on results may differ in the last bits."
        )


def sustained(timing: Timing, threads: int) -> float:
    """Seconds of a pass, the mean of as many as take a while."""
    taken = [timing(threads)]
    while sum(taken) < SUSTAINED and len(taken) < MOST:
        taken.append(timing(threads))
    return sum(taken) / len(taken)
