"""A list of parts in a recipe: given in full, by a name, by a file, changed by overrides, refused with sentences."""

from __future__ import annotations

from pathlib import Path

import pytest

from octavo.config import (
    Recipe,
    all_keys,
    check,
    cleaning_names,
    cleaning_steps,
    load_recipe,
    parse_yaml,
    to_yaml,
)
from octavo.errors import ConfigError


def kinds(recipe: object, *overrides: str) -> list[str]:
    return [step.kind for step in load_recipe({"cleaning": recipe}, overrides).cleaning]


def complaint(recipe: object, *overrides: str) -> str:
    with pytest.raises(ConfigError) as caught:
        load_recipe({"cleaning": recipe}, overrides)
    return str(caught.value)


def test_no_cleaning_by_default() -> None:
    assert load_recipe({}).cleaning == ()


def test_names_and_full_forms() -> None:
    steps = load_recipe({"cleaning": ["case", {"kind": "whitespace", "lines": "fold"}]}).cleaning
    assert [(step.kind, getattr(step, "lines", None)) for step in steps] == [
        ("case", None),
        ("whitespace", "fold"),
    ]


@pytest.mark.parametrize("name", cleaning_names())
def test_every_shipped_list_is_taken_by_its_name_and_survives_yaml(name: str) -> None:
    recipe = load_recipe({"cleaning": name})
    assert len(recipe.cleaning) == len(cleaning_steps(name)) > 0
    assert check(parse_yaml(to_yaml(recipe), "again")) == recipe


def test_overrides_reach_a_step() -> None:
    assert kinds([], "cleaning=[case, unicode]") == ["case", "unicode"]
    assert kinds([], "cleaning=plain") == kinds("plain")
    changed = load_recipe({"cleaning": ["unicode", "case"]}, ["cleaning.0.form=NFKC", "cleaning.1=control"])
    assert [step.kind for step in changed.cleaning] == ["unicode", "control"]
    assert changed.cleaning[0].form == "NFKC"
    named = load_recipe({"cleaning": "pidgin"}, ["cleaning.3.keep=.,?!"])
    assert named.cleaning[3].keep == ".,?!"
    another = load_recipe({"cleaning": [{"kind": "unicode", "form": "NFKC"}]}, ["cleaning.0.kind=case"])
    assert [step.kind for step in another.cleaning] == ["case"]


def test_an_override_leaves_the_given_list_alone() -> None:
    tree = {"cleaning": ["unicode"]}
    load_recipe(tree, ["cleaning.0.form=NFKC"])
    assert tree == {"cleaning": ["unicode"]}


def test_a_file_with_steps(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("description: mine\ncleaning: [case]\n")
    assert kinds(str(path)) == ["case"]
    path.write_text("cleaning: plain\n")
    assert kinds(str(path)) == kinds("plain")
    path.write_text("steps: [case]\n")
    assert "has no list of steps under the key 'cleaning'" in complaint(str(path))


@pytest.mark.parametrize(
    ("given", "overrides", "sentence"),
    [
        ("pidgn", (), "Cleaning steps 'pidgn' not found: name a file or one of pidgin, plain, web."),
        (["cas"], (), "cleaning.0: there is no cleaning 'cas'; did you mean case?"),
        (["case", {"kind": "unicode", "from": "NFC"}], (), "cleaning.1.from is not an option; did you mean"),
        (["unicode"], ("cleaning.0.form=NFX",), "cleaning.0.form: input should be 'NFC' or 'NFKC', not 'NFX'"),
        (["unicode"], ("cleaning.1.form=NFC",), "cleaning.1.form: '1' is no place in a list of 1"),
        (["unicode"], ("cleaning.first.form=NFC",), "'first' is no place in a list of 1"),
        (["closed_vocabulary"], (), "cleaning.0: closed_vocabulary needs `words`"),
        ([{"kind": "titles", "patterns": ["("]}], (), "is not a regular expression"),
        ([{"kind": "length", "min_words": 9, "max_words": 3}], (), "min_words (9) is more than max_words (3)"),
    ],
)  # fmt: skip
def test_wrong_steps_are_named(given: object, overrides: tuple[str, ...], sentence: str) -> None:
    assert sentence in complaint(given, *overrides)


def test_keys_of_steps_are_known() -> None:
    assert {"cleaning", "cleaning.0.form", "cleaning.0.words"} <= set(all_keys())


def test_the_schema_for_editors_knows_a_list_in_full_and_by_its_name() -> None:
    jsonschema = pytest.importorskip("jsonschema")
    checker = jsonschema.Draft202012Validator(Recipe.model_json_schema())
    for given in ("pidgin", ["case", {"kind": "unicode", "form": "NFC"}], []):
        assert checker.is_valid({"cleaning": given})
    for wrong in (3, ["nothing"], [{"kind": "unicode", "form": "X"}]):
        assert not checker.is_valid({"cleaning": wrong})
