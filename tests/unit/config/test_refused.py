"""Recipes that could be built and would not learn what they say are refused."""

from __future__ import annotations

from typing import Any

import pytest

from octavo.config import check, load_recipe
from octavo.errors import ConfigError


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"model": {"counts": "kneser-ney"}, "training": {"batch": 1}}, "a row of text for the network"),
        (
            {
                "model": {"counts": "kneser-ney"},
                "training": {"batch": 2, "teachers": {"runs": ["x"], "written": 5000}},
            },
            "a row of text for the network",
        ),
        ({"evaluation": {"every": "often"}}, "not 'often'"),
        ({"evaluation": {"every": "nan"}}, "a number of steps"),
    ],
)
def test_what_cannot_learn_is_refused(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        check(settings)


def test_teachers_of_numbers_are_refused() -> None:
    with pytest.raises(ConfigError, match="the corpus is one of numbers"):
        load_recipe("forecast-demo", ["training.teachers.runs=[x]"])


def test_the_horizon_that_counts_is_one_that_is_judged() -> None:
    with pytest.raises(ConfigError, match=r"main_horizon=4 is not in horizons=\[1, 16\]"):
        load_recipe("forecast-demo", ["objective.horizons=[1,16]", "objective.main_horizon=4"])
    assert load_recipe("forecast-demo", ["objective.main_horizon=4"]).objective.main_horizon == 4
    assert load_recipe("forces-cpu", []).objective.main_horizon == 60, "200 milliseconds, as it says"


def test_a_share_may_be_written_with_an_exponent() -> None:
    assert load_recipe("quick", ["evaluation.every=1e-1"]).evaluation.every == 0.1


SERIES = {
    "corpus": {"kind": "series", "paths": ["a.csv"]},
    "batches": "series",
    "objective": "forecast",
    "model": {"input": "linear", "output": "gaussian"},
}


def test_a_recipe_knows_whether_its_model_reads_tokens_alone() -> None:
    assert check({"model": {"width": 8, "heads": 2}}).unread(()) is None
    assert "reads rows of numbers" in (check(SERIES).unread(()) or "")


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"output": "tokens"}, "input=linear and output=tokens: one is for tokens, the other for rows"),
        ({"tied": True}, "tied is for a model of tokens, and input=linear reads numbers"),
        ({"ngrams": "hashed"}, "ngrams are of tokens, and input=linear reads numbers"),
        (
            {"counts": "mixing"},
            "counts are of tokens, and model.input reads rows of numbers; set counts=none",
        ),
    ],
)
def test_what_does_not_go_with_rows_of_numbers_is_named(changed: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        check({**SERIES, "model": {**SERIES["model"], **changed}})
    assert said in str(caught.value)
