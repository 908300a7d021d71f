"""The settings of a run: composed for a new one, compared with its own for one that goes on."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from octavo.config import (
    DEFAULT_RECIPE,
    Recipe,
    check,
    default_said,
    flatten,
    override_words,
    recipe_tree,
    stored_recipe,
)
from octavo.config.load import named_by, named_start
from octavo.config.parts import command
from octavo.config.schema import TeachersConfig
from octavo.errors import ConfigError, InputError, OctavoError, RunFolderError
from octavo.run.data import Paths, fill, period
from octavo.run.finetune import default_tree, with_start
from octavo.run.folder import RunFolder, seconds_of
from octavo.task import task_of
from octavo.util.files import file_hash
from octavo.util.terminal import Console, in_minutes

# Options of a recipe that change nothing. They are named at the start, because a silent one misleads.


def idle_options(recipe: Recipe, steps: int) -> list[str]:
    """A sentence for each option that differs from its default but has no effect on a run of `steps`."""
    sentences = []
    for part in ("evaluation", "sampling", "logging"):
        settings = getattr(recipe, part)
        if settings.every > steps and settings.every != type(settings).model_fields["every"].default:
            sentences.append(f"{part}.every={settings.every} has no effect: the run has {steps} steps")
    if recipe.sampling.temperature == 0:
        for name in ("top_k", "top_p", "min_p"):
            value = getattr(recipe.sampling, name)
            if value is not None:
                sentences.append(f"sampling.{name}={value} has no effect: sampling.temperature=0 is greedy")
    sentences += task_of(recipe).idle_options(recipe)
    sentences += idle_teachers(recipe)
    patience = recipe.training.patience
    evaluations = math.ceil(steps / period(recipe.evaluation.every, steps=steps, epoch=None))
    if patience is not None and evaluations <= patience:
        sentences.append(f"training.patience={patience} has no effect: the run has {evaluations} evaluations")
    return sentences


def idle_teachers(recipe: Recipe) -> list[str]:
    """Name the settings for teachers that have no effect because nobody teaches."""
    teachers = recipe.training.teachers
    sentences = []
    if not teachers.somebody and teachers.weight != TeachersConfig().weight:
        sentences.append(
            f"training.teachers.weight={teachers.weight} has no effect: no run is named that teaches"
        )
    for name in ("trained_steps", "trained_dropout"):
        value = getattr(teachers, name)
        if value is not None and not teachers.trained:
            sentences.append(f"training.teachers.{name}={value} has no effect: no teacher is trained first")
    return sentences


# What a run may change when it resumes; anything else would make it another run.
RESUMABLE = (
    "training.steps",
    "training.passes",
    "training.minutes",
    "training.checkpoint_every",
    "training.checkpoint_minutes",
    "training.keep",
    "training.keep_for_story",
    "training.patience",
    "training.device",
    "training.micro_batch",
    "training.recompute",
)
RESUMABLE_TREES = ("evaluation.", "sampling.", "logging.", "report.", "parallel.")


def default_recipe(overrides: Iterable[str] | Mapping[str, Any] = ()) -> tuple[str | dict[str, Any], str]:
    """The recipe where none is named, and a sentence that says which: that of the run which the overrides start from,
    else the usual one."""
    base = named_by(overrides)
    if base is None:
        return DEFAULT_RECIPE, default_said()
    return default_tree(base), f"recipe: that of {base}, with its model, tokenizer and training"


def resolve(
    recipe: str | Path | Mapping[str, Any] | Recipe,
    text: Paths | None = None,
    overrides: Iterable[str] | Mapping[str, Any] = (),
    *,
    needs_text: bool = True,
    earlier: Recipe | None = None,
) -> Recipe:
    """The checked recipe, with the text put in and overrides on top; `earlier` is that of the run, where it goes on.
    A `Recipe` to which nothing is added stays what it is.

    Of a run that starts from another, model and tokenizer are that one's (see `run.finetune`). Raises ConfigError or
    InputError for settings that are wrong, among them a validator that cannot read what the recipe makes.
    """
    changes = override_words(overrides)
    if isinstance(recipe, Recipe) and text is None and not changes and earlier is None:
        resolved = recipe
    else:
        tree = recipe.model_dump(mode="json") if isinstance(recipe, Recipe) else recipe_tree(recipe)
        fill(tree, text, changes)
        if earlier is not None:  # what a recipe leaves open is as the run has it, whatever is usual now
            tree.setdefault("split", earlier.split)
        if named_start(tree) is not None:
            tree = with_start(tree, earlier)
        resolved = check(tree)
    if resolved.validator.kind != "none" and resolved.validator.build(resolved.corpus) is not None:
        from octavo.generation.constrain import refuse_no_symbols

        refuse_no_symbols(resolved.tokenizer.kind)
    if needs_text and resolved.lacks_text:
        raise InputError(
            "This recipe needs a text.", remedy="give files or folders: --text PATH (or - for standard input)"
        )
    return resolved


def continued(folder: RunFolder, wanted: Recipe, console: Console) -> Recipe:
    """The recipe to resume with: the stored one, with the changes that a run may make on its way.

    Raises RunFolderError for a model that was imported or saved, whose optimizer has no state to go on with, and
    ConfigError for settings of another run.
    """
    made = folder.made_by() or {}
    if made.get("saved_from") or made.get("imported"):
        raise RunFolderError(
            f"{folder.path} holds weights alone, without the state of a training, so it cannot be resumed.",
            remedy=f"{command('octavo', 'train', '--text', 'PATH', f'training.start_from={folder.path}')}"
            "    trains from its weights",
        )
    stored = stored_recipe(folder.config)
    before, after = flatten(stored), flatten(wanted)
    differing = sorted(key for key in before.keys() | after.keys() if before.get(key) != after.get(key))
    forbidden = [key for key in differing if key not in RESUMABLE and not key.startswith(RESUMABLE_TREES)]
    forbidden = [key for key in forbidden if key != "description"]
    if forbidden:
        raise ConfigError(
            f"{folder.path} was started with other settings, so resuming would make another run:",
            problems=[f"{key}: {before.get(key)!r} in the run, {after.get(key)!r} now" for key in forbidden],
            remedy="use the run's own settings, or start a new run with another --out",
        )
    for key in differing:
        now, was = ("null" if tree.get(key) is None else tree[key] for tree in (after, before))
        change = f"resuming with {key}={now} (was {was})"
        if key == "training.minutes" and after[key] is not None:
            taken = seconds_of(folder) / 60
            change = (
                f"resuming for {in_minutes(round(max(0.0, after[key] - taken), 2))} more: {taken:.2f} are over, "
                f"{after[key]:.2f} in all ({key}, was {was})"
            )
        console.say(change)
    return wanted if differing else stored


# What the objective of a run names by its path: a learned reward, a file of prompts. Another one makes another run.

MATERIALS = "materials"
"""Of a manifest, where `hashes_of_files` stand."""


def hashes_of_files(recipe: Recipe) -> dict[str, str]:
    """SHA-256 of each file, or of the weights of each run, by the setting that names it. What is not there, or can be
    read once only, is left out."""
    digests = {}
    for setting, path in _named_paths("objective", recipe.objective):
        try:
            if path.is_dir():
                from octavo.run.run import Run
                from octavo.run.teachers import weights_hash

                digests[setting] = weights_hash(Run.open(path))
            elif path.is_file():
                digests[setting] = file_hash(path)
        except (OctavoError, OSError):
            continue
    return digests


def named_files(recipe: Recipe) -> dict[str, Any]:
    """Hash the files that a recipe's objective names, for the manifest; empty for an objective that names none."""
    return {MATERIALS: digests} if (digests := hashes_of_files(recipe)) else {}


def changed_files(recipe: Recipe, manifest: Mapping[str, Any]) -> list[str]:
    """The settings whose paths hold something else now than when the run began."""
    now, before = hashes_of_files(recipe), manifest.get(MATERIALS, {})
    return [setting for setting, found in now.items() if before.get(setting, found) != found]


def refuse_other_files(recipe: Recipe, manifest: Mapping[str, Any]) -> None:
    """Raise InputError where a run that resumes would go on with others."""
    if settings := changed_files(recipe, manifest):
        raise InputError(
            f"What {' and '.join(settings)} names has changed since this run began, so it cannot be resumed or "
            "repeated.",
            remedy="bring the old one back, or start a new run with another --out",
        )


def _named_paths(key: str, value: Any) -> Iterator[tuple[str, Path]]:
    """Every path in a tree of settings, with its dotted key."""
    if isinstance(value, Path):
        yield key, value
    elif isinstance(value, BaseModel):
        for name in type(value).model_fields:
            yield from _named_paths(f"{key}.{name}", getattr(value, name))
    elif isinstance(value, (list, tuple)):
        for index, inner in enumerate(value):
            yield from _named_paths(f"{key}.{index}", inner)
