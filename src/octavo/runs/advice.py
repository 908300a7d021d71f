"""Options of a recipe that change nothing. They are named at the start, because a silent one misleads."""

from __future__ import annotations

import math

from octavo.config import Recipe
from octavo.config.parts import PartConfig
from octavo.config.teachers import TeachersConfig
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
    said += idle_numbers(recipe)
    if recipe.corpus.kind == "images" and recipe.corpus.levels > 2 and _changed(recipe.corpus, "threshold"):
        said.append(f"corpus.threshold has no effect: there are {recipe.corpus.levels} levels of equal width")
    if getattr(recipe.corpus, "order", "raster") != "raster" and recipe.model.positions.kind.startswith(
        "grid"
    ):
        kind, order = recipe.model.positions.kind, recipe.corpus.order
        said.append(
            f"model.positions={kind} counts rows and columns in the raster's order, and corpus.order={order} has "
            "another: positions=learned or rotary fit it"
        )
    said += idle_teachers(recipe)
    patience = recipe.training.patience
    evaluations = math.ceil(steps / period(recipe.evaluation.every, steps=steps, epoch=None))
    if patience is not None and evaluations <= patience:
        said.append(f"training.patience={patience} has no effect: the run has {evaluations} evaluations")
    return said


def idle_teachers(recipe: Recipe) -> list[str]:
    """The same of settings for teachers where nobody teaches."""
    teachers = recipe.training.teachers
    said = []
    if not teachers.somebody and teachers.weight != TeachersConfig().weight:
        said.append(f"training.teachers.weight={teachers.weight} has no effect: no run is named that teaches")
    for name in ("trained_steps", "trained_dropout"):
        value = getattr(teachers, name)
        if value is not None and not teachers.trained:
            said.append(f"training.teachers.{name}={value} has no effect: no teacher is trained first")
    return said


def idle_numbers(recipe: Recipe) -> list[str]:
    """The same of a recipe whose model predicts numbers."""
    if not recipe.model.takes_vectors:
        return []
    said, head = [], recipe.model.output
    if head.channels == "independent" and _changed(head, "hidden"):
        said.append(f"model.output.hidden={head.hidden} has no effect: channels are independent")
    if head.kind == "bins" and _changed(head, "floor"):
        said.append(f"model.output.floor={head.floor:g} has no effect: bins have their widths")
    if recipe.tokenizer.kind != Recipe().tokenizer.kind:
        said.append("tokenizer has no effect: numbers are not cut into tokens")
    return said


def _changed(part: PartConfig, name: str) -> bool:
    """Whether an option has another value than where none is given."""
    return getattr(part, name) != type(part).model_fields[name].default
