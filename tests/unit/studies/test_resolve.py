"""From a file to a study: everything that is wrong with its variants is said before anything runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from octavo.config import flatten
from octavo.errors import ConfigError
from octavo.studies.resolve import load_study, variant_recipe
from unit.studies.conftest import RECIPE, change, study_tree


def refusal(tree: dict[str, Any], text: Path | None) -> str:
    with pytest.raises(ConfigError) as error:
        load_study(tree, text)
    return str(error.value)


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        (
            change("a", model__residul=False),
            "a: model.residul is not an option; did you mean model.residual?",
        ),
        (change("a", model__residual=True), "a: alters nothing"),
        (change("a"), "a: alters nothing"),
        (change("a", model__heads=3, model__output_projection=False), "a: model: without output_projection"),
        (change("a", training__optimizer="adamv"), "did you mean adamw?"),
        (change("a", seed=3), "a: the study gives every run its seed"),
        (change("Baseline", model__heads=1), "would share a folder: 'baseline' and 'Baseline'"),
        (change("two layers", model__heads=1), "two variants have the same name"),
        (change("two, layers", model__heads=1), "would share a folder: 'two layers' and 'two, layers'"),
        (change("a", model__layers=2), "a: is the same as 'two layers'"),
    ],
)
def test_a_change_that_is_refused(text: Path, entry: dict[str, Any], words: str) -> None:
    tree = study_tree()
    tree["changes"] = [*tree["changes"], entry]
    assert words in refusal(tree, text)


def test_what_is_wrong_with_the_file_does_not_hide_the_rest(text: Path) -> None:
    tree = study_tree(baseline="no-such-recipe", seeds=0)
    tree["changes"] = [
        {"name": "a", "hypotesis": "x"},
        change("b", model__layers=2),
        change("b", model__heads=1),
    ]
    said = refusal(tree, text)
    assert said.startswith("5 problems in the study:")
    for words in (
        "seeds: ",
        "changes.1.hypotesis is not",
        "changes.1.hypothesis is missing",
        "no-such-recipe",
    ):
        assert words in said
    assert "two variants have the same name: 'b' and 'b'" in said


def test_all_problems_of_all_variants_at_once() -> None:
    tree = study_tree(
        set={"seed": 1}, seeds=[3, 3], changes=[change("a", model__residul=1), change("b"), change("b")]
    )
    found = refusal(tree, None)
    for words in (
        "set.seed",
        "given twice: 3",
        "residul",
        "b: alters nothing",
        "same name",
        "a text is needed",
    ):
        assert words in found, found


def test_a_baseline_that_cannot_be() -> None:
    assert "There is no recipe 'nanogpd'" in refusal(study_tree(baseline="nanogpd"), None)
    assert "the baseline: model.width" in refusal(study_tree(baseline={"model": {"width": 0}}), None)
    assert "nothing to compare" in refusal(study_tree(changes=[]), Path("x"))


def test_a_word_for_a_part_drops_the_old_options(text: Path) -> None:
    optimizer = {"kind": "adamw", "learning_rate": 0.5, "betas": [0.8, 0.9]}
    recipe = {**RECIPE, "training": {**RECIPE["training"], "optimizer": optimizer}}
    tree = study_tree(
        baseline=recipe,
        changes=[
            change("word", training__optimizer="sgd"),
            change("kind", training__optimizer__kind="sgd"),
            change("rate", training__optimizer__learning_rate=0.25),
        ],
    )
    tree["changes"][1]["set"]["training.batch"] = 5  # else the same as the first
    study = load_study(tree, text)
    word, kind, rate = (variant_recipe(study, one).training.optimizer for one in study.changes)
    assert word.kind == kind.kind == "sgd" and word == kind
    assert rate.learning_rate == 0.25 and tuple(rate.betas) == (0.8, 0.9)


def test_seeds_count_on_from_the_recipes_own(text: Path) -> None:
    study = load_study(study_tree(seeds=3, noise=2), text)
    assert (study.seeds, study.noise_seeds) == ((5, 6, 7), (8, 9))
    study = load_study(study_tree(seeds=[9, 2], noise=[4]), text)
    assert (study.seeds, study.noise_seeds) == ((9, 2), (4,))
    assert len(load_study(study_tree(noise=None), text).noise_seeds) > 0


def test_a_grid_crosses_its_values_and_leaves_the_baseline_out(text: Path) -> None:
    tree = study_tree(changes=[], grid={"model.heads": [1, 2, 4], "model.norm": ["layer", "rms"]})
    study = load_study(tree, text)
    assert [one.name for one in study.changes] == [
        "heads=1, norm=layer", "heads=1, norm=rms", "heads=2, norm=rms", "heads=4, norm=layer", "heads=4, norm=rms",
    ]  # fmt: skip
    assert study.changes[1].settings == {"model.heads": 1, "model.norm": "rms"}


def test_paths_count_from_the_studys_own_folder(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump(RECIPE))
    tree = study_tree(baseline="mine.yaml", text="a.txt")
    tree["changes"].append({"name": "other text", "hypothesis": "x", "text": ["b.txt", "corpus:some-book"]})
    (tmp_path / "study.yaml").write_text(yaml.safe_dump(tree))
    study = load_study(tmp_path / "study.yaml")
    assert study.name == "study" and study.baseline == "mine.yaml"
    assert study.text == (str(tmp_path / "a.txt"),)
    assert study.changes[1].text == (str(tmp_path / "b.txt"), "corpus:some-book")
    given = load_study(tmp_path / "study.yaml", tmp_path / "c.txt")
    assert given.text == (str(tmp_path / "c.txt"),)


def test_the_studys_own_settings_reach_every_variant(text: Path) -> None:
    study = load_study(study_tree(set={"training.batch": 7}), text)
    assert [variant_recipe(study, one).training.batch for one in study.variants] == [7, 7]
    flat = [flatten(variant_recipe(study, one)) for one in study.variants]
    assert {key for key in flat[0] if flat[0][key] != flat[1][key]} == {"model.layers"}
