"""The family's smallest model on a text: what it has before it learns, and what a short training of it tells."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from typing import Any

import torch

from octavo.auto.family import SIZES, dropout_for, parameters_of, recipe_of
from octavo.config import check
from octavo.data import Dataset
from octavo.errors import CorpusError
from octavo.model.base import build_model
from octavo.ngram.gate import one_thread
from octavo.ngram.mixture import Counts
from octavo.run.data import build_batches, held_out_of, with_rows_held_out
from octavo.run.evaluate import evaluate_split, evaluated_by
from octavo.training.device import Runtime, keep_memory
from octavo.training.loop import training_steps
from octavo.training.step import StepOptions
from octavo.util.console import Console

LEAST, MOST = 300, 1200
"""Steps of a pilot: as the shortest runs that the law was fitted on, and as many as tell what can be learned of a text
about as well as all of a training would."""
TRIED = 10
"""Steps that are timed before it is known how many there are."""
SHORTEST = 2.0
"""Seconds that LEAST steps take anywhere (10 to 40 ms each): where there are fewer, none is tried, which takes half a
second itself."""
SLOWER = 2.0
"""How much longer than that a pilot may take before it is given up."""
SIZE = SIZES[0]
QUIET = Console(quiet=True)


class Pilot:
    """The smallest model on a text.

    Attributes:
        before: bits per token on the validation split or on `tokens` of it, from its beginning, before it learns. The
            network says nothing yet: other sizes have the same but for the gate's random beginning.
        seconds: that learning took, with judging.
    """

    def __init__(self, dataset: Dataset, tokenizer: Mapping[str, Any], *, tokens: int | None = None) -> None:
        keep_memory()
        self.dataset, self.tokenizer, self.tokens = dataset, tokenizer, tokens
        self.runtime, self.seconds = Runtime(torch.device("cpu"), "float32", 1), 0.0
        with one_thread():
            self._build(LEAST)
            self.before = self._bits()

    @property
    def counts(self) -> Counts:
        """What holds the n-grams of the text, with and without what is held out: a run need not count them anew."""
        return self.model.counts

    def steps_in(self, seconds: float) -> int:
        """How many steps it learns for in so many seconds; 0 where they are too few to tell anything, or the text is
        too short for them."""
        if seconds < SHORTEST:
            return 0
        began = time.monotonic()
        with one_thread():
            learned = self._learn(1, math.inf, QUIET)  # the first step prepares what others use
            warm = time.monotonic()
            learned = learned and self._learn(TRIED, math.inf, QUIET)
        now = time.monotonic()
        self.seconds += now - began
        steps = min(MOST, int(seconds * TRIED / (now - warm))) if learned else 0
        return steps if steps >= LEAST else 0

    def share(self, steps: int, console: Console, *, most_seconds: float = math.inf) -> float | None:
        """What it has after a training of so many steps, as a share of what it had before; None where that takes
        longer than so many seconds, or the text is too short."""
        began = time.monotonic()
        with one_thread(), console.working("a pilot learns", steps):
            self._build(steps)
            learned = self._learn(steps, most_seconds, console)
            after = self._bits() if learned else 0.0
        self.seconds += time.monotonic() - began
        return after / self.before if learned else None

    def _build(self, steps: int) -> None:
        """A model that has not learned yet, for so many steps."""
        dataset, vocabulary = self.dataset, self.dataset.tokenizer.vocab_size
        passes = steps * SIZE.step_tokens / len(dataset.train.tokens)
        dropout = dropout_for(passes, parameters_of(SIZE, vocabulary) / len(dataset.train.tokens))
        recipe = check(recipe_of(SIZE, steps=steps, dropout=dropout, tokenizer=self.tokenizer))
        self.recipe = evaluated_by(recipe, self.tokens)
        model = build_model(recipe.model, vocab_size=vocabulary, seed=recipe.seed)
        self.held_out = held_out_of(recipe, dataset)
        model.take_text(dataset.train.tokens, self.held_out)
        self.model = model  # only now, for what the one before has counted need not be counted anew

    def _bits(self) -> float:
        found = evaluate_split(
            self.model, self.dataset.validation, self.recipe, self.dataset.tokenizer, self.runtime
        )
        return found.loss / math.log(2)

    def _learn(self, steps: int, most_seconds: float, console: Console) -> bool:
        recipe, dataset = self.recipe, self.dataset
        try:
            batches = build_batches(recipe, dataset, QUIET, self.held_out)
            batches = with_rows_held_out(batches, self.held_out, recipe, dataset)
        except CorpusError:
            return False
        loop = training_steps(
            self.model,
            recipe.training.optimizer.build(self.model),
            batches.batch,
            steps=range(steps),
            seed=recipe.seed,
            schedule=recipe.training.schedule.build(steps=steps),
            objective=recipe.objective.build(),
            options=StepOptions(clip=recipe.training.clip),
        )
        began = time.monotonic()
        for step, _ in enumerate(loop, 1):
            console.advance(step, f"pilot: step {step:,} of {steps:,}")
            if time.monotonic() - began > most_seconds:
                return False
        return True
