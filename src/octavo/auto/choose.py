"""Which model of the family, and how many steps: the one that the law says is best in the time that there is."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from octavo.auto.facts import SIZE, TextFacts
from octavo.auto.family import (
    SIZES,
    Size,
    dropout_for,
    judged_in,
    looks_in,
    one_step_of,
    parameters_of,
    recipe_of,
)
from octavo.auto.law import Law
from octavo.config.schema import ASKING
from octavo.corpus.languages import NOTICED, name_of
from octavo.evaluation.attribution import COUNTED
from octavo.evaluation.reading_on import AT_ONCE
from octavo.run.deadline import APART, APART_HEARD, FORWARD
from octavo.util.terminal import duration

# Whether a model is worth a teacher: a training of the same model before it, from which it then learns too.
# Nothing here imports torch.

SEEN, WORN = 8.0, 50.0
"""From how many passes of each training on, and from how many of these times weights for each token of the text, a
teacher is worth its time."""
SURE = 0.5
"""Of what a teacher is said to bring, the standard deviation."""
LESS = 0.1
"""Less dropout than its teacher is best for a model that is taught."""


@dataclass(frozen=True)
class Teaching:
    """So many teachers, and a model that takes `longer` times as many steps as each. `gain`: how much more it learns
    than one of them, as a share of what that learned: by how much it has fewer bits than before its first step."""

    teachers: int
    longer: int
    gain: float

    def share(self, alone: float) -> float:
        """The share of its first bits that a model ends with where one that nobody teaches has `alone`."""
        return 1 - (1 + self.gain) * (1 - alone)

    def steps_in(self, most: int) -> int:
        """Of each training, in the time of so many steps without a teacher."""
        taught = 1 + ASKING if self.teachers else 1.0
        return int(most / (self.teachers + taught * self.longer))

    @staticmethod
    def is_worth_it(passes: float, weights_per_token: float) -> bool:
        """Whether trainings that see their text so often have enough to learn by heart."""
        return passes >= SEEN and passes * weights_per_token >= WORN

    def dropout(self, passes: float, weights_per_token: float) -> float:
        """Of the model itself, whose teachers see the text so often."""
        alone = dropout_for(passes, weights_per_token)
        return max(0.0, round(alone - LESS, 3)) if self.teachers else alone


ALONE = Teaching(0, 1, 0.0)
TAUGHT = (Teaching(1, 1, 0.18), Teaching(3, 2, 0.25))


LEAST_STEPS = 20
"""Fewer are no training."""
STEPS_MEASURED = 4
"""Of each size, with the one that warms up."""
TRIED = 300
"""Numbers of steps that are compared, from the fewest to the most, before those around the best."""
ALIKE, OFTEN = 0.75, 3.0
"""Of how far the law is off: it cannot tell choices apart that are so close. Where the best of them sees its text this
often, the one that sees it least is taken, for it has learned the least by heart."""
OF_TEST = 0.5
"""What judging a token of the test split takes, of what learning from it does: it is judged in float32."""
COUNTING, LARGE = 0.3, 25_000
"""What counting beside it takes, of what learning from a token does at the smallest size, and for how large a
vocabulary as much as all of that more."""
MORE = 1.25
"""How many more passes than planned a machine may make that turns out faster."""


@dataclass(frozen=True)
class Choice:
    """A model, its training, and what to expect of it.

    Attributes:
        tokenizer: as plain data.
        counts: what counts beside it, as plain data.
        held_out: share of the text for the validation split, and for the test split.
        parameters: without the gate's.
        step_seconds: as measured here.
        most_steps: that the time allows where nobody teaches.
        teaching: who is trained before it; `teacher_dropout`: theirs.
        bits: per byte, the middle of what is expected on text that the model has not seen.
        error: the standard deviation of that.
    """

    size: Size
    tokenizer: Mapping[str, Any]
    vocabulary: int
    counts: Mapping[str, Any]
    held_out: float
    steps: int
    parameters: int
    passes: float
    dropout: float
    step_seconds: float
    most_steps: int
    bits: float
    error: float
    teaching: Teaching
    teacher_dropout: float

    @property
    def steps_of_each(self) -> int:
        """Of its teachers; its own where there are none."""
        return self.steps // self.teaching.longer

    @property
    def has_time_left(self) -> bool:
        """Whether there would be time for clearly more steps."""
        return self.steps_of_each < 0.9 * self.teaching.steps_in(self.most_steps)

    def recipe(self) -> dict[str, Any]:
        """As plain data, without a text."""
        tree = recipe_of(
            self.size,
            steps=self.steps,
            dropout=self.dropout,
            tokenizer=self.tokenizer,
            vocabulary=self.vocabulary,
            counts=self.counts,
            held_out=self.held_out,
        )
        tree["training"]["passes"] = float(f"{MORE * self.passes:.3g}")
        if self.teaching.teachers:
            tree["training"]["teachers"] = {
                "trained": self.teaching.teachers,
                "trained_steps": self.steps_of_each,
                "trained_dropout": self.teacher_dropout,
            }
        return tree


def choices(
    facts: TextFacts,
    step_seconds: Mapping[Size, float],
    seconds: float,
    law: Law,
    *,
    taught: bool = True,
) -> list[Choice]:
    """The best number of steps for each size that can take enough of them in so many seconds of training, with a
    teacher where that is better and `taught`; first the one to take, which is the best or as good (`ALIKE`). Empty
    where there is no time for any. Beside a context mixer nobody teaches: there it is worth less than steps."""
    taught = taught and not facts.mixed
    most = {size: steps_in(seconds, facts, size, step_seconds) for size in step_seconds}
    found = [
        min(
            _ways(facts, size, step_seconds[size], steps, law, taught=taught),
            key=lambda choice: choice.bits,
        )
        for size, steps in most.items()
        if steps >= LEAST_STEPS
    ]
    found = sorted(found, key=lambda choice: choice.bits)
    alike = [choice for choice in found if choice.bits <= (1 + ALIKE * law.residual) * found[0].bits]
    if alike and found[0].passes > OFTEN:
        first = min(alike, key=lambda choice: choice.passes)
        found = [first, *(choice for choice in found if choice is not first)]
    if facts.piloted is not None:  # it chooses nothing: one run of the smallest does not compare others
        told = law.known(facts.piloted, *pilot_point(facts))
        found = [_with_expected(choice, facts, told) for choice in found]
    if facts.idle:  # no context tells anything, as in random letters: there is nothing to learn
        found = [replace(choice, bits=facts.start + facts.drift) for choice in found]
    return found


def pilot_point(facts: TextFacts) -> tuple[float, ...]:
    """Where a pilot of the text stands in the law."""
    return point_of(facts, SIZE, facts.pilot_steps)


def point_of(facts: TextFacts, size: Size, steps: int) -> tuple[float, ...]:
    """Where a training stands in the law."""
    learned = steps * size.step_tokens * facts.bytes_per_token
    return parameters_of(size, facts.vocabulary), learned, facts.train_bytes


def judging(facts: TextFacts, size: Size, steps: int, step_seconds: Mapping[Size, float]) -> float:
    """Seconds of the evaluations of a run of so many steps: before the first and on its way, and at its end of both
    held-out splits, of the one by counting and by learning apart."""
    validation, each = facts.validation_tokens, judged_in(size, steps, mixes=facts.mixed)
    apart = APART_HEARD if facts.mixed else APART
    judged = (
        (1 + looks_in(size, steps)) * min(validation, each) + validation + apart * min(COUNTED, validation)
    )
    least, *_ = step_seconds
    counting = (COUNTING + facts.vocabulary / LARGE) * step_seconds[least] / least.step_tokens
    learning = step_seconds[size] / size.step_tokens
    again = 0.0
    if facts.mixed:  # the network is heard once more, and the mixer reads on
        again = (FORWARD * validation + OF_TEST * facts.test_tokens) * learning
        again += AT_ONCE * facts.token_seconds * (validation + facts.test_tokens)
    return (
        (FORWARD * learning + counting) * judged + (OF_TEST * learning + counting) * facts.test_tokens + again
    )


def steps_in(seconds: float, facts: TextFacts, size: Size, step_seconds: Mapping[Size, float]) -> int:
    """How many steps a size can take, and judge, in so much time."""
    steps = 0
    for _ in range(2):  # the more steps, the more tokens in each look
        looks = judging(facts, size, steps, step_seconds)
        steps = int((seconds - looks) / step_seconds[size])
    return steps


def least_seconds(facts: TextFacts, step_seconds: Mapping[Size, float]) -> float:
    """Of training and judging, in which there is a choice."""
    return min(
        LEAST_STEPS * each + judging(facts, size, LEAST_STEPS, step_seconds)
        for size, each in step_seconds.items()
    )


def _ways(
    facts: TextFacts, size: Size, each: float, most: int, law: Law, *, taught: bool
) -> Iterator[Choice]:
    """A model of a size, alone and with teachers, in the time of so many of its steps."""
    yield _choice(facts, size, each, most, law, ALONE)
    for teaching in TAUGHT if taught else ():
        if teaching.steps_in(most) >= LEAST_STEPS:
            choice = _choice(facts, size, each, most, law, teaching)
            seen = choice.passes / teaching.longer
            if teaching.is_worth_it(seen, choice.parameters / facts.train_tokens):
                yield choice


def _choice(facts: TextFacts, size: Size, each: float, most: int, law: Law, teaching: Teaching) -> Choice:
    """The number of steps, of at most so many where nobody teaches, that the law says is best."""
    parameters = parameters_of(size, facts.vocabulary)
    steps = _least(
        lambda count: law.share(*point_of(facts, size, count)), LEAST_STEPS, teaching.steps_in(most)
    )
    bits, error = _expected(facts, size, steps, law, teaching)
    passes = steps * size.step_tokens / facts.train_tokens
    weights = parameters / facts.train_tokens
    return Choice(
        size=size,
        tokenizer=facts.tokenizer,
        vocabulary=facts.vocabulary,
        counts=facts.counts,
        held_out=facts.held_out,
        steps=teaching.longer * steps,
        parameters=parameters,
        passes=teaching.longer * passes,
        dropout=teaching.dropout(passes, weights),
        step_seconds=each,
        most_steps=most,
        bits=bits,
        error=error,
        teaching=teaching,
        teacher_dropout=dropout_for(passes, weights),
    )


def _least(share: Callable[[int], float], first: int, last: int) -> int:
    """The number at which a share that falls and then rises is least: exactly, so that more time never promises
    more bits."""
    counts = np.unique(np.geomspace(first, last, TRIED).astype(int)).tolist()
    best = min(range(len(counts)), key=lambda place: share(counts[place]))
    low, high = counts[max(best - 1, 0)], counts[min(best + 1, len(counts) - 1)]
    while high - low > 2:
        third = (high - low) // 3
        if share(low + third) <= share(high - third):
            high -= third
        else:
            low += third
    return min(range(low, high + 1), key=share)


def _with_expected(choice: Choice, facts: TextFacts, law: Law) -> Choice:
    """The choice with what the law says of it now."""
    bits, error = _expected(facts, choice.size, choice.steps_of_each, law, choice.teaching)
    return replace(choice, bits=bits, error=error)


def _expected(facts: TextFacts, size: Size, steps: int, law: Law, teaching: Teaching) -> tuple[float, float]:
    """Bits per byte of a model after so many steps or such teachers, and the standard deviation of that."""
    point = point_of(facts, size, steps)
    alone = law.share(*point)
    share = teaching.share(alone)
    error = facts.start * math.hypot(law.error(*point), SURE * (alone - share))
    return (facts.start + facts.drift) * share, math.hypot(error, facts.spread)


def reasons(
    best: Choice, others: Sequence[Choice], facts: TextFacts, seconds: float, law: Law, *, where: str = "here"
) -> dict[str, str]:
    """Why each thing was chosen, a sentence each; `where` a step takes its time."""
    size = best.size
    again = f"; {facts.duplicates:,} more stood there before and were left out" if facts.duplicates else ""
    found = {
        "text": f"{facts.train_bytes / 1000:,.0f} kB to learn from, of {facts.alphabet:,} different characters, "
        f"in {facts.documents:,} document{'s' * (facts.documents != 1)}{again}{written_in(facts)}.",
        "tokenizer": read_as(facts),
        "model": f"{best.parameters:,} parameters (width {size.width}, {size.layers} layers) take "
        f"{best.step_seconds * 1000:.0f} ms a step {where}, so {duration(seconds)} with all judging are "
        f"about {best.most_steps:,} steps.",
        "model.counts": of_counts(facts),
        "training.steps": f"planned: {best.passes:.2g} passes over {facts.train_tokens:,} tokens"
        + ("; more would be learned by heart." if best.has_time_left else ", as many as there is time for."),
        "model.dropout": of_dropout(best, best.parameters / facts.train_tokens),
    }
    if teachers := best.teaching.teachers:
        found["training.teachers"] = (
            f"before it {numbered(teachers, 'model')} like it learned for {best.steps_of_each:,} steps, and told it "
            "what else could have come next: so it learns less by heart, which is worth more here than all the time "
            "for one."
        )
    if facts.piloted is not None:
        found["pilot"] = of_pilot(best, facts, facts.piloted, law)
    for other in others[:1]:
        alike = " too, but by seeing the text more often" if other.bits < best.bits else ""
        found["instead"] = (
            f"{other.parameters:,} parameters and {other.steps:,} steps{after_teachers(other)} should reach "
            f"{other.bits:.3f} bits per byte{alike}."
        )
    return found


def of_counts(facts: TextFacts) -> str:
    """What counting knows of the text, in a sentence."""
    by = (
        "a context mixer that reads on has"
        if facts.mixed
        else "the best n-gram and what the text has said so far have"
    )
    said = f"counting alone, {by} {facts.counted:.3f} bits per byte; "
    if facts.idle:
        return f"{said}no token tells what comes after it, so there is next to nothing to learn."
    return f"{said}beside it the model need not learn what counting knows."


def of_dropout(best: Choice, weights: float) -> str:
    """Why so much of it, in a sentence; `weights` for each token of the text."""
    alone, seen = best.teacher_dropout, best.passes / best.teaching.longer
    why = f"for the planned {seen:.2g} passes and {weights:.2g} parameters for each token"
    enough = "enough to learn the text by heart" if alone else "too few to learn the text by heart"
    if best.teaching.teachers:
        return f"{best.dropout:g} beside a teacher, which has {alone:g} {why}: {enough}."
    return f"{best.dropout:g} {why}: {enough}."


def after_teachers(choice: Choice) -> str:
    """Whom its training comes after, in words."""
    teachers = choice.teaching.teachers
    return f" after {numbered(teachers, 'teacher')}" if teachers else ""


def numbered(number: int, what: str) -> str:
    """`1 model`, `3 models`."""
    return f"one {what}" if number == 1 else f"{number} {what}s"


def written_in(facts: TextFacts) -> str:
    """The languages of a text, those of a twentieth of it or more; nothing where they are not known."""
    named = [(name_of(code), share) for code, share in facts.languages.items() if share >= NOTICED]
    said = [f"{share:.0%} of it is {name}" if len(named) > 1 else f"it is {name}" for name, share in named]
    return f"; {', '.join(said)} (from samples)" if said else ""


def of_pilot(best: Choice, facts: TextFacts, share: float, law: Law) -> str:
    """What a pilot told of the text and what that means for the choice, in a sentence."""
    point = pilot_point(facts)
    expected = facts.start * law.share(*point)
    own = math.exp(law.known(share, *point).own_at(*point_of(facts, best.size, best.steps_of_each))[0])
    said = (
        f"the smallest model has {facts.start * share:.3f} bits per byte after {facts.pilot_steps:,} steps, "
        f"{expected:.3f} says the law: "
    )
    if math.isclose(own, 1, abs_tol=0.05):
        return f"{said}as much can be learned here as of other texts."
    return f"{said}it is reckoned that {own:.1f} times as much can be learned here as of other texts."


def read_as(facts: TextFacts) -> str:
    """What the text is read as, and why, in a sentence."""
    names = {"byte": "bytes or characters", "bpe": "byte pairs"}
    kind = facts.tokenizer["kind"]
    size = f"{facts.vocabulary:,} tokens of {facts.bytes_per_token:.1f} bytes"
    other = next(name for name in names if name != kind)
    if other in facts.others:
        why = f"counting alone has {facts.counted:.3f} bits per byte, of {names[other]} {facts.others[other]:.3f}"
    elif facts.mixed:
        why = "a context mixer counts, which knows words by itself"
    else:
        why = f"there was no time to try {names[other]}"
    if facts.others.get(other, math.inf) < facts.counted:
        why += ", too little better for what new words cost them"
    return f"{names[kind]} ({size}): {why}."


def step_times(
    measure: Callable[[Size], float], *, vocabulary: int, seconds: float, steps: int = STEPS_MEASURED
) -> dict[Size, float]:
    """Seconds of a step of each size. Sizes are measured, by so many steps, from the smallest on while that takes no
    more than `seconds`; from there on time goes with the operations of a step."""
    found: dict[Size, float] = {}
    last: Size | None = None
    spent = 0.0
    for size in SIZES:
        foreseen = (
            0.0 if last is None else found[last] * operations(size, vocabulary) / operations(last, vocabulary)
        )
        if last is not None and spent + steps * foreseen > seconds:
            found[size] = foreseen
            continue
        began = time.monotonic()
        found[size], last = measure(size), size
        spent += time.monotonic() - began
    return found


def operations(size: Size, vocabulary: int) -> float:
    """Floating-point operations of a step."""
    return size.step_tokens * one_step_of(size).model.training_flops(vocab_size=vocabulary)
