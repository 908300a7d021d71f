"""Baselines of a split: the same figures, whether they are counted ahead or when they are asked for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from octavo.config import check
from octavo.data import Dataset
from octavo.errors import CorpusError
from octavo.run.data import build_dataset
from octavo.tasks.text import task as counting
from octavo.tasks.text.task import baselines_beside, cached_baselines, count_ahead
from octavo.util.terminal import Console
from unit.run.small import RECIPE

QUIET = Console(quiet=True)


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The splits whose baselines were counted, in order; nothing is left from other tests."""
    found: list[Any] = []
    count = counting.baselines

    def counts(train: Any, validation: Any, **options: Any) -> Any:
        found.append(options["validation_text"].name)
        return count(train, validation, **options)

    monkeypatch.setattr(counting, "baselines", counts)
    monkeypatch.setattr(counting, "_ahead", {})
    return found


def dataset_of(text: Path, **settings: Any) -> tuple[Dataset, Any]:
    """A small text's, and the recipe."""
    recipe = check(RECIPE | {"corpus": {"kind": "files", "paths": [str(text)]}} | settings)
    return build_dataset(recipe, QUIET), recipe


def test_those_counted_ahead_are_the_same_and_are_counted_once(text: Path, counted: list[str]) -> None:
    dataset, recipe = dataset_of(text)
    asked_for = baselines_beside(dataset.train, dataset.validation, dataset.tokenizer, recipe, QUIET)
    counted.clear()
    count_ahead(dataset, recipe)
    count_ahead(dataset, recipe)
    assert cached_baselines(dataset, recipe, QUIET) == asked_for
    assert counted == ["validation.txt"] and not counting._ahead
    count_ahead(dataset, recipe)  # they are kept now
    assert cached_baselines(dataset, recipe, QUIET) == asked_for
    assert len(counted) == 1


def test_another_split_or_tokenizer_does_not_take_them(text: Path, counted: list[str]) -> None:
    dataset, recipe = dataset_of(text, test=0.2, validation=0.2, split="contiguous")
    other, other_recipe = dataset_of(
        text, test=0.2, validation=0.2, split="contiguous", tokenizer={"kind": "byte"}
    )
    count_ahead(dataset, recipe)
    assert dataset.test is not None
    baselines_beside(dataset.train, dataset.test, dataset.tokenizer, recipe, QUIET)
    cached_baselines(other, other_recipe, QUIET)
    assert len(counting._ahead) == 1
    cached_baselines(dataset, recipe, QUIET)
    assert sorted(counted) == ["test.txt", "validation.txt", "validation.txt"]


def test_an_error_in_the_thread_is_raised_where_they_are_asked_for(
    text: Path, counted: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    dataset, recipe = dataset_of(text)

    def broken(*arguments: Any, **options: Any) -> None:
        raise CorpusError("The disk went away.")

    with monkeypatch.context() as patch:
        patch.setattr(counting, "baselines", broken)
        count_ahead(dataset, recipe)
        with pytest.raises(CorpusError, match="went away"):
            cached_baselines(dataset, recipe, QUIET)
    assert cached_baselines(dataset, recipe, QUIET)["ngram"].loss > 0, "the next one counts anew"
    assert counted == ["validation.txt"]
