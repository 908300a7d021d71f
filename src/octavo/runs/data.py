"""From a recipe to its dataset and batches."""

from __future__ import annotations

import math
from collections.abc import Iterable
from pathlib import Path
from typing import cast

from octavo.config import Recipe
from octavo.dataset import Dataset, prepare
from octavo.dataset.batches import Batches
from octavo.errors import ConfigError
from octavo.runs.console import Console
from octavo.tokenizers import TokenizerConfig

Paths = str | Path | Iterable[str | Path]


def absolute(text: Paths) -> list[str]:
    """Paths that mean the same from any folder; `-` stays."""
    listed = [text] if isinstance(text, str | Path) else list(text)
    return [str(path) if str(path) == "-" else str(Path(path).expanduser().absolute()) for path in listed]


def build_dataset(recipe: Recipe, console: Console) -> Dataset:
    """The recipe's text as token shards, from the cache where nothing changed."""
    source = recipe.corpus.build(report=console.say)
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
    batches = recipe.batches.build(
        dataset.train.tokens,
        dataset.train.starts,
        context=recipe.model.context,
        batch=recipe.training.batch,
        seed=recipe.seed,
        start_id=dataset.tokenizer.start,
        end_id=dataset.tokenizer.end,
        accumulation=recipe.training.accumulation,
    )
    for note in batches.notes:
        console.say(note)
    return batches


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
