"""Baselines of a split: the same figures, whether they are counted ahead or when they are asked for."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import octavo
from octavo.config import check
from octavo.data import Dataset
from octavo.errors import CorpusError
from octavo.ngram.mixing import compiled
from octavo.run.data import build_dataset
from octavo.run.evaluate import heard_of
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


@pytest.mark.skipif(compiled() is None, reason="there is no C compiler")
def test_a_models_own_mixer_is_the_baseline_and_another_model_has_it_counted(
    text: Path, counted: list[str], tmp_path: Path
) -> None:
    text.write_text("".join(np.random.default_rng(0).choice([*"aab c."], 3000)))
    settings = {"model": RECIPE["model"] | {"counts": {"kind": "mixing", "share": 0.2}}}
    dataset, mixing = dataset_of(text, **settings)
    plain = dataset_of(text)[1]
    count_ahead(dataset, mixing)
    assert "mixing" not in cached_baselines(dataset, mixing, QUIET)
    run = octavo.train(mixing, out=tmp_path / "run", quiet=True)
    evaluation = json.loads((run.path / "evaluation.json").read_text())
    own, read_on = evaluation["baselines"]["mixing"], evaluation["reading_on"]
    assert own["bits_per_byte"] == read_on["alone_bits_per_byte"] != read_on["bits_per_byte"]
    assert counted == ["validation.txt"]
    again = heard_of(run.model, dataset.validation)
    assert again is not None and again.known() is not None, "whoever audits the run need not score it anew"
    beside = cached_baselines(dataset, plain, QUIET)
    # It reads bytes, and has to learn that most of them never come.
    assert 0 < beside["mixing"].bits_per_byte - own["bits_per_byte"] < 0.02
    assert len(counted) == 2
    assert cached_baselines(dataset, plain, QUIET) == beside and len(counted) == 2
    assert cached_baselines(dataset, mixing, QUIET) == beside and len(counted) == 2


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
