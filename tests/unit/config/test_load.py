"""Recipes: strict, every problem at once, overrides on top. Settings on top of a recipe: what a word means, in what
order words count, and what is no override."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml
from hypothesis import given
from hypothesis import strategies as st

from octavo.config import (
    ANY_TEXT,
    DEFAULT_RECIPE,
    Recipe,
    all_keys,
    apply_override,
    apply_values,
    check,
    default_said,
    flatten,
    load_recipe,
    override_words,
    parse_yaml,
    recipe_names,
    recipe_text,
    to_yaml,
)
from octavo.errors import ConfigError


def complaint(tree: dict[str, object], *overrides: str) -> str:
    with pytest.raises(ConfigError) as caught:
        load_recipe(tree, overrides)
    return str(caught.value)


# Shipped recipes


@pytest.mark.parametrize("name", recipe_names())
def test_every_shipped_recipe_loads_and_survives_yaml(name: str) -> None:
    recipe = load_recipe(name)
    assert recipe.description
    again = load_recipe(parse_yaml(to_yaml(recipe), "the resolved config"))
    assert again == recipe
    assert to_yaml(again) == to_yaml(recipe)


def test_the_first_recipes_are_there_in_order() -> None:
    names = recipe_names()
    assert {"pidgin-demo", "shakespeare-char", "shakespeare-char-cpu", "shakespeare-char-modern"} <= set(
        names
    )
    assert names == sorted(names)


def test_three_recipes_are_for_any_text_and_one_of_them_is_the_default() -> None:
    assert set(ANY_TEXT) <= set(recipe_names())
    assert DEFAULT_RECIPE in ANY_TEXT
    assert all(name in default_said() for name in ANY_TEXT)


@pytest.mark.parametrize("name", ANY_TEXT)
def test_a_recipe_for_any_text(name: str) -> None:
    recipe = load_recipe(name)
    assert "any text" in recipe.description and "Shakespeare" not in recipe.description
    assert recipe.training.passes, "a short text would be learned by heart"
    assert isinstance(recipe.evaluation.every, float) and recipe.evaluation.every <= 1 / 8
    assert recipe.evaluation.tokens, "on a large text the judging would take longer than the training"
    assert recipe.split == "files", "of a folder each file and language is judged"
    tokenizer = recipe.tokenizer.build(lambda: iter(["Only English here."]), documents=False)
    for text in ("Ἐν ἀρχῇ ἦν ὁ λόγος", "太初有道", "emoji 😀\x00\u200b"):
        assert tokenizer.decode(tokenizer.encode(text)) == text


def test_the_cpu_recipe_is_nanogpts() -> None:
    recipe = load_recipe("shakespeare-char-cpu")
    model, training = recipe.model, recipe.training
    assert (model.layers, model.heads, model.width, model.context) == (4, 4, 128, 64)
    assert (training.batch, training.steps, training.optimizer.kind) == (12, 2000, "adamw")


def test_an_empty_recipe_is_all_defaults() -> None:
    recipe = load_recipe({})
    assert recipe == Recipe.model_validate({})
    assert recipe.model.positions.kind == "learned" and recipe.training.optimizer.kind == "adamw"
    assert load_recipe(parse_yaml(to_yaml(recipe), "x")) == recipe


# Where a recipe comes from


def test_a_recipe_file(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("description: größer\ntraining: {steps: 7}\n", encoding="utf-8")
    for given_as in (path, str(path)):
        recipe = load_recipe(given_as, ["seed=3"])
        assert (recipe.training.steps, recipe.seed, recipe.description) == (7, 3, "größer")


def test_an_unknown_recipe_has_a_nearest_one() -> None:
    with pytest.raises(ConfigError, match="Did you mean 'shakespeare-char-cpu'"):
        recipe_text("shakespear-char-cpu")
    with pytest.raises(ConfigError, match="neither a shipped one nor a file"):
        recipe_text("zzzz")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"\xff\xfe\x00\x01", "not a text file"),
        (b"training: [1, 2", "not valid YAML"),
        (b"", "holds no keys"),
        (b"- 1\n- 2\n", "holds no keys"),
        (b"seed: 1\nseed: 2\n", "'seed' stands twice, again in line 2"),
        (b"training:\n  steps: 1\n  batch: 2\n  steps: 3\n", "'steps' stands twice, again in line 4"),
        (b"{{steps}}: 1", "not valid YAML"),
        (b"? [a, b]\n: 1", "not valid YAML"),
        (b"seed: !!python/object/apply:os.getcwd []", "not valid YAML"),
    ],
    ids=["binary", "unclosed", "empty", "list", "twice", "twice inside", "braces", "list key", "object"],
)
def test_a_file_that_is_no_recipe(tmp_path: Path, content: bytes, words: str) -> None:
    """A key that is itself a list or mapping once ended in a TypeError."""
    path = tmp_path / "mine.yaml"
    path.write_bytes(content)
    with pytest.raises(ConfigError, match=words):
        load_recipe(path)


@pytest.mark.parametrize("content", ["It was a dark and stormy night.", "ROMEO: Ay me!", "a\n  b: {", "\tx"])
def test_a_text_in_the_recipes_place(tmp_path: Path, content: str) -> None:
    """Most likely somebody wants to train on it: the message has the whole command."""
    path = tmp_path / "my book.txt"
    path.write_text(content, encoding="utf-8")
    for place in (path, tmp_path):
        with pytest.raises(ConfigError) as caught:
            load_recipe(place)
        assert caught.value.remedy == f"octavo train --text {shlex.quote(str(place))}    trains on it"


def test_plain_data_is_not_changed() -> None:
    tree = {"training": {"optimizer": {"kind": "adamw", "learning_rate": 1e-4}}, "model": {"norm": "rms"}}
    before = yaml.safe_dump(tree)
    load_recipe(
        tree, ["training.optimizer.learning_rate=1", "training.optimizer.kind=muon", "model.norm.eps=1"]
    )
    assert yaml.safe_dump(tree) == before


# Strictness


def test_all_problems_stand_in_one_message() -> None:
    text = complaint(
        {"seed": -1, "trainning": {}, "model": {"layers": 0, "norm": "batch"}, "training": {"clip": "abc"}}
    )
    assert text.startswith("5 problems in the config:")
    for key in ("seed", "trainning", "model.layers", "model.norm", "training.clip"):
        assert f"\n  · {key}" in text


def test_one_problem_is_one() -> None:
    assert complaint({"seed": -1}).startswith("One problem in the config:\n  · seed: ")


@pytest.mark.parametrize(
    ("tree", "sentence"),
    [
        ({"trainnig": {}}, "trainnig is not an option; did you mean training?"),
        (
            {"training": {"step": 5}},
            "training.step is not an option; did you mean training.steps?",
        ),
        (
            {"learning_rate": 1},
            "learning_rate is not an option; did you mean training.optimizer.learning_rate",
        ),
        (
            {"model": {"positions": {"kind": "rotary", "bse": 1}}},
            "model.positions.bse is not an option; did you mean model.positions.base?",
        ),
        (
            {"training": {"optimizer": {"kind": "muon", "rest": {"beta": 1}}}},
            "training.optimizer.rest.beta is not an option; did you mean training.optimizer.rest.betas or ",
        ),
        (
            {"training": {"adapters": {"kind": "none", "rank": 4}}},
            "training.adapters.rank is not an option of training.adapters=none; lora has it",
        ),
        (
            {"model": {"norm": "rsm"}},
            "model.norm: there is no norm 'rsm'; did you mean rms? (there are: layer, ",
        ),
        ({"model": {"norm": {"kind": "batch"}}}, "model.norm: there is no norm 'batch' (there are: "),
        ({"model": {"norm": 5}}, "model.norm: there is no norm '5' (there are: "),
        ({"model": {"norm": [1]}}, "model.norm: there is no norm '[1]' (there are: "),
        ({"training": {"optimizer": {"kind": None}}}, "training.optimizer: there is no optimizer 'None'"),
        ({"model": {"width": 3, "heads": 4}}, "model: 4 heads do not fit into width 3; set head_width"),
        ({"model": {"kv_heads": 3}}, "model: heads (4) must be a multiple of kv_heads (3)"),
        (
            {"model": {"width": 130, "output_projection": False}},
            "model: without output_projection, heads × head_width (128) must equal width (130)",
        ),
        (
            {"model": {"positions": "rotary", "head_width": 5}},
            "model: rotary positions need an even head width, not 5",
        ),
        ({"training": {"steps": 1, "epochs": 1}}, "training: give steps or epochs, not both"),
        ({"training": {"optimizer": {"betas": [0.9, "x"]}}}, "training.optimizer.betas.1: "),
        ({"training": {"optimizer": {"betas": [0.9]}}}, "training.optimizer.betas.1: field required"),
        (
            {"tokenizer": {"kind": "word", "words": 5}},
            "tokenizer.words: input should be a valid list, or a valid path, not 5",
        ),
        ({"training": 5}, "training: input should be a valid dictionary, not 5"),
        (
            {"training": {"optimizer": {"kind": "muon", "rest": "x"}}},
            "training.optimizer.rest: input should be a valid dictionary, not 'x'",
        ),
        ({"training": {"clip": float("nan")}}, "training.clip: input should be a finite number, not nan"),
        ({"seed": 2**32}, "seed: input should be less than 4294967296, not 4294967296"),
        ({"model": {"tied": "perhaps"}}, "model.tied: "),
        (
            {"split": "random"},
            "split: input should be 'contiguous', 'documents', 'prompts', 'sources' or 'files', not 'random'",
        ),
        ({1: 2}, "1: keys should be strings"),
    ],
    ids=str,
)
def test_a_sentence_says_where_and_what(tree: dict[str, object], sentence: str) -> None:
    text = complaint(tree)
    assert f"\n  · {sentence}" in text
    assert "[" not in sentence or "lax" not in text


def test_an_unknown_list_of_cleaning_steps_is_one_problem_among_others() -> None:
    text = complaint({"cleaning": "xxx", "seed": -1})
    assert text.startswith("2 problems")
    assert "cleaning: Cleaning steps 'xxx' not found" in text


@given(st.sampled_from(all_keys()), st.sampled_from(["x" * 3, "5", "[1]", "{a: 1}", "~", "true"]))
def test_any_value_at_any_key_is_taken_or_refused_with_a_sentence(key: str, value: str) -> None:
    try:
        load_recipe({}, [f"{key}={value}"])
    except ConfigError as error:
        assert "problem" in str(error)


def test_a_resolved_config_cannot_be_changed() -> None:
    recipe = load_recipe({})
    with pytest.raises(ValueError, match="frozen"):
        recipe.model.layers = 3


# The flat view


def test_flat_keys_are_keys_that_a_recipe_can_hold() -> None:
    for name in recipe_names():
        assert set(flatten(load_recipe(name))) <= set(all_keys())


def test_every_flat_key_can_be_overridden_with_its_own_value() -> None:
    recipe = load_recipe("shakespeare-char-modern")
    for key, value in flatten(recipe).items():
        written = yaml.safe_dump(value, default_flow_style=True, width=10_000).removesuffix("...\n").strip()
        assert load_recipe("shakespeare-char-modern", [f"{key}={written}"]) == recipe, key


def test_keys_name_the_options_of_every_part() -> None:
    keys = all_keys()
    assert {
        "model.positions.base",
        "training.optimizer.rest.learning_rate",
        "training.schedule.floor",
    } <= set(keys)
    assert keys == sorted(set(keys))


PERIOD = "give a number of steps ({} to 2147483647), a share of the run (such as 0.1) or epoch, not "


@pytest.mark.parametrize(
    ("override", "said"),
    [
        ("training.checkpoint_every=0", PERIOD.format(1) + "0"),
        ("evaluation.every=often", PERIOD.format(1) + "'often'"),
        ("evaluation.every=1.5", PERIOD.format(1) + "1.5"),
        ("evaluation.every=1.0", PERIOD.format(1) + "1.0"),
        ("evaluation.every=true", PERIOD.format(1) + "True"),
        ("evaluation.every=.nan", PERIOD.format(1) + "nan"),
        ("evaluation.every=.inf", PERIOD.format(1) + "inf"),
        ("sampling.every=-0.1", PERIOD.format(0) + "-0.1"),
        ("sampling.prompt=5", "input should be a valid string, or a valid list, not 5"),
        ("sampling.prompt=[]", "input should be a valid string, or list should have at least 1 item, not []"),
        ("model.dropout=2", "the share that is dropped is at least 0 and below 1, not 2"),
    ],
)
def test_a_value_that_fits_none_of_its_types_is_one_mistake(override: str, said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_recipe({}, [override])
    assert caught.value.what == f"One problem in the config:\n  · {override.partition('=')[0]}: {said}"


def test_what_is_wrong_inside_a_value_is_said_there() -> None:
    with pytest.raises(ConfigError) as caught:
        load_recipe({}, ["sampling.prompt=[a, 3]"])
    assert (
        caught.value.what
        == "One problem in the config:\n  · sampling.prompt.1: input should be a valid string, not 3"
    )


@pytest.mark.parametrize(
    ("tree", "split"),
    [
        ({}, "contiguous"),
        ({"corpus": {"kind": "pairs", "paths": ["a.tsv"]}}, "sources"),
        ({"corpus": "bilingual"}, "documents"),
        ({"corpus": "pairs", "split": "documents"}, "documents"),
    ],
)
def test_a_split_that_is_left_open_is_that_of_the_corpus(tree: dict[str, object], split: str) -> None:
    found = check(tree)
    assert found.split == split
    assert check(yaml.safe_load(to_yaml(found))) == found, "and it is written down"


def test_a_split_that_is_left_open_is_no_second_mistake() -> None:
    with pytest.raises(ConfigError) as error:
        check({"corpus": {"kind": "none-such"}})
    assert len(error.value.problems) == 1


def test_only_pairs_are_split_by_sources() -> None:
    with pytest.raises(ConfigError, match="split=sources is for pairs") as error:
        check({"split": "sources"})
    assert "take split=documents" in str(error.value)


def overridden(tree: dict[str, object], *overrides: str) -> dict[str, object]:
    for override in overrides:
        apply_override(tree, override)
    return tree


@pytest.mark.parametrize(
    ("override", "key", "value"),
    [
        ("training.steps=500", "training.steps", 500),
        (" training.steps = 500", "training.steps", 500),
        ("training.optimizer.learning_rate=1e-3", "training.optimizer.learning_rate", 1e-3),
        ("training.optimizer.learning_rate=.5", "training.optimizer.learning_rate", 0.5),
        ("training.optimizer.betas=[0.8, 1e-1]", "training.optimizer.betas", [0.8, 0.1]),
        ("training.clip=~", "training.clip", None),
        ("training.clip=", "training.clip", None),
        ("training.clip=null", "training.clip", None),
        ("model.tied=true", "model.tied", True),
        ("model.residual=off", "model.residual", False),
        ("model.norm=rms", "model.norm.kind", "rms"),
        ("model.norm=none", "model.norm.kind", "none"),
        ("model.feed_forward=~", "model.feed_forward.kind", "none"),
        ("model.norm={kind: rms, eps: 1e-4}", "model.norm.eps", 1e-4),
        ("model.norm.eps=1e-4", "model.norm.eps", 1e-4),
        ("model.dropout=0.3", "model.dropout.projection", 0.3),
        ("model.dropout=0.3", "model.dropout.embedding", 0.0),
        ("model.dropout={embedding: 0.1}", "model.dropout.embedding", 0.1),
        ("sampling.prompt=ROMEO", "sampling.prompt", "ROMEO"),
        ("sampling.prompt=ROMEO:", "sampling.prompt", "ROMEO:"),
        ("sampling.prompt=ROMEO: a=b", "sampling.prompt", "ROMEO: a=b"),
        ('sampling.prompt="\\n"', "sampling.prompt", "\n"),
        ("sampling.prompt='7'", "sampling.prompt", "7"),
    ],
)
def test_an_override(override: str, key: str, value: object) -> None:
    assert flatten(load_recipe({}, [override]))[key] == value


def test_an_override_beats_the_file_and_the_last_one_wins() -> None:
    recipe = load_recipe({"training": {"steps": 1, "batch": 3}}, ["training.steps=2", "training.steps=3"])
    assert (recipe.training.steps, recipe.training.batch) == (3, 3)


@pytest.mark.parametrize(
    "kind", ["tokenizer.kind=bpe", "tokenizer=bpe", "tokenizer={kind: bpe, min_frequency: 3}"]
)
def test_in_any_order_no_override_takes_another_away(kind: str) -> None:
    one, two = (
        load_recipe({}, words).tokenizer
        for words in ([kind, "tokenizer.size=300"], ["tokenizer.size=300", kind])
    )
    assert one == two and (one.kind, one.size) == ("bpe", 300)
    tree: dict[str, object] = {"tokenizer": {"kind": "char"}}
    apply_values(tree, {"tokenizer.size": 300, "tokenizer.kind": "bpe"})
    assert tree == {"tokenizer": {"kind": "bpe", "size": 300}}


def test_what_settings_were_taken_from_is_left_as_it_is() -> None:
    """A recipe that shares its parts with another, and settings that several recipes get."""
    shared: dict[str, Any] = {"training": {"optimizer": {"kind": "adamw", "betas": [0.9, 0.95]}}}
    tree = dict(shared)
    apply_override(tree, "training.optimizer.betas.0=0.8")
    assert tree == {"training": {"optimizer": {"kind": "adamw", "betas": [0.8, 0.95]}}}
    assert shared == {"training": {"optimizer": {"kind": "adamw", "betas": [0.9, 0.95]}}}
    settings: dict[str, Any] = {"training.optimizer": {"kind": "adamw", "betas": [0.9, 0.95]}}
    apply_values(tree, settings)
    tree["training"]["optimizer"]["betas"][0] = 0.7
    assert settings["training.optimizer"]["betas"] == [0.9, 0.95]


@pytest.mark.parametrize(
    "words",
    [
        *("Chapter #1 begins", "#1", "12:30", "'Tis", "no", "& x", "> y", "A: b\n\nC:", "it's 'x'"),
        *('"Hi" she said', "[Chorus] hello", "{x} y"),
    ],
)
def test_plain_words_stay_as_they_are_typed(words: str) -> None:
    assert load_recipe({}, [f"sampling.prompt={words}"]).sampling.prompt == words


def test_an_option_of_a_part_in_short_form() -> None:
    tree = overridden({"model": {"norm": "rms"}}, "model.norm.eps=1e-3")
    assert tree == {"model": {"norm": {"kind": "rms", "eps": "1e-3"}}}
    assert load_recipe(tree).model.norm.eps == 1e-3


def test_another_kind_drops_the_options_of_the_old_one() -> None:
    recipe = {"training": {"optimizer": {"kind": "adamw", "betas": [0.9, 0.95], "learning_rate": 1e-5}}}
    for override in ("training.optimizer.kind=sgd", "training.optimizer=sgd"):
        optimizer = load_recipe(recipe, [override]).training.optimizer
        assert (optimizer.kind, optimizer.learning_rate) == ("sgd", 0.1)


@pytest.mark.parametrize("named", [{"kind": "adamw"}, {}], ids=["named", "default"])
def test_the_same_kind_keeps_them(named: dict[str, str]) -> None:
    """The options of a default kind that the recipe did not name were once dropped."""
    recipe = {"training": {"optimizer": {**named, "learning_rate": 1e-5}}}
    assert load_recipe(recipe, ["training.optimizer.kind=adamw"]).training.optimizer.learning_rate == 1e-5


@pytest.mark.parametrize("key", ["learning_rate=0.5", "eps=1e-6"])
def test_one_option_leaves_the_others_at_their_defaults(key: str) -> None:
    """Muon's AdamW for the rest once got AdamW's own weight decay as soon as its rate was given."""
    defaults = flatten(load_recipe({"training": {"optimizer": "muon"}}))
    changed = flatten(load_recipe({"training": {"optimizer": "muon"}}, [f"training.optimizer.rest.{key}"]))
    differing = [name for name in defaults if defaults[name] != changed[name]]
    assert differing == [f"training.optimizer.rest.{key.partition('=')[0]}"]


@pytest.mark.parametrize("kind", [np.asarray, torch.tensor, np.array], ids=["array", "tensor", "number"])
def test_numbers_of_numpy_and_torch_are_numbers(kind: Any) -> None:
    given = {
        "training.steps": np.int64(3) if kind is np.array else kind(3),
        "training.optimizer": {"learning_rate": np.float32(0.5), "betas": kind([0.5, 0.75])},
        "model.tied": np.bool_(True),
        "validation": np.float64(0.25),
        "corpus.paths": [Path("/x/y")],
    }
    recipe = load_recipe({}, override_words(given))
    assert (recipe.training.steps, recipe.validation, recipe.model.tied) == (3, 0.25, True)
    assert recipe.training.optimizer.learning_rate == 0.5
    assert recipe.training.optimizer.betas == (0.5, 0.75) and recipe.corpus.paths == ("/x/y",)
    tree: dict[str, Any] = {}
    apply_values(tree, given)
    assert tree["training"]["steps"] == 3 and type(tree["training"]["steps"]) is int


def test_a_value_that_no_setting_can_have_is_named() -> None:
    with pytest.raises(
        ConfigError, match=r"The value of 'training.steps' is <object .*; it must be a number"
    ):
        override_words({"training.steps": object()})


@pytest.mark.parametrize("override", ["training.steps", "=5", "training..steps=5", ".seed=1", ""])
def test_what_is_no_override(override: str) -> None:
    assert "is not an override" in complaint({}, override)


@pytest.mark.parametrize("override", ["seed=[1", "seed=%", "seed={a: 1, a: 2}"])
def test_an_override_that_is_no_yaml(override: str) -> None:
    assert "seed" in complaint({}, override) or "twice" in complaint({}, override)


def test_an_override_below_a_value() -> None:
    assert "model.layers: input should be a valid integer" in complaint(
        {"model": {"layers": 2}}, "model.layers.x=3"
    )


def test_a_whole_part_beside_its_kind_is_an_error_in_either_order() -> None:
    whole, kind = "tokenizer={size: 300}", "tokenizer.kind=bpe"
    assert "tokenizer.size is not an option" in complaint({}, whole, kind)
    assert complaint({}, whole, kind) == complaint({}, kind, whole)


def test_a_number_beyond_all_is_refused_as_one() -> None:
    assert "2^53" in complaint({}, "training.threads=99999999999999999999")
