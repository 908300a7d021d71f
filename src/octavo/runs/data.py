"""From a recipe to its dataset and batches."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any, cast

import numpy as np

from octavo.config import PartConfig, Recipe
from octavo.corpus import Source
from octavo.corpus.catalogue import NAMED
from octavo.corpus.cleaning import Cleaned, StepConfig
from octavo.corpus.hub import is_hub_name
from octavo.dataset import Dataset, prepare
from octavo.dataset.batches import Batches
from octavo.errors import ConfigError
from octavo.runs.console import Console
from octavo.tokenizers import Tokenizer, TokenizerConfig

Paths = str | Path | Iterable[str | Path]

_elsewhere: ContextVar[Mapping[str, str] | None] = ContextVar("elsewhere", default=None)


@contextmanager
def text_elsewhere(places: Mapping[str, str]) -> Iterator[None]:
    """Within the context, texts are read from copies: each path that a recipe names, from the place given for it."""
    token = _elsewhere.set(places)
    try:
        yield
    finally:
        _elsewhere.reset(token)


def found_corpus(recipe: Recipe) -> PartConfig:
    """The recipe's corpus, where its files are to be read."""
    places, corpus = _elsewhere.get(), recipe.corpus
    if not places or corpus.kind != "files":
        return corpus
    return corpus.model_copy(update={"paths": tuple(places.get(path, path) for path in corpus.paths)})


def absolute(text: Paths) -> list[str]:
    """Paths that mean the same from any folder; `-` and the names of texts (corpus:NAME, hf:NAME) stay."""
    listed = [text] if isinstance(text, str | Path) else list(text)
    return [
        str(path)
        if str(path) == "-" or str(path).startswith(NAMED) or is_hub_name(str(path))
        else str(Path(path).expanduser().absolute())
        for path in listed
    ]


def build_source(recipe: Recipe, console: Console) -> Source:
    """The recipe's documents, cleaned as it says."""
    return cleaned(found_corpus(recipe).build(report=console.say), recipe, console)


def cleaned(source: Source, recipe: Recipe, console: Console) -> Source:
    """A source's documents, cleaned as the recipe says."""
    return (
        Cleaned(source, cast("tuple[StepConfig, ...]", recipe.cleaning), report=console.say)
        if recipe.cleaning
        else source
    )


def build_dataset(recipe: Recipe, console: Console) -> Dataset:
    """The recipe's text as token shards, from the cache where nothing changed."""
    source = build_source(recipe, console)
    with console.working("reading the text", None):
        return prepare(
            source,
            cast("TokenizerConfig", recipe.tokenizer),
            split=recipe.split,
            validation=recipe.validation,
            report=console.say,
            progress=console.read,
        )


def build_batches(recipe: Recipe, dataset: Dataset, console: Console) -> Batches:
    """The recipe's batches over the training split; CorpusError where the text is too short for the context."""
    train, rows = dataset.train, recipe.training.text_rows
    batches = batches_over(train.tokens, train.starts, recipe, dataset.tokenizer, rows=rows)
    for note in batches.notes:
        console.say(note)
    return batches


def batches_over(
    tokens: np.ndarray, starts: np.ndarray, recipe: Recipe, tokenizer: Tokenizer, *, rows: int
) -> Batches:
    """Batches of so many sequences over a text (ids, and where documents begin in them), made as the recipe says."""
    return recipe.batches.build(
        tokens,
        starts,
        context=recipe.model.context,
        batch=rows,
        seed=recipe.seed,
        start_id=tokenizer.start,
        end_id=tokenizer.end,
        accumulation=recipe.training.accumulation,
    )


def in_steps(recipe: Recipe, batches: Batches) -> Recipe:
    """The recipe with each `every: epoch` as the number of steps that an epoch has."""
    epoch = {"every": batches.steps_per_epoch}
    changed: dict[str, Any] = {}
    for name in ("evaluation", "sampling"):
        settings = getattr(recipe, name)
        changed[name] = settings.model_copy(update=epoch) if settings.every == "epoch" else settings
    if recipe.training.checkpoint_every == "epoch":
        changed["training"] = recipe.training.model_copy(update={"checkpoint_every": batches.steps_per_epoch})
    return recipe.model_copy(update=changed)


def total_steps(recipe: Recipe, batches: Batches) -> int:
    """Steps of the whole run."""
    training = recipe.training
    if training.epochs is None:
        return training.steps or 1000
    if batches.steps_per_epoch is None:
        raise ConfigError(
            f"training.epochs needs batches that have epochs; '{recipe.batches.kind}' draws at random.",
            remedy="batches=sliding, or training.steps instead",
        )
    return max(1, math.ceil(training.epochs * batches.steps_per_epoch))
