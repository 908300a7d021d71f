"""What every shipped recipe keeps, and a recipe that says nothing."""

from __future__ import annotations

import math

import pytest

from octavo.config import Recipe, load_recipe, recipe_names
from octavo.run.data import period

JUDGED = 8
"""Times; fewer tell little about whether a loss still falls."""


@pytest.mark.parametrize("steps", [8, 20, 100, 333, None])
@pytest.mark.parametrize(
    "recipe", [load_recipe({}), *map(load_recipe, recipe_names())], ids=["", *recipe_names()]
)
def test_a_run_is_judged_often_enough_to_read_its_curve_however_short_it_is(
    recipe: Recipe, steps: int | None
) -> None:
    steps = steps or recipe.training.steps or 5000
    every = period(recipe.evaluation.every, steps=steps, epoch=steps // 2)
    assert math.ceil(steps / every) >= JUDGED  # the last step is always judged


@pytest.mark.parametrize(
    ("every", "steps", "expected"),
    [(0.1, 2000, 200), (0.1, 25, 2), (0.1, 3, 1), (250, 100, 250), ("epoch", 100, 7), (1, 100, 1)],
)
def test_a_period_in_steps(every: float | str, steps: int, expected: int) -> None:
    assert period(every, steps=steps, epoch=7) == expected
