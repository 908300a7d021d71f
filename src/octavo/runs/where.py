"""Token by token on the same text: opens runs, and asks `evaluation.where` in which places which are better."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from octavo.dataset import Split
from octavo.errors import InputError
from octavo.evaluation.baselines import HIGHEST, LIMIT
from octavo.evaluation.token_losses import TokenLosses, token_losses
from octavo.evaluation.where import Where, parts, words_of
from octavo.ground.console import Console
from octavo.model.kneser_ney import KneserNey, best_order
from octavo.runs.comparison import Comparison
from octavo.runs.data import build_dataset, evaluated_on, rows_at_once
from octavo.runs.evaluate import refuse_other_text, whole_split
from octavo.runs.run import Run

MOST = 200_000
"""Tokens of the validation split that are read, from its beginning."""


def where(found: Comparison, console: Console) -> Where:
    """Compare two runs token by token.

    Raises what `between` raises, and InputError for other than two, a damaged one, or different texts.
    """
    if len(found.runs) != 2:
        raise InputError(
            f"Token by token two runs compare, not {len(found.runs)}.",
            remedy="octavo compare RUN RUN --where",
        )
    if any(run.damage for run in found.runs):
        raise InputError("A damaged run has no losses to compare.", remedy="leave out --where")
    if not found.same_text:
        raise InputError(
            "They were evaluated on different texts, so no token is in both.", remedy="leave out --where"
        )
    first, second = ([Run.open(run.path)] for run in found.runs)
    return between(first, second, console)


def between(first: Sequence[Run], second: Sequence[Run], console: Console) -> Where:
    """Compare runs with others, token by token; those of a side differ in their seed alone.

    Raises InputError where their losses do not stand for the same tokens, CorpusError if the text is another one now.
    """
    runs = [*first, *second]
    if len({run.tokenizer.fingerprint() for run in runs}) > 1:
        raise InputError(
            "Their tokenizers differ, so their tokens are not the same.", remedy="leave out --where"
        )
    recipe = whole_split(runs[0].config)
    if not all(run.config.objective.build().unit.text for run in runs):
        raise InputError("Only losses of text are compared token by token.", remedy="leave out --where")
    dataset = build_dataset(recipe, console, runs[0].tokenizer)
    for run in runs:
        refuse_other_text(run, dataset)
    tokens = np.asarray(dataset.validation.tokens[:MOST])
    counted = np.asarray(dataset.train.tokens[-LIMIT:])
    size = dataset.tokenizer.vocab_size
    order = best_order(counted, vocab_size=size, highest=HIGHEST)
    probabilities = KneserNey(counted, vocab_size=size, highest=order).probabilities(tokens)[-1]
    sides = [[_losses(run, dataset.validation) for run in side] for side in (first, second)]
    return parts(sides, -np.log(probabilities), words_of(tokens, dataset.tokenizer), order)


def _losses(run: Run, split: Split) -> TokenLosses:
    recipe = whole_split(run.config)
    part = replace(split, tokens=split.tokens[:MOST], starts=split.starts[split.starts < MOST])
    rows = rows_at_once(recipe, run.tokenizer, next(run.model.parameters()).device)
    batches = evaluated_on(part, recipe, run.tokenizer, rows=rows)
    return token_losses(run.model, batches, len(part.tokens), objective=recipe.objective.build())
