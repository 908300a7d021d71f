"""Options without effect are named, and only those."""

from __future__ import annotations

import pytest

from octavo.config import load_recipe
from octavo.runs.advice import idle_options


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
    ],
)
def test_idle_options(tree: dict, named: str | None) -> None:
    said = idle_options(load_recipe(tree), steps=100)
    assert len(said) == (named is not None)
    assert all(sentence.startswith(f"{named} has no effect") for sentence in said)
