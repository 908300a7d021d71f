"""The family's smallest model on a text: what it has before it learns, and what a short training of it tells."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from typing import Any

import torch

from octavo.auto.family import SIZES, dropout_for, parameters_of, recipe_of
from octavo.config import check
from octavo.dataset import Dataset
from octavo.errors import CorpusError
from octavo.ground.console import Console
from octavo.model.build import build_model
from octavo.model.counts import Counts
from octavo.model.first_gate import one_thread
from octavo.runs.data import build_batches, held_out_of, with_rows_held_out
from octavo.runs.evaluate import evaluated_by
from octavo.runs.metrics import evaluate_split
from octavo.training.loop import training_steps
from octavo.training.runtime import Runtime, keep_memory
from octavo.training.work import StepOptions

STEPS = 300
"""Of a pilot, with the whole schedule: as the shortest runs that the law was fitted on."""
TRIED = 10
"""Steps after which a pilot that would take too long is given up."""
SIZE = SIZES[0]


class Pilot:
    """A model that has not learned yet.

    Attributes:
        before: bits per token on the validation split or on `tokens` of it, from its beginning. The network says
            nothing yet: other sizes have the same but for the gate's random beginning.
        seconds: that learning took, with judging.
    """

    def __init__(self, dataset: Dataset, tokenizer: Mapping[str, Any], *, tokens: int | None = None) -> None:
        keep_memory()
        self.dataset, vocabulary = dataset, dataset.tokenizer.vocab_size
        passes = STEPS * SIZE.step_tokens / len(dataset.train.tokens)
        dropout = dropout_for(passes, parameters_of(SIZE, vocabulary) / len(dataset.train.tokens))
        recipe = check(recipe_of(SIZE, steps=STEPS, dropout=dropout, tokenizer=tokenizer))
        self.recipe = evaluated_by(recipe, tokens)
        self.model = build_model(recipe.model, vocab_size=vocabulary, seed=recipe.seed)
        self.held_out = held_out_of(recipe, dataset)
        self.runtime = Runtime(torch.device("cpu"), "float32", 1)
        with one_thread():
            self.model.take_text(dataset.train.tokens, self.held_out)
            self.before, self.seconds = self._bits(), 0.0

    @property
    def counts(self) -> Counts:
        """What holds the n-grams of the text, with and without what is held out: a run need not count them anew."""
        return self.model.counts

    def share(self, most_seconds: float, console: Console) -> float | None:
        """What it has after all steps, as a share of what it had before; None if they need more than so many seconds,
        or the text is too short for them."""
        began = time.monotonic()
        with one_thread():
            learned = self._learn(most_seconds, console)
            after = self._bits() if learned else 0.0
        self.seconds = time.monotonic() - began
        return after / self.before if learned else None

    def _bits(self) -> float:
        found = evaluate_split(
            self.model, self.dataset.validation, self.recipe, self.dataset.tokenizer, self.runtime
        )
        return found.loss / math.log(2)

    def _learn(self, most_seconds: float, console: Console) -> bool:
        recipe, dataset = self.recipe, self.dataset
        try:
            batches = build_batches(recipe, dataset, Console(quiet=True), self.held_out)
            batches = with_rows_held_out(batches, self.held_out, recipe, dataset)
        except CorpusError:
            return False
        loop = training_steps(
            self.model,
            recipe.training.optimizer.build(self.model),
            batches.batch,
            steps=range(STEPS),
            seed=recipe.seed,
            schedule=recipe.training.schedule.build(steps=STEPS),
            objective=recipe.objective.build(),
            options=StepOptions(clip=recipe.training.clip),
        )
        began = time.monotonic()
        with console.working("a pilot learns", STEPS):
            for step, _ in enumerate(loop, 1):
                console.advance(step, f"step {step} of {STEPS}")
                spent = time.monotonic() - began
                if (spent * STEPS / step if step == TRIED else spent) > most_seconds:
                    return False
        return True
