"""Train the best model of a text in so many minutes: look at text and machine, choose, promise, train, audit."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from numbers import Real
from pathlib import Path
from statistics import NormalDist
from typing import Any, NoReturn

import numpy as np
import torch

from octavo.auto.choose import (
    STEPS_MEASURED,
    Choice,
    after_teachers,
    choices,
    least_seconds,
    reasons,
    step_times,
)
from octavo.auto.facts import TextFacts, piloted_in, survey, with_pilot
from octavo.auto.family import SIZES, Size, one_step_of
from octavo.auto.law import LIKELY, Law, shipped_law
from octavo.config import Recipe, apply_overrides
from octavo.config.load import named_by
from octavo.errors import InputError
from octavo.ngram.mixture import Counts
from octavo.planning.machines import Machine, find_machine
from octavo.planning.plan import Step, timed
from octavo.planning.predict import predictions
from octavo.report.promised import interval
from octavo.run.audit import earlier_promises, own_settings
from octavo.run.data import Paths
from octavo.run.deadline import ending
from octavo.run.settings import resolve
from octavo.training.device import CLEARLY, OURS, accelerator, fast_bfloat16
from octavo.util.terminal import Console, ReadingTooLong, duration, in_minutes

# What is said before a training of what will come out of it, calibrated by what came of such promises before.

PRIOR = [sign * NormalDist().inv_cdf(0.55 + each / 10) for each in range(5) for sign in (-1, 1)]
"""How far ten promises are off for which the law is right, in standard deviations: what it is worth beside a user's own
when these calibrate the next."""
NARROWEST = 0.5
"""Of what the law says."""


@dataclass(frozen=True)
class Promise:
    """Bits per byte on held-out text: the middle, and how far to both sides 80 of 100 promises hold.

    Attributes:
        law_bits, law_error: what the law says alone, before earlier promises, and the standard deviation of that.
    """

    minutes: float
    bits: float
    within: float
    parameters: int
    steps: int
    law_bits: float
    law_error: float

    def holds(self, bits: float) -> bool:
        """Whether what came out is in the interval."""
        return abs(bits - self.bits) <= self.within

    def __str__(self) -> str:
        return f"{interval(self.bits, self.within)} bits per byte (80 %)"

    def as_plain(self) -> dict[str, float]:
        """For the manifest, and for --json."""
        return asdict(self)


def promise(minutes: float, choice: Choice, earlier: Sequence[float] = ()) -> Promise:
    """The promise of a choice, calibrated by how far `earlier` ones were off."""
    shift, scale = calibration(earlier)
    return Promise(
        minutes=minutes,
        bits=max(0.0, choice.bits + shift * choice.error),
        within=LIKELY * scale * choice.error,
        parameters=choice.parameters,
        steps=choice.steps,
        law_bits=choice.bits,
        law_error=choice.error,
    )


def calibration(earlier: Sequence[float]) -> tuple[float, float]:
    """(shift, factor) in standard deviations, from how far earlier promises were off; (0, 1) without any.

    The median, and where 80 % lie around it: a text like no other does not spoil the promises that follow.
    """
    known = np.array([*PRIOR, *earlier])
    shift = float(np.median(known))
    usual, found = (float(np.quantile(np.abs(each), 0.8)) for each in (np.array(PRIOR), known - shift))
    return shift, max(NARROWEST, found / usual)


LEAST, MOST = 20 / 60, 12 * 60
"""Minutes that can be asked for."""
MEASURING, MOST_MEASURING = 0.05, 20.0
"""Share of the minutes that steps are timed for, and seconds at most."""
PILOTING = 0.03
"""Share of the minutes that a pilot may take."""
MOST_COMPARING = 0.2
"""Share of the minutes in which a long text must be read in two ways, or it is read in one."""
AGAIN = 0.15
"""Of the time that reading a text in two ways and judging counting by both took: what the run prepares once more, which
finds the text's n-grams and its baselines counted."""
MOST_READING = 0.5
"""Share of the minutes that reading may take."""
UNTAUGHT = ("training.start_from", "training.adapters", "training.teachers", "objective", "batches")
"""Settings of a user's own with which no teacher is chosen. Nor is one for a GPU, where the steps of a model that is
taught are not recorded, and take several times as long."""
OURS_TO_SAY = ("steps", "epochs", "minutes")
"""Settings of training that nobody else makes where minutes are given."""
SAID = 0.005
"""Bits per byte that are worth a word."""
LONGER, MUCH_LONGER = (5, 30, 120, 720), 4
"""Minutes of which a run says what they would bring: the first that are so many times its own."""
QUIET = Console(quiet=True)


