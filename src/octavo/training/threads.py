"""How many CPU threads compute: all, or one where others use the machine so much that all would wait for each other.

The threads of a step meet hundreds of times. Where another program computes on their cores, each meeting waits until
the system gives the core back: a step of 55 ms took 3.4 s. One thread meets nobody. The last bits of a run depend on
the number of threads, so one thread has to win by far, and every change is written down in the run.
"""

from __future__ import annotations

import statistics
from collections import deque
from collections.abc import Callable, Sequence

CLEARLY = 2.0
"""All threads together must take so many times as long as one; on a machine of one's own they never do."""
ROUNDS = 3
MANY = 5.0
"""Steps that take so many times as long as usual are answered."""
IN_A_ROW, AT_LEAST = 3, 1.0  # such steps, and their seconds together
USUAL = 32  # steps that tell what is usual
AGAIN, SELDOM = 30.0, 960.0  # seconds until all threads are tried again: at first, at most

Timing = Callable[[int], float]
"""Seconds of a training pass with so many threads."""


def faster(most: int, timing: Timing) -> tuple[int, float]:
    """`most` or 1, whichever computes faster, and how many times as long `most` take as one.

    In turn, and the best of each: a moment's disturbance must not decide. Where `most` are not slow, once is enough.
    """
    together, alone = [], []
    for _ in range(ROUNDS):
        together.append(timing(most))
        alone.append(timing(1))
        if min(together) < CLEARLY * min(alone):
            break
    ratio = min(together) / min(alone)
    return (1 if ratio >= CLEARLY else most), ratio


class Pace:
    """Notices when steps take many times as long as usual."""

    def __init__(self) -> None:
        self._usual: deque[float] = deque(maxlen=USUAL)
        self._slow: list[float] = []

    @property
    def usual(self) -> float:
        """Seconds of a step."""
        return statistics.median(self._usual) if self._usual else 0.0

    @property
    def now(self) -> float:
        """Seconds of the slow steps of late."""
        return statistics.median(self._slow) if self._slow else self.usual

    def step(self, seconds: float) -> bool:
        """Note a step; returns whether too many have been slow."""
        if len(self._usual) < IN_A_ROW or seconds < MANY * self.usual:
            self._usual.append(seconds)
            self._slow.clear()
            return False
        self._slow.append(seconds)
        return len(self._slow) >= IN_A_ROW and sum(self._slow) >= AT_LEAST

    def forget(self) -> None:
        """Forget what was usual."""
        self._usual.clear()
        self._slow.clear()


class Crew:
    """The threads of a run while it trains: `most`, or one while others use the machine.

    Args:
        changes: the run's own list of (step, threads): from that step on so many compute.
        first: those that computed before any change.
    """

    def __init__(self, most: int, changes: list[list[int]], timing: Timing, *, first: int) -> None:
        self.most, self.first, self.changes, self._timing = most, first, changes, timing
        self._pace, self._wait, self._since = Pace(), AGAIN, 0.0

    @property
    def threads(self) -> int:
        """The threads that compute now."""
        return self.changes[-1][1] if self.changes else self.first

    def after_step(self, step: int, seconds: float) -> str:
        """See whether another number of threads is due; it then stands in `changes`. Returns what to say of it."""
        self._since += seconds
        slow = self._pace.step(seconds)
        if self.threads == self.most:
            return self._alone(step) if slow else ""
        return self._together(step) if self._since >= self._wait else ""

    def _alone(self, step: int) -> str:
        before, now = self._pace.usual, self._pace.now
        chosen, _ = faster(self.most, self._timing)
        self._pace.forget()
        if chosen == self.most:  # slow for another reason
            return ""
        self._change(step, 1)
        return (
            f"after step {step}: a step takes {now / before:.0f} times as long as before ({now:.2g} s), because other "
            f"programs use the cores. Continuing with 1 thread instead of {self.most}; from here on results may differ "
            "in the last bits."
        )

    def _together(self, step: int) -> str:
        self._since = 0.0
        if self._timing(self.most) >= self._timing(1):
            self._wait = min(2 * self._wait, SELDOM)
            return ""
        self._pace.forget()
        self._change(step, self.most)
        return f"after step {step}: the cores are free again; continuing with {self.most} threads"

    def _change(self, step: int, threads: int) -> None:
        self.changes.append([step + 1, threads])
        self._since = 0.0


def changes_in_words(changes: Sequence[Sequence[int]]) -> str:
    """The (step, threads) of a run, for a reader."""
    return ", ".join(
        f"{threads} thread{'s' * (threads > 1)} from step {step} on" for step, threads in changes
    )
