"""From a run to the page that explains it."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any, Literal, cast

import numpy as np

from octavo.config import Recipe
from octavo.data import Split
from octavo.data.batch import Batch
from octavo.explain.explainer import (
    EFFORT,
    Explanation,
    Subject,
    explained,
)
from octavo.explain.page_model import refuse_beyond
from octavo.explain.page_weights import WeightType
from octavo.model.gpt import GPT
from octavo.run.data import build_dataset, evaluated_on
from octavo.run.evaluate import refuse_other_text
from octavo.run.run import Run
from octavo.task import task_of
from octavo.tokenizers import Tokenizer
from octavo.util.console import Console


def explain_run(
    run: Run,
    console: Console,
    *,
    text: Any = None,
    weights: WeightType | Literal["auto"] = "auto",
    effort: float = EFFORT,
) -> Explanation:
    """A run's page, measured on its validation split, or on the files of `text`. Raises InputError for a model that a
    page cannot compute, CorpusError where there is no text."""
    refuse_beyond(run.config.model, run.tokenizer)
    split = run_split(run, console, text)
    with console.working("measuring what each part is worth", None):
        return explained(subject_of(run, split), weights=weights, effort=effort)


def run_split(run: Run, console: Console, text: Any) -> Split:
    """What is measured on."""
    if text is not None:
        return task_of(run.config).new_split(run.config, run.tokenizer, text, console)
    dataset = build_dataset(run.config, console, run.tokenizer)
    refuse_other_text(run, dataset)
    return dataset.validation


def subject_of(run: Run, split: Split) -> Subject:
    """A run's network and what it is measured on."""
    network = run.network()
    return Subject(
        title=run.path.resolve().name,
        step=run.step,
        recipe=network.config,
        model=cast(GPT, network.model),
        tokenizer=run.tokenizer,
        batches=partial(batches_of, split, network.config, run.tokenizer),
        left_out=("counts",) if network is not run else (),
    )


def batches_of(
    split: Split, recipe: Recipe, tokenizer: Tokenizer, tokens: int, rows: int
) -> Iterator[Batch[np.ndarray]]:
    """What is evaluated on, from about so many tokens of a split."""
    return evaluated_on(split, recipe, tokenizer, rows=rows, limit=min(tokens, len(split.tokens)))
