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
from octavo.corpus.languages import CountedByFile, FileCounts
from octavo.dataset import Dataset, prepare
from octavo.dataset.batches import Batches
from octavo.errors import ConfigError, TokenizerError
from octavo.ground.console import Console
from octavo.tokenizers import Tokenizer, TokenizerConfig, UnknownTextError

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
    """The recipe's corpus, where its files are read."""
    places, corpus = _elsewhere.get(), recipe.corpus
    if not places or corpus.kind != "files":
        return corpus
    return corpus.model_copy(update={"paths": tuple(places.get(path, path) for path in corpus.paths)})


def absolute(text: Paths) -> list[str]:
    """Absolute paths, which mean the same from any folder; `-` and the names of texts (corpus:NAME, hf:NAME) stay."""
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


def build_dataset(recipe: Recipe, console: Console, tokenizer: Tokenizer | None = None) -> Dataset:
    """The recipe's text as token shards, from the cache where nothing changed.

    `tokenizer` is that of the run, if there is one already. It is needed where the recipe starts from another run,
    whose tokenizer it has; else it is made from the text, as it was the first time.
    """
    begun = recipe.training.start_from
    assert begun is None or tokenizer is not None, "the tokenizer is that of the run it starts from"
    counts = FileCounts(several=True)
    source = CountedByFile(build_source(recipe, console), counts)
    with console.working("reading the text", None):
        try:
            dataset = prepare(
                source,
                cast("TokenizerConfig", recipe.tokenizer)
                if begun is None or tokenizer is None
                else tokenizer,
                split=recipe.split,
                validation=recipe.validation,
                report=console.say,
                progress=console.read,
            )
        except UnknownTextError as error:
            remedy = f"take them out of the text, or start from a run that has them; this tokenizer is that of {begun}"
            raise (error if begun is None else TokenizerError(error.what, remedy=remedy)) from error
    if sentence := counts.sentence():
        console.say(sentence)
        if recipe.split == "contiguous":
            console.say(
                "  → split=files evaluates the model on a part of every file, not on the last ones only"
            )
    return dataset


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
    """The recipe's batches over a text: its ids, and where documents begin in them."""
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


def period(every: int | float | str, steps: int, epoch: int | None) -> int:
    """`every`, in steps: a number of them, a share of all, or an epoch of so many."""
    if isinstance(every, float):
        return max(1, round(every * steps))
    found = epoch if isinstance(every, str) else every
    assert found is not None, "the recipe's check lets no epoch through where batches have none"
    return found


def in_steps(recipe: Recipe, batches: Batches, steps: int) -> Recipe:
    """The recipe with each `every` as a number of steps, in a run of so many."""
    changed: dict[str, Any] = {}
    for name, key in (("evaluation", "every"), ("sampling", "every"), ("training", "checkpoint_every")):
        settings = getattr(recipe, name)
        found = period(getattr(settings, key), steps, batches.steps_per_epoch)
        changed[name] = settings.model_copy(update={key: found})
    return recipe.model_copy(update=changed)


def total_steps(recipe: Recipe, batches: Batches) -> int:
    """Steps of the whole run."""
    training = recipe.training
    steps = wanted_steps(recipe, batches)
    if training.passes is None:
        return steps
    of_text = training.accumulation * training.text_rows * recipe.batches.predictions(recipe.model.context)
    return min(steps, max(1, math.ceil(training.passes * batches.size / of_text)))


def wanted_steps(recipe: Recipe, batches: Batches) -> int:
    """Steps that the recipe asks for, however often they see the text."""
    training = recipe.training
    if training.epochs is None:
        return training.steps or 1000
    if batches.steps_per_epoch is None:
        raise ConfigError(
            f"training.epochs needs batches that have epochs; '{recipe.batches.kind}' draws at random.",
            remedy="batches=sliding, or training.steps instead",
        )
    return max(1, math.ceil(training.epochs * batches.steps_per_epoch))


def steps_said(recipe: Recipe, batches: Batches) -> str:
    """How many steps the run has, in words, and why it has fewer than the recipe asks for."""
    steps, wanted = total_steps(recipe, batches), wanted_steps(recipe, batches)
    if steps == wanted:
        return f"{steps:,} steps"
    return f"{steps:,} of {wanted:,} steps (a text so short is seen {recipe.training.passes:g} times)"
