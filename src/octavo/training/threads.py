"""How many CPU threads compute: all, or one where others use the machine so much that all would wait for each other.

The threads of a step meet hundreds of times. Where another program computes on their cores, each meeting waits until
the system gives the core back: a step of 55 ms took 3.4 s. One thread meets nobody. The last bits of a run depend on
the number of threads, so one thread has to win by far, and every change is written down in the run.
"""

from __future__ import annotations

import statistics
import time
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
        """Median seconds of a step so far."""
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
        """Measure anew: the number of threads changed."""
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


# The threads of a run on a machine that others use from the start, where no step is slower than the ones
# before.

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
        sentence = super().after_step(step, seconds)
        if not sentence and self.threads == self.most:
            if self._watch.seconds() < self._look:
                return ""
            sentence = "" if self._watch.ours(self.most) else self._alone_from_the_start(step)
        self._watch = Watch()
        return sentence

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
        if 1 <= ratio < 2 * CLEARLY:  # in doubt
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
