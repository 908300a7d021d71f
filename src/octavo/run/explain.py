"""From a run to the page that explains it."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np

import octavo.explain
from octavo.config import Recipe
from octavo.data import Dataset, Split
from octavo.data.batch import Batch
from octavo.errors import InputError
from octavo.explain.explainer import (
    EFFORT,
    Explanation,
    Subject,
    explained,
    policy,
)
from octavo.explain.page_model import MOST_COUNTED, beyond_page, refuse_beyond
from octavo.explain.page_weights import WeightType
from octavo.model.gpt import GPT
from octavo.ngram.mixture import CountedText, KneserNeyCounts, NoCountsConfig
from octavo.report.page import Explainer
from octavo.run.data import build_dataset, evaluated_on
from octavo.run.evaluate import refuse_other_text
from octavo.run.run import Run
from octavo.task import task_of
from octavo.tokenizers import Tokenizer
from octavo.training.checkpoint import chapters, read_chapter
from octavo.util.terminal import Console

LEAST, SHARE = 3e10, 0.005
"""Of a report: operations that measuring may always take, some 2 seconds; and the share of those of the training."""
SPEED, SLOWER = 1.5e10, 3
"""Operations that measuring does in a second, about; and how many times as fast a training does them."""
TEXTS = 3
"""Of a known source, whose tokens are looked at one by one."""


def explain_run(
    run: Run,
    console: Console,
    *,
    text: Any = None,
    weights: WeightType | Literal["auto"] = "auto",
    effort: float = EFFORT,
    counts: bool = False,
) -> Explanation:
    """A run's page, measured on its validation split, or on the files of `text`. With `counts`, those beside its
    network are in it, and with them the training text. Raises InputError for a model that a page cannot compute,
    CorpusError where there is no text."""
    refuse_beyond(run.config, run.tokenizer)
    split = run_split(run, console, text)
    if counts:
        refuse_counts(run)
    with console.working("measuring what each part is worth", None):
        return explained(subject_of(run, split, counts=counts), weights=weights, effort=effort)


def run_split(run: Run, console: Console, text: Any) -> Split:
    """What is measured on."""
    if text is not None:
        return task_of(run.config).new_split(run.config, run.tokenizer, text, console)
    dataset = build_dataset(run.config, console, run.tokenizer)
    refuse_other_text(run, dataset)
    return dataset.validation


def refuse_counts(run: Run) -> None:
    """Raise InputError for a run that counts nothing, or more than a page can count anew."""
    counted = getattr(run.model, "counts", None)
    if isinstance(counted, CountedText) and counted.mixer:
        raise InputError(
            "A page cannot compute model.counts=mixing.",
            remedy="leave --counts out: the page shows the network",
        )
    tokens = counted.tokens.numel() if isinstance(counted, KneserNeyCounts) else 0
    if not 0 < tokens <= MOST_COUNTED:
        what = f"The run counts {tokens:,} tokens" if tokens else "The run has no counts beside its network"
        raise InputError(
            f"{what}; a page counts 1 to {MOST_COUNTED:,} tokens.",
            remedy="leave --counts out: the page shows the network",
        )


def subject_of(run: Run, split: Split, *, counts: bool = False) -> Subject:
    """A run's network, or all of its model, and what it is measured on."""
    network = run if counts else run.network()
    return Subject(
        title=run.path.resolve().name,
        step=run.step,
        recipe=network.config,
        model=cast(GPT, network.model),
        tokenizer=run.tokenizer,
        batches=partial(batches_of, split, network.config, run.tokenizer),
        left_out=("counts",) if network is not run else (),
        chapters=[(step, partial(read_chapter, path)) for step, path in chapters(run.folder.story)]
        if run.folder
        else (),
        texts=some_texts(split.text_path),
    )


def some_texts(path: Path) -> list[str]:
    """The first documents of a split."""
    with path.open(encoding="utf-8") as file:
        return [line.rstrip("\n") for line in islice(file, TEXTS)]


def batches_of(
    split: Split, recipe: Recipe, tokenizer: Tokenizer, tokens: int, rows: int
) -> Iterator[Batch[np.ndarray]]:
    """What is evaluated on, from about so many tokens of a split."""
    return evaluated_on(split, recipe, tokenizer, rows=rows, limit=min(tokens, len(split.tokens)))


def holds_model(recipe: Recipe, tokenizer: Tokenizer) -> bool:
    """Whether a run's report is to hold its model."""
    if recipe.report.explainer != "auto" or beyond_page(recipe, tokenizer):
        return recipe.report.explainer is True
    network = recipe.model.model_copy(update={"counts": NoCountsConfig()})
    return network.parameters(vocab_size=tokenizer.vocab_size) <= octavo.explain.LARGEST_IN_REPORT


def explainer_of(run: Run, dataset: Dataset, console: Console) -> Explainer | None:
    """What a report holds of its model; None where `report.explainer` or the model says no."""
    if not holds_model(run.config, run.tokenizer):
        return None
    if beyond := beyond_page(run.config, run.tokenizer):
        console.say(f"the report holds no explainer: {' '.join(beyond)}")
        return None
    run.model.to("cpu")
    with console.working("measuring what each part is worth", None):
        found = explained(subject_of(run, dataset.validation), effort=affordable(run))
    for sentence in found.unread:
        console.say(f"the explainer leaves a step out: {sentence}")
    return Explainer(found.piece(), policy())


def affordable(run: Run) -> float:
    """Operations that measuring for a report may take: a small share of what the training took."""
    seen = run.step * run.config.training.batch * run.config.model.context
    training = run.config.model.training_flops(vocab_size=run.tokenizer.vocab_size) * seen
    return min(EFFORT, max(LEAST, SHARE * training))


def seconds_to_explain(recipe: Recipe) -> float:
    """What `explainer_of` takes of a run that goes by the clock, about."""
    assert recipe.training.minutes is not None
    return min(EFFORT / SPEED, max(LEAST / SPEED, SLOWER * SHARE * 60 * recipe.training.minutes))
