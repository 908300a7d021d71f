"""From a study file to a study: every variant's recipe checked, all problems gathered; and back to a file."""

from __future__ import annotations

import copy
import itertools
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import octavo
from octavo.config import Recipe, apply_values, check, flatten
from octavo.errors import ConfigError, InputError
from octavo.run.data import Paths, absolute, corpus_of
from octavo.studies.measures import NEEDS, unfit, usual_metric
from octavo.studies.prerequisites import known_by_name, placed, read_before, started, tree_of
from octavo.studies.spec import (
    BASELINE,
    Before,
    Change,
    Study,
    StudyFile,
    problems_error,
    read_study_file,
    slug_of,
)
from octavo.studies.statistics import default_noise
from octavo.task import Task, task_of
from octavo.training.objective import TEXT

# The study sets these itself, for every run alike.
OWNED = ("seed",)


def load_study(
    study: str | Path | Mapping[str, Any], text: Paths | None = None, overrides: Iterable[str] = ()
) -> Study:
    """A checked study by shipped name, path or as plain data. `text` takes the place of the file's.

    Raises ConfigError with every problem at once.
    """
    problems: list[str] = []
    file, name = read_study_file(study, overrides, problems)
    if file.ladder is not None:
        raise ConfigError(
            f"'{name}' is a ladder, a study at several sizes and lengths.", remedy="octavo study ladder"
        )
    return resolved(file, name, beside_of(study), text, problems)


def beside_of(study: str | Path | Mapping[str, Any]) -> Path:
    """The folder that a study file's relative paths begin at."""
    return Path(study).parent if isinstance(study, str | Path) and Path(study).is_file() else Path()


def resolved(file: StudyFile, name: str, beside: Path, text: Paths | None, problems: list[str]) -> Study:
    """A study from its file. Raises ConfigError with every problem, those that were found before too."""
    given = absolute(text) if text is not None else listed(file.text, beside)
    if "-" in (given or []):
        problems.append("text: a study reads its text many times, standard input comes once; give a file")
    first = read_before(file.before, beside, given, problems)
    baseline = _checked(tree := baseline_tree(file, beside, given, problems, first), "the baseline", problems)
    changes = [
        Change(
            one.name,
            slug_of(one.name),
            one.hypothesis,
            one.expect,
            one.set,
            tuple_of(one.text, beside),
            one.budget.model_dump(exclude_none=True) if one.budget else {},
        )
        for one in file.changes
    ]
    if baseline is not None:
        changes += grid_changes(file.grid, baseline)
    _check_names(changes, problems)
    seeds, further = seeds_of(file, baseline.seed if baseline else 0, len(changes), problems)
    budget = file.budget.model_dump(exclude_none=True) if file.budget else {}
    before = file.resolved.model_dump() if file.resolved else {}
    unit = baseline.objective.unit if baseline else TEXT
    found = Study(
        name=name,
        description=file.description.strip(),
        finding=file.finding.strip(),
        baseline=file.baseline if isinstance(file.baseline, str) else before.get("baseline", BASELINE),
        recipe=tree,
        settings=file.set,
        seeds=seeds,
        noise_seeds=further,
        metric=file.metric or usual_metric(unit),
        judge=file.judge,
        budget=budget,
        changes=tuple(changes),
        text=tuple(given) if given else None,
        stop_hopeless=file.stop_hopeless,
        smallest_interesting=file.smallest_interesting,
        before=first,
        steps=before.get("steps", {}) if before.get("budget", {}) == budget else {},
        data=before.get("data", {}),
        octavo=octavo.__version__,
        sources=tuple(before.get("sources", ())),
        unit=unit,
        task=task_of(baseline) if baseline else Task.usual(),
    )
    if baseline is not None:
        problems += problems_of_variants(found, baseline)
        if file.metric == "improvement" and baseline.training.start_from is not None:
            problems.append(
                "metric: improvement is measured from the untrained model, and the runs start from one"
            )
    if not changes and not problems:
        problems.append("there is nothing to compare: give changes or a grid")
    if problems:
        raise problems_error(problems)
    return found


def listed(text: list[str] | str | None, beside: Path) -> list[str] | None:
    """Texts that a study file names, relative to where it lies. Names of corpora stay as they are."""
    if text is None:
        return None
    words = [text] if isinstance(text, str) else text
    named = [word for word in words if word == "-" or word.startswith("corpus:")]
    return [word if word in named else absolute([beside / word])[0] for word in words]


def tuple_of(text: list[str] | str | None, beside: Path) -> tuple[str, ...] | None:
    """The same for a change."""
    files = listed(text, beside)
    return None if files is None else tuple(files)


def baseline_tree(
    file: StudyFile,
    beside: Path,
    text: list[str] | None,
    problems: list[str],
    before: Sequence[Before] = (),
) -> dict[str, Any]:
    """The baseline's plain data, with the study's text and settings in it."""
    try:
        tree = tree_of(file.baseline, beside)
    except ConfigError as error:
        problems.append(f"baseline: {error.what}")
        return {}
    if text is not None:
        put_text(tree, text)
    for key in file.set:
        if key in OWNED:
            problems.append(f"set.{key}: the study gives every run its {key}; see seeds")
    apply_values(tree, file.set)
    try:
        return started(tree, known_by_name(before))
    except InputError as error:
        problems.append(f"baseline: {error.what}")
        return {}


def put_text(tree: dict[str, Any], text: Iterable[str]) -> None:
    """Make files the source of a recipe's plain data; other options of that source stay."""
    tree["corpus"] = corpus_of(tree.get("corpus"), list(text))


