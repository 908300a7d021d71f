"""The study file: strict, with every problem at once, and `key=value` in its own keys."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from octavo.errors import ConfigError
from octavo.studies.spec import StudyFile, apply_study_override, read_study_file, slug_of
from unit.studies.conftest import study_tree


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"metrics": "val_loss"}, ["metrics is not an option", "did you mean metric?"]),
        ({"metric": "bits"}, ["metric:", "'bits_per_byte'", "not 'bits'"]),
        ({"budget": {"steps": 5, "tokens": 9}}, ["budget:", "steps and tokens"]),
        ({"budget": {}}, ["budget:", "not none"]),
        ({"budget": {"step": 5}}, ["budget.step is not an option", "did you mean steps?"]),
        ({"budget": {"steps": 0}}, ["budget.steps", "greater than or equal to 1"]),
        ({"seeds": 0}, ["seeds"]),
        ({"seeds": []}, ["seeds"]),
        ({"changes": [{"name": "a", "set": {}}]}, ["changes.1.hypothesis is missing"]),
        (
            {"changes": [{"name": "a", "hypothesis": "b", "sets": {}}]},
            ["changes.1.sets", "did you mean set?"],
        ),
        ({"changes": [{"name": "a", "hypothesis": "b", "expect": "good"}]}, ["changes.1.expect", "'worse'"]),
        ({"stop_hopeless": {"after": 2}}, ["stop_hopeless.after"]),
        ({"grid": {"model.heads": []}}, ["grid.model.heads"]),
        ({"training": {"steps": 5}}, ["training is a setting of the recipe", "set.training"]),
    ],
)
def test_what_is_refused(changed: dict[str, Any], words: list[str]) -> None:
    with pytest.raises(ConfigError) as refusal:
        read_study_file(study_tree(**changed))
    assert all(word in str(refusal.value) for word in words), refusal.value


def test_all_problems_stand_in_one_message() -> None:
    with pytest.raises(ConfigError, match="3 problems in the study") as refusal:
        read_study_file(study_tree(metrics=1, seeds=-1, judge="first"))
    assert all(word in str(refusal.value) for word in ("metrics", "seeds", "judge"))


def test_a_study_without_a_baseline() -> None:
    with pytest.raises(ConfigError, match="baseline is missing"):
        read_study_file({"changes": []})


@pytest.mark.parametrize(
    ("override", "path", "value"),
    [
        ("seeds=5", ("seeds",), 5),
        ("seeds=[4, 9]", ("seeds",), [4, 9]),
        ("budget.tokens=900", ("budget",), {"tokens": 900}),
        ("set.training.batch=8", ("set", "training.batch"), 8),
        ("stop_hopeless.after=0.3", ("stop_hopeless",), {"after": 0.3}),
        ("grid.model.heads=[1, 2]", ("grid", "model.heads"), [1, 2]),
        ("changes.two layers.set.model.layers=3", ("changes", 0, "set", "model.layers"), 3),
        ("changes.two-layers.expect=better", ("changes", 0, "expect"), "better"),
        ("changes.1.text=[a.txt]", ("changes", 0, "text"), ["a.txt"]),
    ],
)
def test_overrides(override: str, path: tuple[Any, ...], value: Any) -> None:
    tree: Any = copy.deepcopy(study_tree())
    apply_study_override(tree, override)
    StudyFile.model_validate(tree)
    for step in path:
        tree = tree[step]
    assert tree == value


@pytest.mark.parametrize(
    ("override", "words"),
    [
        ("seeds", "not an override"),
        ("=5", "not an override"),
        ("sedes=5", "did you mean seeds?"),
        ("training.batch=8", "set.training.batch"),
        ("seed=3", "did you mean seeds?"),
        ("changes.three.set.model.layers=3", "names no entry of the study's changes"),
        ("changes.2.text=a", "names no entry of the study's changes"),
        ("changes.1=a", "names no entry of the study's changes"),
    ],
)
def test_overrides_that_are_refused(override: str, words: str) -> None:
    with pytest.raises(ConfigError) as refusal:
        apply_study_override(study_tree(), override)
    assert words in str(refusal.value)


def test_names_as_folders() -> None:
    assert slug_of("No residual connections!") == "no-residual-connections"
    assert slug_of("ReLU²") == "relu2" != slug_of("ReLU")
    assert slug_of("../../x") == "x"
    assert slug_of("heads=8, width=64") == "heads-8-width-64"
    assert slug_of("Größe") == "größe"
    assert slug_of("…") == "change"
    assert slug_of("Con") == "con-"
    assert slug_of("x" * 300) == "x" * 100 and slug_of("é" * 300) == "é" * 50
