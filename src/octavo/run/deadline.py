"""The clock of a run that has so many minutes: it takes as many steps as fit."""

from __future__ import annotations

import math
import statistics
import time
from collections import deque
from collections.abc import Iterator
from pathlib import Path

from octavo.config import Recipe
from octavo.data import Dataset
from octavo.data.batches import Batches
from octavo.errors import InputError
from octavo.run.data import most_steps
from octavo.run.folder import Progress, RunFolder, seconds_of
from octavo.util.terminal import Console

# How many steps a run takes, where it may change on the way: where a step stands in the schedule of the
# learning rate.


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


WARM = 3
"""Steps at the beginning that tell nothing of the others."""
LOOKS = 50
"""How often in a run the clock is looked at, about: after a share of its steps, or of its time if that comes first."""
TOLERANCE = 0.01
"""Of all steps: a smaller difference changes nothing."""
MOST_JUDGING = 0.5
"""Of the time that a session has, what is kept for judging at most: one slow look must not end a training."""
IN_FLOAT32, APART, APART_HEARD = 2, 2, 0.6
"""How many times as long as on the way a token of the test split takes, which is judged in float32, and one by which
counting and learning are told apart; and where the network was heard already, which need not be asked again."""
FORWARD = 0.35
"""What the network takes to predict a token, of what it takes to learn from it: a quarter to a third, for there are no
slopes."""
RECENT = 5
"""Evaluations whose median tells what one takes: a single one may be slow by chance."""
LAST, AS_BEFORE = 1.7, 1.5
"""Seconds that samples and the page take at the end of a run, once what draws it is loaded, and what else does, in
seconds of its preparation."""