def seeds_of(
    file: StudyFile, first: int, changes: int, problems: list[str]
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The seeds of all variants and the further ones of the baseline; numbers count on from the recipe's own."""
    seeds = [first + n for n in range(file.seeds)] if isinstance(file.seeds, int) else list(file.seeds)
    noise = file.noise if file.noise is not None else (default_noise(len(seeds), changes) if changes else 0)
    if isinstance(noise, int):
        further = itertools.count(max(seeds) + 1)
        noise = [next(further) for _ in range(noise)]
    repeated = sorted({seed for seed in seeds + noise if (seeds + noise).count(seed) > 1})
    if repeated:
        problems.append(f"seeds: given twice: {', '.join(map(str, repeated))}")
    return tuple(seeds), tuple(noise)


def grid_changes(grid: Mapping[str, list[Any]], baseline: Recipe) -> list[Change]:
    """Every combination of the grid's values as a change, except the one that is the baseline's own."""
    if not grid:
        return []
    short = [key.rsplit(".", 1)[-1] for key in grid]
    shown = short if len(set(short)) == len(short) else list(grid)
    changes = []
    for values in itertools.product(*grid.values()):
        settings = dict(zip(grid, values, strict=True))
        name = ", ".join(f"{key}={_shown(value)}" for key, value in zip(shown, values, strict=True))
        hypothesis = f"With {name} the result differs from the baseline's."
        tree = baseline.model_dump(mode="json")
        apply_values(tree, settings)
        try:
            if flatten(check(tree)) == flatten(baseline):
                continue
        except ConfigError:
            pass  # said with the other changes' problems
        changes.append(Change(name, slug_of(name), hypothesis, "any", settings))
    return changes


def _shown(value: Any) -> str:
    if isinstance(value, dict) and "kind" in value:
        return str(value["kind"])
    return value if isinstance(value, str) else json.dumps(value)


def variant_tree(study: Study, change: Change, seed: int | None = None) -> dict[str, Any]:
    """A variant's plain data: the baseline's, the change on top; with the runs that a seed made first, if one is
    given."""
    tree = copy.deepcopy(dict(study.recipe))
    if change.text is not None:
        put_text(tree, change.text)
    apply_values(tree, change.settings)
    if seed is not None:
        tree = placed(tree, study, seed)
    return started(tree, known_by_name(study.before))


def variant_recipe(study: Study, change: Change, seed: int | None = None) -> Recipe:
    """A variant's recipe, without what the budget and the seed decide. Raises ConfigError."""
    return check(variant_tree(study, change, seed))


def _checked(tree: dict[str, Any], whose: str, problems: list[str]) -> Recipe | None:
    if not tree:
        return None
    try:
        return check(tree)
    except ConfigError as error:
        problems += [f"{whose}: {problem}" for problem in error.problems]
    return None


def _problems_of_measure(study: Study, baseline: Recipe) -> Iterator[str]:
    """What of a study does not go with its objective."""
    objective = baseline.objective.build()
    names = [metric.name for metric in objective.metrics]
    wrong = baseline.objective.not_compared_by(study.metric) or unfit(study.metric, objective.unit, names)
    if wrong:
        yield wrong
    elif study.metric in NEEDS and study.metric not in task_of(baseline).offers(baseline, study.judge):
        yield f"metric={study.metric} needs {NEEDS[study.metric]}"
    if study.stop_hopeless and objective.unit.density:
        yield "stop_hopeless: no share of the log of a density means anything; leave it out"


def _without_text(recipes: Mapping[str, Recipe]) -> Iterator[str]:
    """Variants that want files and have none; that the baseline lacks them says it for all."""
    lacking = [name for name, one in recipes.items() if one.lacks_text]
    for name in lacking[:1] if BASELINE in lacking else lacking:
        yield f"{name}: a text is needed: --text PATH, or text: [PATH] in the study"


def _check_names(changes: list[Change], problems: list[str]) -> None:
    seen: dict[str, str] = {BASELINE: BASELINE}
    for change in changes:
        if change.slug in seen:
            before = seen[change.slug]
            same = "have the same name" if before == change.name else "would share a folder"
            problems.append(f"two variants {same}: '{before}' and '{change.name}'")
        seen.setdefault(change.slug, change.name)


def problems_of_variants(study: Study, baseline: Recipe) -> Iterator[str]:
    """What is wrong with a study's changes, each on top of the baseline."""
    recipes: dict[str, Recipe] = {BASELINE: baseline}
    budgets: dict[str, Any] = {BASELINE: {}}
    yield from _problems_of_measure(study, baseline)
    for change in study.changes:
        for key in OWNED:
            if key in change.settings:
                yield f"{change.name}: the study gives every run its {key}; see seeds"
        problems: list[str] = []
        try:
            recipe = _checked(variant_tree(study, change), change.name, problems)
        except InputError as error:  # it cannot start from the run that it names
            found = error.problems if isinstance(error, ConfigError) else [error.what]
            yield from (f"{change.name}: {problem}" for problem in found)
            continue
        yield from problems
        if recipe is None:
            continue
        unit = recipe.objective.unit
        if str(unit) != str(study.unit):
            yield f"{change.name}: is measured in {unit}, and the baseline in {study.unit}"
        flat = flatten(recipe)
        twin = next(
            (
                name
                for name, other in recipes.items()
                if flatten(other) == flat and budgets[name] == change.budget
            ),
            None,
        )
        budgets.setdefault(change.name, change.budget)
        if twin == BASELINE:
            yield f"{change.name}: alters nothing, the baseline has these settings already"
        elif twin is not None:
            yield f"{change.name}: is the same as '{twin}'"
        recipes.setdefault(change.name, recipe)
    yield from _without_text(recipes)