@dataclass(frozen=True)
class Chosen:
    """What was found out, and what follows from it. `choices`: the best first; `own`: settings of the caller's that the
    promise knows nothing of; `counted`: holds the text's n-grams, so that a run need not count them anew."""

    facts: TextFacts
    choices: list[Choice]
    promise: Promise
    reasons: dict[str, str]
    own: list[str]
    longer: Promise | None = None
    """What the same law says of a longer training."""
    counted: Counts | None = field(default=None, repr=False)

    @property
    def best(self) -> Choice:
        """The one that is taken."""
        return self.choices[0]

    def recipe(self, text: Paths | None, overrides: Iterable[str] | Mapping[str, Any] = ()) -> Recipe:
        """The best choice's, with the minutes and the promise in it, and the caller's settings on top."""
        minutes, tree = self.promise.minutes, self.best.recipe()
        tree["training"]["minutes"] = minutes
        tree["description"] = f"Chosen for {in_minutes(minutes)} on this machine: {self.promise}."
        return resolve(tree, text, overrides)

    def as_plain(self) -> dict[str, Any]:
        longer = None if self.longer is None else self.longer.as_plain()
        return {
            "promise": self.promise.as_plain(),
            "reasons": self.reasons,
            "own": self.own,
            "longer": longer,
        }


def refuse_minutes(minutes: float) -> None:
    """Raise InputError for a time that nothing can be trained in, or too long to foretell."""
    refuse_no_number(minutes)
    if not LEAST <= minutes <= MOST:
        raise InputError(
            f"--minutes must be 0.34 to 720 (20 seconds to 12 hours), not {minutes:g}.",
            remedy="for example --minutes 0.5, or --minutes 30",
        )


def foretell(
    text: Paths | None,
    minutes: Sequence[float],
    *,
    overrides: Iterable[str] | Mapping[str, Any] = (),
    on: str | None = None,
    console: Console | None = None,
    law: Law | None = None,
) -> list[Chosen]:
    """What each number of minutes would bring on this machine; nothing is trained.

    With the name of another machine (`on`, as in `octavo plan --on`) its steps are predicted, not timed; reading the
    text counts as it takes here. Of several numbers of minutes, those that are too few for this text are said and left
    out. Raises InputError where none is left, for minutes that cannot be planned, for a machine that is not known or
    has several devices, and what reading the text raises.
    """
    other = None if on is None else one_device(on)
    return look_at(text, minutes, overrides=overrides, console=console).foretold(other, law)


@dataclass(frozen=True)
class Looked:
    """A text that was looked at for some minutes, and how long that took. `before`: seconds that had passed then;
    `counts` holds the text's n-grams; `own`: settings of the caller's that no promise knows of."""

    minutes: Sequence[float]
    facts: TextFacts
    counts: Counts
    own: list[str]
    before: float
    read: float
    console: Console

    def foretold(self, other: Machine | None, law: Law | None = None) -> list[Chosen]:
        """What each number of minutes would bring here, or on another machine; see `foretell`."""
        facts, longest, measuring = self.facts, max(self.minutes), 0.0
        if other is not None:
            speeds = predicted_times(other, vocabulary=facts.vocabulary)
        else:
            began = time.monotonic()
            with self.console.working("timing a few steps", None):
                limit = min(MEASURING * 60 * longest, MOST_MEASURING)
                speeds = measured_times(vocabulary=facts.vocabulary, seconds=limit)
            measuring = time.monotonic() - began
        prepared = AGAIN * self.read
        end = prepared + ending(prepared)
        where = "here" if other is None else f"on {other.name}"
        taught = not any(key.startswith(each) for key in self.own for each in UNTAUGHT)
        taught &= (accelerator() or "cpu" if other is None else other.device) == "cpu"
        found, of_law = [], law or shipped_law(mixed=facts.mixed)
        for one in self.minutes:
            known = facts if one == longest else piloted_in(facts, PILOTING * 60 * one)
            around = self.before + self.read + min(measuring, 2 * MEASURING * 60 * one) + known.pilot_seconds
            try:
                chosen = _chosen(known, speeds, one, around + end, of_law, self.own, where, taught=taught)
            except InputError as error:
                if one == longest:
                    raise
                self.console.say(error.what)
                continue
            longer = next((each for each in LONGER if each >= MUCH_LONGER * one), None)
            if longer is not None and len(self.minutes) == 1:  # else the caller compares them
                with suppress(InputError):
                    then = _chosen(
                        known, speeds, longer, around + end, of_law, self.own, where, taught=taught
                    )
                    chosen = replace(chosen, longer=then.promise)
            found.append(replace(chosen, counted=self.counts))
        return found


