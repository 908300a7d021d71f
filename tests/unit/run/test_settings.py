"""Options without effect are named, and only those."""

from __future__ import annotations

import pytest

from octavo.config import load_recipe
from octavo.run.settings import idle_options


def numbers(kind: str, **options: object) -> dict:
    return {
        "corpus": {"kind": "dynamics"},
        "batches": "series",
        "objective": "forecast",
        "model": {"input": "linear", "output": {"kind": kind, **options}},
        "sampling": {"every": 0},
    }


def images(**options: object) -> dict:
    return {
        "corpus": {"kind": "images", "paths": ["a.png"], **options},
        "split": "documents",
        "tokenizer": {"kind": "symbols", "size": 4},
        "batches": {"kind": "documents", "alone": True},
    }


NUMBERS = numbers("gaussian")


@pytest.mark.parametrize(
    ("tree", "named"),
    [
        ({}, None),
        ({"evaluation": {"every": 90}}, None),
        ({"evaluation": {"every": 101}}, "evaluation.every=101"),
        ({"logging": {"every": 500}}, "logging.every=500"),
        ({"sampling": {"every": 200}}, "sampling.every=200"),
        ({"sampling": {"top_k": 5}}, None),
        ({"sampling": {"top_k": 5, "temperature": 0}}, "sampling.top_k=5"),
        ({"sampling": {"min_p": 0.1, "temperature": 0}}, "sampling.min_p=0.1"),
        ({"training": {"patience": 1}, "evaluation": {"every": 50}}, None),
        ({"training": {"patience": 2}, "evaluation": {"every": 50}}, "training.patience=2"),
        ({"training": {"patience": 10}}, "training.patience=10"),
        ({"training": {"patience": 9}}, None),
        ({"training": {"teachers": {"weight": 0.5}}}, "training.teachers.weight=0.5"),
        ({"training": {"teachers": {"weight": 0.5, "runs": "runs/one"}}}, None),
        ({"training": {"teachers": {"weight": 0.5, "trained": 1, "trained_steps": 9}}}, None),
        ({"training": {"teachers": {"trained_steps": 9}}}, "training.teachers.trained_steps=9"),
        ({"training": {"teachers": {"trained_dropout": 0.1}}}, "training.teachers.trained_dropout=0.1"),
        (NUMBERS, None),
        (NUMBERS | {"tokenizer": "bpe"}, "tokenizer"),
        (numbers("gaussian", hidden=99), "model.output.hidden=99"),
        (numbers("gaussian", hidden=99, channels="chained"), None),
        (numbers("gaussian", floor=0.5), None),
        (numbers("bins", floor=0.5), "model.output.floor=0.5"),
        (images(levels=2, threshold=90), None),
        (images(levels=4, threshold=90), "corpus.threshold"),
    ],
)
def test_idle_options(tree: dict, named: str | None) -> None:
    said = idle_options(load_recipe(tree), steps=100)
    assert len(said) == (named is not None)
    assert all(sentence.startswith(f"{named} has no effect") for sentence in said)


def test_a_grid_follows_the_raster() -> None:
    grid = {"model": {"context": 65, "positions": {"kind": "grid", "axes": [8]}}}
    (said,) = idle_options(load_recipe(images(order="hilbert", levels=4) | grid), steps=100)
    assert "positions=grid counts rows and columns in the raster's order" in said
    assert idle_options(load_recipe(images(levels=4) | grid), steps=100) == []
