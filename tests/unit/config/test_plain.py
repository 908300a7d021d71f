"""YAML becomes plain data or a sentence, whatever stands in it; and every number of a config has bounds."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import BaseModel, TypeAdapter

from octavo.config import (
    Recipe,
    apply_override,
    check,
    load_recipe,
    parse_yaml,
    plain,
    recipe_names,
    recipe_text,
    stored_recipe,
    to_yaml,
)
from octavo.config.parts import ROOMS, PartOf, parts
from octavo.errors import ConfigError
from octavo.studies.spec import study_names, study_text


@pytest.mark.parametrize("text", ["2026-13-45", "2026-11-22", "2026-11-22 10:00:00", "0b_", "0x_", "1:2:x"])
def test_what_looks_like_a_date_is_text(text: str) -> None:
    tree: dict[str, Any] = {}
    try:
        apply_override(tree, f"description={text}")
    except ConfigError as error:
        assert "not valid YAML" in error.what
    else:
        assert tree == {"description": text}


@pytest.mark.parametrize(
    ("text", "data"),
    [
        ("010", "010"),  # not 8
        ("1:30", "1:30"),  # not 90
        ("1:30.5", "1:30.5"),
        ("no", "no"),  # a language
        ("on", "on"),
        ("true", True),
        ("False", False),
        ("-7", -7),
        ("1_000", 1000),
        ("0x1f", 31),
        ("1.5e+3", 1500.0),
        ("1.5e3", "1.5e3"),  # PyYAML writes this text without quotation marks
        ("2.0E3", "2.0E3"),
        ("-.5", "-.5"),
        (".5", 0.5),
        ("~", None),
    ],
)
def test_plain_words_are_numbers_and_truths_only_where_they_look_it(text: str, data: object) -> None:
    found = parse_yaml(text, "x")
    assert found == data and type(found) is type(data)
    assert yaml.safe_load(to_yaml({"key": data})) == parse_yaml(to_yaml({"key": data}), "x") == {"key": data}


def test_switches_may_be_words_and_numbers_no_switches() -> None:
    recipe = load_recipe("quick", ["seed=010", "training.compile=no", "sampling.prompt=yes"])
    assert (recipe.seed, recipe.training.compile, recipe.sampling.prompt) == (10, False, "yes")
    for override in ("training.steps=true", "model.counts={kind: kneser-ney, recent: true}"):
        with pytest.raises(ConfigError) as caught:
            load_recipe("quick", [override])
        assert caught.value.problems[0].endswith(": true and false are no numbers")


@pytest.mark.parametrize(
    "text",
    [
        "a: !!timestamp 2026-13-45",
        "a: !!timestamp 2026-11-22",
        "a: !!int x",
        "a: !!int ''",
        "a: !!float x",
        "a: !!bool maybe",
        "a: !!binary '='",
        "a: !!binary aGk=",
        "a: !!set {b, c}",
        "a: !!python/object/apply:os.system [ls]",
        'a: "\\ud800"',
        "a: \ud800",
        "a: \x00",
        "[" * 3000 + "]" * 3000,
        "{a: " * 3000 + "1" + "}" * 3000,
        "".join(f"{' ' * depth}a:\n" for depth in range(3000)),
        "a: &a [*a]",
        "a: " + "9" * 5000,
        "a: 99999999999999999999",
        "x0: &x0 [1, 1]\n" + "".join(f"x{n}: &x{n} [*x{n - 1}, *x{n - 1}]\n" for n in range(1, 40)),
        "? [a]\n: 1",
        "? {a: 1}\n: 1",
    ],
)
def test_yaml_that_is_no_plain_data_is_a_sentence(text: str) -> None:
    with pytest.raises(ConfigError, match="a recipe"):
        parse_yaml(text, "a recipe")


@pytest.mark.parametrize("name", [*recipe_names(), *study_names()])
def test_the_fast_parser_reads_shipped_files_as_the_other_one_does(name: str) -> None:
    text = recipe_text(name) if name in recipe_names() else study_text(name)
    slow, fast = (yaml.load(text, one) for one in (plain._Loader, plain._FastLoader))
    assert slow == fast and to_yaml(slow) == to_yaml(fast)


@pytest.mark.parametrize(
    "text", ["a: [", "a: 1\n  b: 2", "a: 'x", "\ta: 1", "a: @b", "a: 1\na: 2", "%", "a: *b"]
)
def test_what_is_no_yaml_is_said_with_its_place(text: str) -> None:
    with pytest.raises((yaml.YAMLError, ConfigError)) as slow:
        yaml.load(text, plain._Loader)
    with pytest.raises(ConfigError, match="line") as found:
        parse_yaml(text, "x")
    assert str(slow.value) in str(found.value)


@pytest.mark.parametrize("levels", [100, 100_000])
@pytest.mark.parametrize("begin", ["[", "- ", "? ", "{a: ", "- ? "])
def test_no_depth_ends_the_process(begin: str, levels: int) -> None:
    with pytest.raises(ConfigError, match=r"nested too deeply|not valid"):
        parse_yaml(begin * levels + "1", "x")


def test_data_from_python_is_checked_in_the_same_way() -> None:
    deep: Any = {}
    for _ in range(5000):
        deep = {"model": deep}
    for tree in (deep, {"description": "\udcff"}, {"seed": 10**400}, {"model": {1, 2}}, {"seed": b"5"}):
        with pytest.raises(ConfigError):
            load_recipe(tree)


@pytest.mark.parametrize("name", ["x" * 300, "a/" * 3000, "a\0b"])
def test_names_that_can_be_no_file_are_no_recipe(name: str) -> None:
    with pytest.raises(ConfigError, match="There is no recipe"):
        load_recipe(name)


@pytest.mark.parametrize(
    "content", [b"\xff\xfe", b"- a\n", b"", b"model: [", b"seed: nan\n", b"model: {layers: 0}\n"]
)
def test_a_damaged_config_is_said_with_its_path(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_bytes(content)
    with pytest.raises(ConfigError, match=r"config\.yaml"):
        stored_recipe(tmp_path / "config.yaml")
    with pytest.raises(ConfigError, match=r"config\.yaml"):
        stored_recipe(tmp_path / "nothing" / "config.yaml")


@pytest.mark.parametrize(
    "override",
    [
        "training.threads=100000",
        "training.threads=5000000000",
        "training.batch=99999999999",
        "model.layers=100000000",
        "model.context=1000000000000",
        "tokenizer={kind: bpe, size: 1000000000000}",
        "tokenizer={kind: word, size: 1000000000000}",
        "training.optimizer.betas=[0.9, 1]",
        "training.optimizer.betas=[-0.1, 0.9]",
        "training.optimizer.betas=[.nan, 0.9]",
        "training.optimizer={kind: muon, rest: {betas: [1.5, 0.9]}}",
        "training.optimizer.learning_rate=.inf",
        "training.optimizer.learning_rate=1.0e+61",
        "training.optimizer.eps=.nan",
        "training.optimizer.weight_decay=-1",
        "training.schedule.warmup=-1",
        "training.schedule.floor=2",
        "training.clip=.inf",
        "model.dropout=.nan",
        "model.attention_scale=.inf",
        "sampling.temperature=.nan",
        "evaluation.every=0",
    ],
)
def test_numbers_out_of_bounds_are_refused(override: str) -> None:
    tree: dict[str, Any] = {}
    with pytest.raises(ConfigError):
        apply_override(tree, override)
        check(tree)


def number_fields(
    config: type[BaseModel], seen: set[type[BaseModel]]
) -> Iterator[tuple[str, dict[str, Any]]]:
    """The JSON schema of each field of a config class and of those inside it, by name."""
    seen.add(config)
    for name, field in config.model_fields.items():
        inner = field.annotation
        if isinstance(inner, type) and issubclass(inner, BaseModel) and PartOf.of(field) is None:
            if inner not in seen:
                yield from number_fields(inner, seen)
        elif PartOf.of(field) is None:
            schema = config.model_json_schema()
            own = (
                schema if "properties" in schema else schema["$defs"][config.__name__]
            )  # it holds parts like itself
            yield f"{config.__name__}.{name}", own["properties"][name]


def unbounded(schema: Any) -> Iterator[str]:
    """Types of numbers in a schema that lack a bound."""
    if isinstance(schema, dict):
        low, high = {"minimum", "exclusiveMinimum"}, {"maximum", "exclusiveMaximum"}
        if schema.get("type") in ("integer", "number") and not (low & schema.keys() and high & schema.keys()):
            yield schema["type"]
        for child in schema.values():
            yield from unbounded(child)
    elif isinstance(schema, list):
        for child in schema:
            yield from unbounded(child)


def test_every_number_of_a_recipe_has_both_bounds() -> None:
    seen: set[type[BaseModel]] = set()
    fields = dict(number_fields(Recipe, seen))
    for room in ROOMS:
        if room != "writer":
            for part in parts(room).values():
                fields |= dict(number_fields(part, seen))
    assert len(fields) > 100
    assert not {name: found for name, schema in fields.items() if (found := list(unbounded(schema)))}


def test_no_config_takes_what_is_no_number() -> None:
    adapter = TypeAdapter(Recipe)
    for value in (float("nan"), float("inf")):
        for tree in ({"validation": value}, {"training": {"epochs": value}}, {"model": {"dropout": value}}):
            with pytest.raises(ValueError, match=r"."):
                adapter.validate_python(tree)