def look_at(
    text: Paths | None,
    minutes: Sequence[float],
    *,
    overrides: Iterable[str] | Mapping[str, Any] = (),
    console: Console | None = None,
) -> Looked:
    """What there is to know of a text before minutes of a machine are planned. Raises InputError for minutes that
    cannot be planned or that bring a model of their own, and what reading the text raises."""
    for one in minutes:
        refuse_minutes(one)
    own = own_settings(overrides)
    given: dict[str, Any] = {}
    apply_overrides(given, overrides)
    for name in OURS_TO_SAY:
        if isinstance(given.get("training"), dict) and given["training"].get(name) is not None:
            raise InputError(
                f"--minutes says how long there is to train, and training.{name} says so too.",
                remedy="leave one of them out; training.passes=3 is the most that a text may be seen",
            )
    if "training" in own:
        raise InputError(
            "--minutes chooses how it is trained, and training=… would put other settings in the place of all that.",
            remedy="name the settings that are to differ, such as training.batch=32",
        )
    if named_by(overrides) is not None:
        raise InputError(
            "--minutes chooses a model of its own, and training.start_from brings one.",
            remedy="leave one of them out; a recipe with training.minutes=5 continues a model for five minutes",
        )
    console = console or Console(quiet=True)
    before = time.monotonic() - console.started
    with console.working("looking at the text", None), reading_within(max(minutes), console):
        facts, pilot = survey(text, overrides, console, seconds=MOST_COMPARING * 60 * max(minutes))
    read = time.monotonic() - console.started - before
    facts = with_pilot(facts, pilot, PILOTING * 60 * max(minutes), console)
    return Looked(minutes, facts, pilot.counts, own, before, read, console)


def measured_times(*, vocabulary: int, seconds: float) -> dict[Size, float]:
    """Seconds of a step of each size here, in the precision that is faster, and in one thread where others use the
    cores so much that it is faster by far, as a run takes it; timing them takes about so many seconds."""
    device = torch.device(accelerator() or "cpu")
    precisions = ["float32", "bfloat16"] if fast_bfloat16(device) else ["float32"]
    threads: int | None = None  # a busy machine may take fewer than it has

    def step(size: Size, precision: str, threads: int | None) -> Step:
        recipe = one_step_of(size)
        training = recipe.training.model_copy(update={"precision": precision, "threads": threads})
        one = recipe.model_copy(update={"training": training})
        return timed(one, vocab_size=vocabulary, console=QUIET, repeats=STEPS_MEASURED - 1)

    def measure(size: Size) -> float:
        nonlocal threads
        taken = []
        for precision in precisions:
            found = step(size, precision, threads)
            share = found.threads_share
            if found.threads > 1 and share is not None and share < OURS:
                alone = step(size, precision, 1)
                if found.step_seconds >= CLEARLY * alone.step_seconds:
                    found = alone
            threads = found.threads
            taken.append(found.step_seconds)
        return min(taken)

    steps = STEPS_MEASURED * len(precisions)
    return step_times(measure, vocabulary=vocabulary, seconds=seconds, steps=steps)


def one_device(name: str) -> Machine:
    """The machine of a name. Raises InputError for an unknown one, and for one of several devices."""
    machine = find_machine(name)
    if machine.devices > 1:
        raise InputError(
            f"--minutes trains on one device, and {name} has {machine.devices}.",
            remedy=f"--on {name.rpartition('x')[2]}, or octavo plan RECIPE --on {name}",
        )
    return machine


def predicted_times(machine: Machine, *, vocabulary: int) -> dict[Size, float]:
    """Seconds of a step of each size on a machine that is not at hand; of those that its memory holds. Raises
    InputError where it holds none."""
    found = {
        size: predictions(one_step_of(size), [machine], vocab_size=vocabulary, steps=None)[0]
        for size in SIZES
    }
    fitting = {size: each.seconds.step for size, each in found.items() if each.fits}
    if not fitting:
        raise InputError(
            f"The memory of {machine.name} holds none of the models that --minutes chooses from."
        )
    return fitting