class Clock:
    """Changes the pace of a run so that it ends in time.

    Args:
        end: when the whole run shall be over (monotonic seconds).
        finish: seconds that are kept for what comes after the training, without its evaluation; 0: nothing comes, and
            no evaluation either.
        most: steps in which the text is seen as often as the recipe allows at most.

    Attributes:
        evaluation: seconds that evaluating what is held out takes, which comes after the last step.
    """

    def __init__(self, pace: Pace, *, end: float, finish: float = 0.0, most: int | None = None) -> None:
        self.pace, self.end, self.finish, self.most, self.evaluation = pace, end, finish, most, 0.0
        self._first = WARM  # step of this session at which the watch starts
        self._began = self._last = (0.0, 0, 0.0)  # when, step, seconds of training
        self._most_judging = MOST_JUDGING * max(0.0, end - time.monotonic())
        self._judged: deque[float] = deque(maxlen=RECENT)
        self._next, self._patience = 0, 0.0  # the step of the next look, and seconds until then at most

    @property
    def left(self) -> float:
        """Seconds until the training must be over."""
        return self.end - self.finish - self.judging - time.monotonic()

    @property
    def judging(self) -> float:
        """Seconds that are kept for the evaluation that comes after the last step."""
        return min(self.evaluation, self._most_judging) if self.finish else 0.0

    def judged(self, seconds: float) -> None:
        """By an evaluation just now, those after the last step should take so many seconds."""
        self._judged.append(seconds)
        self.evaluation = statistics.median_low(self._judged)

    def ends(self, step: int) -> float:
        """When the whole run will be over (monotonic seconds), after this step: in its time, or before, where the steps
        that are left will not take all of it."""
        now, (when, first, _) = time.monotonic(), self._began
        if step <= first:
            return self.end
        training = (self.pace.total - step) * (now - when) / (step - first)
        return min(self.end, now + training + self.judging + self.finish)

    def begin(self, progress: Progress) -> None:
        """The training begins, or goes on: then with steps for all of the time that is left."""
        step, self._patience = progress.step, max(0.0, self.left) / LOOKS
        if step and self.left > 0:
            total = self._at_most(step + round(step * self.left / max(progress.elapsed, 1.0)))
            if total > self.pace.total:
                self.pace.prolong(step, total)
        self._first = step + WARM

    def keep(self, progress: Progress) -> bool:
        """Change the number of steps, if it is time to look and they would take longer or shorter; whether it did.

        How long a step takes is told by those since the last look; what is done between steps, by all so far.
        """
        step, seconds, now = progress.step, progress.seconds, time.monotonic()
        if self.left <= 0 and step + 1 < self.pace.total:
            self.pace.change(step, step + 1)
            return True
        if step <= self._first:
            self._began = self._last = (now, step, seconds)
            self._next = step + 1 + self.pace.total // LOOKS
            return False
        if step < self._next and now - self._last[0] < self._patience:
            return False
        (when, first, before), (_, last, then) = self._began, self._last
        between = max(0.0, now - when - (seconds - before)) / (step - first)
        each = max(1e-6, (seconds - then) / (step - last) + between)
        total = self._at_most(step + max(1, round(self.left / each)))
        self._last = (now, step, seconds)
        self._next = step + max(1, total // LOOKS)
        if (
            step >= self.pace.total
            or total <= step
            or abs(total - self.pace.total) <= TOLERANCE * self.pace.total
        ):
            return False
        self.pace.change(step, total)
        return True

    def anew(self, progress: Progress, *, times: float) -> None:
        """From here on a step takes `times` as long as before, for other threads compute. The watch starts anew: what
        trying them out took is not done between all steps."""
        step, (_, first, before) = progress.step, self._began
        self._first = step + WARM
        if first < step < self.pace.total:
            each = max(1e-6, times * (progress.seconds - before) / (step - first))
            self.pace.change(step, max(step + 1, self._at_most(step + round(self.left / each))))

    def _at_most(self, steps: int) -> int:
        return steps if self.most is None else min(steps, self.most)


def with_more_minutes(out: Path | None, minutes: float) -> list[str]:
    """The overrides by which the run in `out` gets so many minutes beyond those that it has taken, however often it
    sees its text in them: a limit of passes was meant for the time before.

    Raises InputError for no time, or without a folder.
    """
    if not minutes > 0 or not math.isfinite(minutes):
        raise InputError(f"--minutes must be above 0, not {minutes:g}.", remedy="for example --minutes 30")
    if out is None:
        raise InputError("--resume needs the folder of the run.", remedy="add --out DIR")
    taken = seconds_of(RunFolder.open(out))
    return [f"training.minutes={round(taken / 60 + minutes, 3):.12g}", "training.passes=null"]


def clock_of(
    recipe: Recipe,
    batches: Batches,
    pace: Pace,
    progress: Progress,
    console: Console,
    *,
    finish: float | None,
) -> Clock | None:
    """The clock of a recipe that has minutes, which begins now; sessions before this one have taken their part.
    `finish`: seconds that the end of the run takes, without its evaluation; None where no clock is to be looked at.
    None for a run that has ended and got no other minutes since."""
    if recipe.training.minutes is None or finish is None:
        return None
    ended = progress.finished and progress.minutes == recipe.training.minutes
    progress.minutes = recipe.training.minutes
    if ended:
        return None
    end = end_of(recipe, console, progress.elapsed)
    clock = Clock(pace, end=end, finish=finish, most=most_steps(recipe, batches))
    clock.begin(progress)
    return clock


def end_of(recipe: Recipe, console: Console, before: float) -> float:
    """When a run that goes by the clock shall be over (monotonic seconds); sessions before this one have taken so many
    seconds."""
    assert recipe.training.minutes is not None
    return console.started - before + 60 * recipe.training.minutes


def heard_again(trained: float, judged: float) -> float:
    """The share of judging a token that hearing the network again takes at most, by the seconds of a token in training
    (0: not known yet) and in judging."""
    return min(1.0, FORWARD * trained / judged) if trained else 1.0


def judged_at_the_end(dataset: Dataset, precision: str, *, heard: float = 0.0) -> float:
    """Tokens that are judged after the training, as many as take the same time on the way. `heard`: the share of that
    in which a context mixer hears the network again; 0: none does."""
    from octavo.evaluation.attribution import judged_twice

    tokens, test = len(dataset.validation.tokens), 0 if dataset.test is None else len(dataset.test.tokens)
    if dataset.validation.documents > 1 and dataset.tokenizer.end is not None:
        tokens *= 2  # where documents end is asked by itself
    slower, apart = 1 if precision == "float32" else IN_FLOAT32, APART_HEARD if heard else APART
    tokens += heard * (len(dataset.validation.tokens) + slower * test)
    return tokens + apart * judged_twice(dataset.validation) + slower * test


def ending(prepared: float) -> float:
    """Seconds that the end of a run takes, without its evaluation, by those of its preparation."""
    return LAST + AS_BEFORE * prepared
