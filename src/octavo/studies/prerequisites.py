"""Runs that a study makes first, once for each seed: a model that others start from, a learned reward.

    before/<slug>/seed-<n>/   their run folders, in the study's

In a study's plain data such a run stands as before/NAME, wherever a run can be named. What follows from it (the model,
the tokenizer) is taken from its recipe until it is there.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from octavo.config import Recipe, apply_value, apply_values, check, recipe_names, recipe_tree
from octavo.config.load import named_start
from octavo.errors import ConfigError, InputError
from octavo.run.data import corpus_of, lacks_paths
from octavo.run.finetune import with_model_of, with_start
from octavo.studies.spec import Before, BeforeEntry, Study

if TYPE_CHECKING:
    from octavo.studies.job import Job

FOLDER = "before"
PREFIX = f"{FOLDER}/"


def tree_of(named: str | Mapping[str, Any], beside: Path) -> dict[str, Any]:
    """A recipe's plain data: by a shipped name, by a file's name relative to where the study lies, or as it stands.
    Raises ConfigError."""
    if not isinstance(named, str):
        return copy.deepcopy(dict(named))
    own = beside / named
    return copy.deepcopy(recipe_tree(own if named not in recipe_names() and own.is_file() else named))


def read_before(
    entries: Sequence[BeforeEntry], beside: Path, text: Sequence[str] | None, problems: list[str]
) -> tuple[Before, ...]:
    """The runs of a study file that come first; what is wrong with them is added to `problems`."""
    before: list[Before] = []
    for one in entries:
        try:
            tree = tree_of(one.recipe, beside)
            if text is not None and lacks_paths(tree.get("corpus") or "files"):
                tree["corpus"] = corpus_of(tree.get("corpus"), list(text))
            apply_values(tree, one.set)
            tree = started(tree, known_by_name(before))
            made = Before(one.name, tree, check(tree))
        except ConfigError as error:
            problems += [f"before {one.name}: {problem}" for problem in error.problems or [error.what]]
        except InputError as error:
            problems.append(f"before {one.name}: {error.what}")
        else:
            if made.slug in {other.slug for other in before}:
                problems.append(f"before: two runs are called {one.name}")
            before.append(made)
    return tuple(before)


def known_by_name(before: Sequence[Before]) -> dict[str, Recipe]:
    """Their recipes, by what names them in plain data."""
    return {PREFIX + one.name: one.recipe for one in before}


def started(tree: Mapping[str, Any], known: Mapping[str, Recipe]) -> dict[str, Any]:
    """A recipe's plain data with the model and tokenizer of the run that it starts from, where that is one of the
    `known`, which need not be there yet, or any other.

    Raises ConfigError for the name of a run that nobody makes first, and as `with_start` does.
    """
    if unknown := sorted({name for name in _named(tree) if name not in known}) if known else []:
        raise ConfigError(
            f"{unknown[0]} names no run that is made first.", remedy=f"there are: {', '.join(known)}"
        )
    training = tree.get("training")
    start = training.get("start_from") if isinstance(training, Mapping) else None
    if isinstance(start, str) and start in known:
        return with_model_of(tree, known[start], Path(start))
    return dict(tree) if named_start(tree) is None else with_start(tree)


def _named(tree: Any) -> list[str]:
    """Every before/NAME in plain data."""
    if isinstance(tree, Mapping):
        return [name for value in tree.values() for name in _named(value)]
    if isinstance(tree, list):
        return [name for value in tree for name in _named(value)]
    return [tree] if isinstance(tree, str) and tree.startswith(PREFIX) else []


def placed(tree: Any, study: Study, seed: int) -> Any:
    """Plain data in which each before/NAME is the folder where that run of a seed stands."""
    if isinstance(tree, Mapping):
        return {key: placed(value, study, seed) for key, value in tree.items()}
    if isinstance(tree, list):
        return [placed(value, study, seed) for value in tree]
    stands = {PREFIX + one.name: one for one in study.before}
    if study.folder is None or not isinstance(tree, str) or tree not in stands:
        return tree
    return str(first_path(study.folder, stands[tree], seed))


def first_path(folder: Path, before: Before, seed: int) -> Path:
    """Where a run that a seed makes first stands."""
    return folder / FOLDER / before.slug / f"seed-{seed}"


def first_jobs(study: Study, before: Before) -> list[Job]:
    """One of the runs that come first, for every seed. The ones before it are there."""
    from octavo.studies.job import Job

    assert study.folder is not None, "it says where they stand"
    jobs = []
    for seed in (*study.seeds, *study.noise_seeds):
        tree = placed(dict(before.tree), study, seed)
        apply_value(tree, "seed", seed)
        if before.recipe.training.threads is None:
            apply_value(tree, "training.threads", 1)
        recipe = check(tree if named_start(tree) is None else with_start(tree))
        jobs.append(
            Job(
                change=before.name,
                slug=before.slug,
                seed=seed,
                folder=str(first_path(study.folder, before, seed)),
                recipe=recipe.model_dump(mode="json"),
                steps=recipe.training.steps or 1,
                judge="best",
            )
        )
    return jobs


def standing(study: Study, folder: Path) -> Study:
    """The study with its first runs in a folder."""
    return dataclasses.replace(study, folder=folder.absolute())