@contextmanager
def reading_within(minutes: float, console: Console) -> Iterator[None]:
    """Within this, a text must be read in a part of so many minutes; else InputError."""
    began, share = time.monotonic(), MOST_READING * 60 * minutes
    console.reading_ends = began + share
    try:
        yield
    except ReadingTooLong as error:
        unit, name = (1e6, "MB") if max(error.done, error.total or 0) >= 1e7 else (1e3, "kB")
        known = f" of {error.total / unit:,.0f}" if error.total else ""
        busy = "" if name == "MB" else " Other programs may be using the processor."
        raise InputError(
            f"The text is too long for {in_minutes(minutes)}: after {duration(share)} no more than "
            f"{error.done / unit:,.0f}{known} {name} were read.{busy}",
            remedy="more minutes, or a part of the text",
        ) from None
    finally:
        console.reading_ends = None


def _chosen(
    facts: TextFacts,
    speeds: Mapping[Size, float],
    minutes: float,
    around: float,
    law: Law,
    own: list[str],
    where: str,
    *,
    taught: bool,
) -> Chosen:
    """What is best in so many minutes, of which `around` seconds are no training."""
    seconds = 60 * minutes - around
    filled = {size: each for size, each in speeds.items() if facts.train_tokens > size.context}
    found = choices(facts, filled or speeds, seconds, law, taught=taught)
    if not found:
        least = around + 2 * least_seconds(facts, speeds)
        raise InputError(
            f"{in_minutes(minutes)} is too short for this text: reading and judging it takes about "
            f"{duration(around)} here.",
            remedy=f"--minutes {math.ceil(10 * max(LEAST, least / 60)) / 10:g}, or a part of the text",
        )
    said = reasons(found[0], found[1:], facts, seconds, law, where=where)
    if any(key.partition(".")[0] == "tokenizer" for key in own):
        del said["tokenizer"]
    said |= dict.fromkeys(own, "your own setting; the promise does not account for it.")
    return Chosen(facts, found, promise(minutes, found[0], earlier_promises()), said, own)


def refuse_recipe(recipe: object) -> NoReturn:
    """Raise InputError for a recipe beside minutes, which choose it."""
    named = f"'{recipe}' is one" if isinstance(recipe, str | Path) else "one is given"
    raise InputError(
        f"--minutes chooses the recipe, and {named}.",
        remedy="leave one of them out; training.minutes=5 gives your own recipe five minutes",
    )


def refuse_no_number(minutes: object) -> None:
    """Raise InputError where minutes are not a number."""
    if isinstance(minutes, bool) or not isinstance(minutes, Real):
        raise InputError(f"--minutes takes a number, not {minutes!r}.", remedy="for example --minutes 5")


def said(found: Chosen) -> list[str]:
    """The choice and the promise, in sentences."""
    best, facts = found.best, found.facts
    lines = [
        f"promise for {in_minutes(found.promise.minutes)}: {found.promise}; counting alone has {facts.counted:.2f}, "
        f"the model before it learns {facts.start:.2f}",
        f"chosen: {best.parameters:,} parameters; planned: {best.steps:,} steps{after_teachers(best)}, "
        f"{best.passes:.2g} passes over {facts.train_tokens:,} tokens; why is on the report's page",
    ]
    if found.promise.bits >= facts.start:
        lines.insert(1, no_better(found))
    if found.own:
        lines.append(f"the promise is for the choice alone: it knows nothing of your {', '.join(found.own)}")
    return lines


def no_better(found: Chosen) -> str:
    """Why a promise is not below what the model has before it learns, in a sentence."""
    facts, promised = found.facts, found.promise
    why = []
    if facts.drift >= SAID:
        why.append(f"on the end of the text, which the promise is for, it has about {facts.drift:.2f} more")
    if promised.bits - promised.law_bits >= SAID:
        why.append(f"earlier promises here were too good, which adds {promised.bits - promised.law_bits:.2f}")
    why.append(f"learning is expected to bring {max(0.0, facts.start + facts.drift - promised.law_bits):.2f}")
    return f"why not below {facts.start:.2f}: {'; '.join(why)}"


def by_minutes(found: Sequence[Chosen]) -> list[str]:
    """A line for each number of minutes, and from when on more time brings little."""
    lines = [
        f"{in_minutes(each.promise.minutes)}: {each.promise}, {each.best.parameters:,} parameters"
        f"{after_teachers(each.best)}"
        for each in found
    ]
    best = min((each.promise.bits for each in found), default=0.0)
    enough = next((each for each in found if each.promise.bits - best < 0.01), None)
    if enough is not None and enough is not found[-1]:
        lines.append(f"more than {in_minutes(enough.promise.minutes)} brings less than 0.01")
    return lines
