"""What simple means make of a text, to stand beside a model: counted when they are asked for, or ahead of that."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from octavo.config import Recipe
from octavo.data import Dataset, Split
from octavo.errors import CheckpointError, StorageError
from octavo.evaluation.baselines import baselines
from octavo.evaluation.result import Baseline, Baselines
from octavo.evaluation.stored import Baselines as StoredBaselines
from octavo.task import own_baselines
from octavo.tokenizers import Tokenizer
from octavo.util.files import replace_text
from octavo.util.processes import Meanwhile
from octavo.util.records import json_text, read_record
from octavo.util.terminal import Console

_ahead: dict[tuple[str, ...], Meanwhile[Baselines]] = {}
"""Baselines that another thread counts until they are asked for, by the split and what they learn from."""


def count_ahead(dataset: Dataset, recipe: Recipe) -> None:
    """Let another thread count the baselines of a dataset's validation split, if they are not kept next to it, while
    there is work for one core only. Who asks for them next takes them."""
    if _kept(dataset).is_file() or not recipe.objective.unit.text:
        return
    train, split, tokenizer, quiet = dataset.train, dataset.validation, dataset.tokenizer, Console(quiet=True)
    key = _key(train, split, tokenizer)
    if key not in _ahead:
        _ahead[key] = Meanwhile(lambda: _counted(train, split, tokenizer, quiet))


def cached_baselines(dataset: Dataset, recipe: Recipe, console: Console) -> Baselines:
    """The baselines of a dataset; those of a loss in nats of text are computed once and kept next to it."""
    path, sides = _kept(dataset), (dataset.train, dataset.validation)
    if not recipe.objective.unit.text:
        return baselines_beside(*sides, dataset.tokenizer, recipe, console)
    try:
        return {name: Baseline.of(one) for name, one in read_record(path, StoredBaselines).items()}
    except CheckpointError:
        counted = baselines_beside(*sides, dataset.tokenizer, recipe, console)
    with suppress(StorageError):  # a cache is not worth failing for
        replace_text(path, json_text({name: one.as_dict() for name, one in counted.items()}))
    return counted


def baselines_beside(
    train: Split | None, split: Split, tokenizer: Tokenizer, recipe: Recipe, console: Console
) -> Baselines:
    """Baselines for one split; without a training split only those that need none. Where the loss is not one of text
    they are the objective's own.
    """
    if not recipe.objective.unit.text:
        return own_baselines(recipe, train, split, tokenizer)
    ahead = None if train is None else _ahead.pop(_key(train, split, tokenizer), None)
    counted = _counted(train or split, split, tokenizer, console) if ahead is None else ahead.result()
    untaught = ("uniform", "gzip", "xz")
    return {name: one for name, one in counted.items() if train is not None or name in untaught}


def _counted(train: Split, split: Split, tokenizer: Tokenizer, console: Console) -> Baselines:
    return baselines(
        train.tokens,
        split.tokens,
        vocab_size=tokenizer.vocab_size,
        validation_bytes=split.bytes,
        train_text=train.text_path,
        validation_text=split.text_path,
        report=console.say,
    )


def _kept(dataset: Dataset) -> Path:
    return dataset.folder / "baselines.json"


def _key(train: Split, split: Split, tokenizer: Tokenizer) -> tuple[str, ...]:
    return str(train.text_path), str(split.text_path), tokenizer.fingerprint()
