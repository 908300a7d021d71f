"""Options of a recipe that change nothing. They are named at the start, because a silent one misleads."""

from __future__ import annotations

import math

from octavo.config import Recipe
from octavo.runs.data import period


def idle_options(recipe: Recipe, steps: int) -> list[str]:
    """A sentence for each option that differs from its default but has no effect on a run of `steps`."""
    said = []
    for part in ("evaluation", "sampling", "logging"):
        settings = getattr(recipe, part)
        if settings.every > steps and settings.every != type(settings).model_fields["every"].default:
            said.append(f"{part}.every={settings.every} has no effect: the run has {steps} steps")
    if recipe.sampling.temperature == 0:
        for name in ("top_k", "top_p", "min_p"):
            value = getattr(recipe.sampling, name)
            if value is not None:
                said.append(f"sampling.{name}={value} has no effect: sampling.temperature=0 is greedy")
    if recipe.model.takes_vectors and recipe.sampling.every:
        said.append("sampling has no effect: the model predicts numbers, and writes no text")
    teachers = recipe.training.teachers
    if not teachers.runs and teachers.weight != type(teachers).model_fields["weight"].default:
        said.append(f"training.teachers.weight={teachers.weight} has no effect: no run is named that teaches")
    patience = recipe.training.patience
    evaluations = math.ceil(steps / period(recipe.evaluation.every, steps=steps, epoch=None))
    if patience is not None and evaluations <= patience:
        said.append(f"training.patience={patience} has no effect: the run has {evaluations} evaluations")
    return said
