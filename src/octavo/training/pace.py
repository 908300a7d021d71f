"""How many steps a run takes, where it may change on the way: where a step stands in the schedule of the learning rate.

A run that goes by the clock takes more steps, or fewer, than was planned. The schedule is that of the planned number;
what is left of it is spread over the steps that are left. The changes are kept with the run, so it can be repeated.
"""

from __future__ import annotations

from collections.abc import Iterator


class Pace:
    """The steps of a run.

    Args:
        planned: steps that the schedule has.
        changes: (step, total, place) of each change so far: after so many steps, how many there shall be in all, and
            how many of the planned steps are over. More are added here.
    """

    def __init__(self, planned: int, changes: list[list[float]] | None = None) -> None:
        self.planned, self.changes = planned, [] if changes is None else changes

    @property
    def total(self) -> int:
        """Steps in all, as things stand."""
        return int(self.changes[-1][1]) if self.changes else self.planned

    def place(self, step: int) -> float:
        """Which of the planned steps a step stands for, both counted from 0."""
        for since, total, place in reversed(self.changes):
            if step >= since:
                return place + (step - since) * (self.planned - place) / max(1, total - since)
        return step

    def change(self, step: int, total: int, *, place: float | None = None) -> None:
        """After `step` steps, from now on there shall be `total` (> step); from `place` in the schedule, if it is not
        the one where the run stands."""
        here = self.place(step) if place is None else place
        self.changes.append([step, total, round(here, 6)])

    def prolong(self, step: int, total: int) -> None:
        """More steps for a run that was to end sooner: the schedule goes back to where it would stand had all of them
        been planned, so that what was learned late at a low rate can move again."""
        self.change(step, total, place=min(self.place(step), self.planned * step / total))

    def steps(self, first: int) -> Iterator[int]:
        """The steps from `first` on, to the last as things stand then."""
        step = first
        while step < self.total:
            yield step
            step += 1
