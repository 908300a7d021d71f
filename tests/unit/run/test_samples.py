"""The text that a run is judged on: how much is written, and what it is held against."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from octavo.config import check
from octavo.data import Dataset, prepare
from octavo.evaluation import samples as module
from octavo.evaluation.by_position import DocumentEnds
from octavo.evaluation.result import merged
from octavo.evaluation.samples import GeneratedTexts, held_out_like, text_metrics, with_samples
from octavo.generation import Sample
from octavo.model.base import build_model
from octavo.task import task_of

SMALL = {"layers": 1, "width": 16, "heads": 2, "context": 16}


@pytest.fixture
def stories(tmp_path: Path) -> Dataset:
    path = tmp_path / "stories.jsonl"
    lines = [
        json.dumps({"text": f"Story {number}. " + "The fox ran on. " * (number % 5 + 1)})
        for number in range(90)
    ]
    path.write_text("\n".join(lines), encoding="utf-8")
    return dataset_of(path, tmp_path)


@pytest.fixture
def novel(tmp_path: Path) -> Dataset:
    path = tmp_path / "novel.txt"
    path.write_text(" ".join(f"word{number}" for number in range(3000)), encoding="utf-8")
    return dataset_of(path, tmp_path)


def dataset_of(path: Path, tmp_path: Path) -> Dataset:
    recipe = check({"corpus": {"kind": "files", "paths": [str(path)]}})
    return prepare(recipe.corpus.build(report=lambda text: None), recipe.tokenizer, cache=tmp_path / "cache")


def samples(lengths: list[int]) -> list[Sample]:
    return [Sample(index, ids=[0] * length) for index, length in enumerate(lengths)]


def test_control_of_documents_is_their_beginnings(stories: Dataset) -> None:
    texts = held_out_like(samples([20] * 5), stories)
    assert len(texts) == 5
    assert all(text.startswith("Story") and len(text) == 20 for text in texts)
    assert len(held_out_like(samples([20] * 500), stories)) == stories.validation.documents


def test_control_of_one_text_does_not_overlap(novel: Dataset) -> None:
    whole = novel.validation.text_path.read_text("utf-8")
    texts = held_out_like(samples([len(whole) // 3] * 16), novel)
    assert len(texts) == 3
    assert all(text in whole for text in texts)
    places = [whole.index(text) for text in texts]
    assert (np.diff(places) >= len(whole) // 3).all()
    assert len(held_out_like(samples([50]), novel)) == module.FEWEST  # a greedy sample alone


def settings(**more: Any) -> Any:
    return check({"model": SMALL, **more})


def written(model: Any, dataset: Dataset, recipe: Any) -> Any:
    return task_of(recipe).write(model, dataset, recipe)


def test_the_same_is_written_each_time_and_greedy_once(
    novel: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LENGTH", 24)
    recipe = settings()
    model = build_model(recipe.model, vocab_size=novel.tokenizer.vocab_size, seed=1)
    first, again = written(model, novel, recipe), written(model, novel, recipe)
    assert first.texts == again.texts
    assert len(first.samples) == module.MOST
    assert {len(sample.ids) for sample in first.samples} == {24}
    assert len(written(model, novel, settings(sampling={"temperature": 0.0})).samples) == 1


def test_a_large_model_writes_less(novel: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LENGTH", 8)
    monkeypatch.setattr(module, "BUDGET", 1.0)
    recipe = settings()
    model = build_model(recipe.model, vocab_size=novel.tokenizer.vocab_size, seed=1)
    assert len(written(model, novel, recipe).samples) == module.FEWEST


def test_training_text_that_is_recited_is_seen(novel: Dataset) -> None:
    train = novel.train.text_path.read_text("utf-8")
    passages = [train[at : at + 300] for at in (0, 900, 5000, 7000)]
    recited = [Sample(number, ids=[0] * 300, text=passage) for number, passage in enumerate(passages)]
    text = GeneratedTexts(
        recited, module.sampling_of(settings().sampling), 300, held_out_like(recited, novel)
    )
    found = merged(text_metrics(text, novel))
    assert found["memorization"]["generated"]["shares"]["200"] == 1.0
    assert found["memorization"]["held_out"]["shares"]["200"] == 0.0
    assert found["memorization"]["generated"]["longest"]["length"] == 300
    assert found["known_words"]["generated"] > 0.95 and 0 < found["known_words"]["held_out"] <= 1
    assert json.loads(json.dumps(found)) == found


def test_all_samples_are_looked_up_however_short_the_held_out_text(novel: Dataset) -> None:
    passage = novel.train.text_path.read_text("utf-8")[:300]
    recited = [Sample(number, ids=[0] * 300, text=passage) for number in range(4)]
    text = GeneratedTexts(recited, module.sampling_of(settings().sampling), 300, ["Nothing of it is known."])
    found = merged(text_metrics(text, novel))
    assert found["memorization"]["generated"]["characters"] == 1200
    assert found["memorization"]["difference_error"] == 0.0  # of the samples; one held-out text has none


def test_ends_are_counted_beside_those_of_documents(stories: Dataset) -> None:
    drawn = [Sample(0, finish="end"), Sample(1, finish="length")]
    written = GeneratedTexts(drawn, module.sampling_of(settings().sampling), 40, [])
    found = with_samples(DocumentEnds(1, 0.5, None, 0.1), written, stories)
    assert (found.documents, found.samples, found.samples_ended) == (1, 2, 0.5)
    assert found.held_out_ended is not None and 0 < found.held_out_ended < 1


def test_samples_are_kept_for_everyone_to_check(novel: Dataset, tmp_path: Path) -> None:
    drawn = [Sample(0, text="ünd\nso", finish="length")]
    GeneratedTexts(drawn, module.sampling_of(settings().sampling), 40, []).save(tmp_path / "judged.jsonl")
    kept = [json.loads(line) for line in (tmp_path / "judged.jsonl").read_text("utf-8").splitlines()]
    assert kept == [{"text": "ünd\nso", "finish": "length"}]
