"""The threads of a run on a machine that others use from the start, where no step is slower than the ones before."""

from __future__ import annotations

import time

from octavo.training.threads import CLEARLY, SELDOM, Crew, Timing

FIRST = 3.0
"""Seconds after which it is first looked at; each look in vain makes the next one wait twice as long."""
OURS = 0.85
"""The share of its threads' time with less of which others may use the cores. Alone a run has 0.99, for threads that
wait for each other compute."""
SHORT, SUSTAINED, MOST = 0.3, 1.0, 100
"""Seconds of passes, fewer where the difference is large, and how many passes at most. A single one may have the cores
for itself: who has waited goes first."""


class Watch:
    """How much of the cores this process has, from now on."""

    def __init__(self) -> None:
        self._began, self._worked = time.monotonic(), time.process_time()

    def seconds(self) -> float:
        """By the clock."""
        return time.monotonic() - self._began

    def share(self, threads: int) -> float:
        """Of the time of so many threads, what they had; 1 is all of it."""
        return (time.process_time() - self._worked) / (threads * max(self.seconds(), 1e-9))

    def ours(self, threads: int) -> bool:
        """Whether so many threads had their time, as they have where nobody else computes."""
        return self.share(threads) >= OURS


class WatchfulCrew(Crew):
    """A `Crew` that times for longer than a moment, and looks at its share of the cores too: where the system gives its
    threads less than their time, all of them are timed beside one, and one goes on where it is faster by far.
    """

    def __init__(self, most: int, changes: list[list[int]], timing: Timing, *, first: int) -> None:
        super().__init__(most, changes, self._timed, first=first)
        self._pass, self._look = timing, FIRST
        self._found: dict[int, float] = {}
        self._watch = Watch()

    def after_step(self, step: int, seconds: float) -> str:
        """See `Crew`."""
        said = super().after_step(step, seconds)
        if not said and self.threads == self.most:
            if self._watch.seconds() < self._look:
                return ""
            said = "" if self._watch.ours(self.most) else self._alone_from_the_start(step)
        self._watch = Watch()
        return said

    @property
    def times(self) -> float:
        """How many times as long as with the other number of threads a pass takes now, when both were last timed."""
        now, other = self.threads, 1 if self.threads == self.most else self.most
        return self._found.get(now, 1.0) / self._found.get(other, 1.0)

    def _timed(self, threads: int, seconds: float = SUSTAINED) -> float:
        self._found[threads] = sustained(self._pass, threads, seconds)
        return self._found[threads]

    def _alone_from_the_start(self, step: int) -> str:
        ratio = self._timed(self.most, SHORT) / self._timed(1, SHORT)
        if ratio < 2 * CLEARLY:
            ratio = self._timed(self.most) / self._timed(1)
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


def sustained(timing: Timing, threads: int, seconds: float) -> float:
    """Seconds of a pass, the mean of as many as take a while."""
    taken = [timing(threads)]
    while sum(taken) < seconds and len(taken) < MOST:
        taken.append(timing(threads))
    return sum(taken) / len(taken)
