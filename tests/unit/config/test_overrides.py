"""Settings on top of a recipe: what a word means, in what order words count, and what is no override."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from octavo.config import apply_override, apply_values, flatten, load_recipe, override_words
from octavo.errors import ConfigError


def complaint(tree: dict[str, object], *overrides: str) -> str:
    with pytest.raises(ConfigError) as caught:
        load_recipe(tree, overrides)
    return str(caught.value)


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
