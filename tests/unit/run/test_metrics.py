"""The model's place on a split or on a part of it, recomputed here from the model's own predictions."""

from __future__ import annotations

import math
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
import torch

from octavo.config import Recipe, check
from octavo.data import Dataset
from octavo.evaluation.result import Metrics
from octavo.model.base import build_model
from octavo.model.gpt import GPT
from octavo.run import compare
from octavo.run.data import build_dataset
from octavo.run.evaluate import evaluate_split
from octavo.training.device import Runtime
from octavo.util.terminal import Console

CONTEXT = 16


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Recipe, Dataset, GPT]:
    folder = tmp_path_factory.mktemp("metrics")
    (folder / "text.txt").write_text("where the brown fox lay, the old dog saw it. " * 60, encoding="utf-8")
    recipe = check(
        {
            "corpus": {"kind": "files", "paths": [str(folder / "text.txt")]},
            "tokenizer": "byte",
            "validation": 0.3,
            "model": {"layers": 1, "width": 16, "heads": 2, "context": CONTEXT},
        }
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OCTAVO_CACHE", str(folder / "cache"))
        dataset = build_dataset(recipe, Console(quiet=True))
    return recipe, dataset, build_model(recipe.model, vocab_size=dataset.tokenizer.vocab_size, seed=1)


def measured(made: tuple[Recipe, Dataset, GPT], tokens: int | None) -> Metrics:
    recipe, dataset, model = made
    some = recipe.model_copy(update={"evaluation": recipe.evaluation.model_copy(update={"tokens": tokens})})
    runtime = Runtime(torch.device("cpu"), "float32", 1)
    return evaluate_split(model, dataset.validation, some, dataset.tokenizer, runtime)


def nats_of(made: tuple[Recipe, Dataset, GPT], count: int) -> float:
    """Of the first so many predictions, block by block: a sum over the model's own probabilities."""
    _, dataset, model = made
    ids = torch.from_numpy(np.asarray(dataset.validation.tokens).astype(np.int64))
    total = 0.0
    for begin in range(0, count, CONTEXT):
        block = ids[begin : min(begin + CONTEXT, count) + 1]
        with torch.no_grad():
            known = model.eval()(block[None, :-1]).double().log_softmax(dim=-1)[0]
        total -= known.gather(1, block[1:, None]).sum().item()
    return total


@pytest.mark.parametrize("tokens", [1, CONTEXT, 5 * CONTEXT, 10 * CONTEXT + 3])
def test_bits_per_byte_of_a_part_are_of_its_own_bytes(made: tuple[Recipe, Dataset, GPT], tokens: int) -> None:
    """A part's loss was once divided by the whole text's bytes. Here each token is one byte."""
    found = measured(made, tokens)
    assert found.tokens == -(-tokens // CONTEXT) * CONTEXT
    assert found.loss == pytest.approx(nats_of(made, found.tokens) / found.tokens, rel=1e-5)
    assert found.bits_per_byte == pytest.approx(found.loss / math.log(2), rel=1e-9)
    assert found.perplexity == pytest.approx(math.exp(found.loss), rel=1e-9)


@pytest.mark.parametrize("tokens", [None, 10**6])
def test_the_whole_split(made: tuple[Recipe, Dataset, GPT], tokens: int | None) -> None:
    found, split = measured(made, tokens), made[1].validation
    assert found.tokens == len(split.tokens) - 1 == split.bytes - 1
    assert found.loss == pytest.approx(nats_of(made, found.tokens) / found.tokens, rel=1e-5)
    assert found.bits_per_byte == pytest.approx(
        found.loss * found.tokens / math.log(2) / split.bytes, rel=1e-9
    )


def test_a_part_says_about_what_the_whole_says(made: tuple[Recipe, Dataset, GPT]) -> None:
    whole, half = measured(made, None), measured(made, made[1].validation.bytes // 2)
    assert half.bits_per_byte == pytest.approx(whole.bits_per_byte, rel=0.02)


def test_token_by_token_the_beginning_is_compared_and_of_several_documents_too(
    made: tuple[Recipe, Dataset, GPT], monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe, dataset, model = made
    several = replace(dataset.validation, starts=np.arange(0, 400, 100, dtype=np.uint64))
    monkeypatch.setattr(compare, "MOST", 50)
    run = SimpleNamespace(config=recipe, tokenizer=dataset.tokenizer, model=model)
    nats = compare._losses(cast(Any, run), several).nats
    assert np.isnan(nats[0]) and np.isfinite(nats[1:]).all() and len(nats) == 50
