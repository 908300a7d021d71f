"""What a run writes of its recipe is read again as the same: every part, every option, every documented form."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

import octavo
from guards.common import PACKAGE, ROOT
from guards.snippets import SHELLS, blocks, commands
from octavo.config import (
    Recipe,
    SamplingConfig,
    Strict,
    load_recipe,
    parse_yaml,
    recipe_names,
    stored_recipe,
    to_yaml,
)
from octavo.config.parts import ROOMS, parts
from octavo.config.schema import EvaluationConfig, LoggingConfig, TeachersConfig, TrainingConfig
from octavo.errors import ConfigError

CONFIGS: dict[str, type[Strict]] = {
    f"{room}.{kind}": config for room in ROOMS for kind, config in parts(room).items()
} | {
    "recipe": Recipe,
    "training": TrainingConfig,
    "teachers": TeachersConfig,
    "evaluation": EvaluationConfig,
    "sampling": SamplingConfig,
    "logging": LoggingConfig,
}

NEEDED: dict[str, dict[str, Any]] = {
    "source.comparisons": {"run": "/runs/x"},
    "cleaning.closed_vocabulary": {"words": ["a"]},
    "writer.endpoint": {"base_url": "http://localhost:11434/v1", "model": "x"},
    "writer.model": {"run": "/runs/x"},
    "tokenizer.huggingface": {"file": "/x/tokenizer.json"},
    "reward.model": {"run": "/runs/x"},
    "reward.product": {"of": [{"reward": "pidgin"}, {"reward": "question"}]},
    "reward.sum": {"of": [{"reward": "pidgin"}]},
    "reward.words": {"must": ["a"]},
}
"""Options that must be given."""

VALUES: dict[str, list[Any]] = {
    "source.sums.below": [50],
    "cleaning.closed_vocabulary.unknown": ["repair"],
    "writer.endpoint.base_url": ["https://example.org/v1"],
    "model.gpt.input": ["linear"],
    "model.gpt.output": ["gaussian"],
    "objective.policy-gradient.clip": [0.1],
    "objective.forecast.main_horizon": [8],
    "recipe.model": [{"layers": 2}],
    "recipe.training": [{"steps": 3}],
    "recipe.evaluation": [{"batch": 3}],
    "recipe.sampling": [{"tokens": 3}],
    "recipe.logging": [{"every": 3}],
    "recipe.report": [{"explainer": False}],
    "training.adapters": [{"rank": 2}],
    "training.teachers": [{"trained": 1}],
    "writer.endpoint.extra": [{"top_p": 0.5}],
    "writer.endpoint.key_env": ["MY_KEY"],
    "writer.endpoint.prices": [{"input": 1.0, "output": 2.5}],
    "model.encoder-decoder.dropout": [{"attention": 0.1}],
    "model.gpt.dropout": [{"attention": 0.1}],
    "reward.product.of": [[{"reward": "pidgin"}, {"reward": "wishes"}]],
    "reward.sum.of": [[{"reward": "pidgin", "weight": 0.5}]],
    "optimizer.muon.rest": [{"learning_rate": 0.5}],
}
"""Values of options for which the schema alone suggests none that is allowed."""

WITH: dict[str, dict[str, Any]] = {
    "model.encoder-decoder.qk_norm_scale": {"qk_norm": True},
    "model.gpt.qk_norm_scale": {"qk_norm": True},
    "model.gpt.input": {"output": "gaussian"},
    "model.gpt.output": {"input": "linear"},
    "objective.policy-gradient.clip": {"updates": 2},
    "teachers.written": {"runs": ["/runs/x"]},
    "training.adapters": {"start_from": "/runs/x"},
    "writer.endpoint.key_env": {"clear_text": True},
}
"""Options that are there only beside another."""

ONE_VALUE = {
    "objective.penalized.rule",
    *(f"model.encoder-decoder.{option}" for option in ("input", "output", "counts")),
}
"""Options that have one value so far."""


def written_and_read(part: Strict) -> Strict:
    return type(part).model_validate(parse_yaml(to_yaml(part), "What was written"))


def suggested(schema: Mapping[str, Any], defs: Mapping[str, Any]) -> Iterator[Any]:
    """Values that a JSON schema allows, and some that a validator may still refuse."""
    if "$ref" in schema:
        schema = defs[schema["$ref"].rpartition("/")[2]]
    for one in [*schema.get("anyOf", ()), *schema.get("oneOf", ())]:
        yield from suggested(one, defs)
    yield from [schema["const"]] if "const" in schema else schema.get("enum", ())
    least = schema.get("minimum", schema.get("exclusiveMinimum", 0))
    match schema.get("type"):
        case "boolean":
            yield from (True, False)
        case "integer":
            yield from (least + more for more in (1, 2, 8))
        case "number":
            yield from (least + more for more in (1e-7, 0.25, 0.5, 1.5))
        case "string":
            yield from ("name", "a.b", "/x/y", "010", "no", "1:30", "ü #1\n- a: b")
        case "null":
            yield None
        case "array" if "prefixItems" in schema:
            yield [next(suggested(item, defs)) for item in schema["prefixItems"]]
        case "array" if "items" in schema:
            yield from ([item] for item in suggested(schema["items"], defs))
        case "object":
            yield {}


@pytest.mark.parametrize("name", CONFIGS)
def test_every_option_is_read_as_it_is_written(name: str) -> None:
    config, needed = CONFIGS[name], NEEDED.get(name, {})
    base = config.model_validate(needed)
    assert written_and_read(base) == base
    schema = config.model_json_schema()
    defs = schema.get("$defs", {})
    schema = defs[schema["$ref"].rpartition("/")[2]] if "$ref" in schema else schema
    for option in [each for each in config.model_fields if each != "kind"]:
        place, tried = f"{name}.{option}", 0
        for value in VALUES.get(place) or suggested(schema["properties"][option], defs):
            given = {**needed, **WITH.get(place, {}), option: value}
            try:
                part = config.model_validate(given)
            except ValidationError:
                continue
            tried += getattr(part, option) != getattr(base, option)
            assert written_and_read(part) == part, f"{place}={value!r}"
        assert tried or place in ONE_VALUE, f"{place}: no other value than the default's was found"


def forms() -> list[str]:
    """Every `{kind: …}` of the documentation, the recipes and what the sources say."""
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("**/*.md"))]
    pages += sorted(path for path in PACKAGE.rglob("*") if path.suffix in (".py", ".yaml"))
    found = (
        each[0]
        for page in pages
        for each in re.finditer(r"\{kind: [\w-]+(, [^{}]*(\{[^{}]*\}[^{}]*)*)?\}", page.read_text("utf-8"))
    )
    return sorted({re.sub(r"\s+#?\s*", " ", each) for each in found if "…" not in each})


FORMS = forms()
ELSEWHERE = {"parity", "late", "geglu"}
"""Parts that the documentation shows how to write."""


@pytest.mark.parametrize("form", FORMS)
def test_a_part_as_the_documentation_shows_it_is_read_as_it_is_written(form: str) -> None:
    given, taken = parse_yaml(form, "The form"), []
    for room in ROOMS:
        config = parts(room).get(given["kind"])
        if config is not None:
            try:
                taken.append(config.model_validate(given))
            except ValidationError:
                continue
    assert taken or given["kind"] in ELSEWHERE
    for part in taken:
        assert written_and_read(part) == part


def test_forms_are_found() -> None:
    assert len(FORMS) > 80 and "{kind: symbols, alphabet: ACGT}" in FORMS


def trainings() -> list[tuple[str, ...]]:
    """The recipe and the settings of every `octavo train` of the documentation that needs no file."""
    found = []
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").glob("**/*.md"))]:
        for block in blocks(page.read_text("utf-8")):
            for command in commands(block) if block.language in SHELLS else ():
                if command[:2] == ["octavo", "train"] and "--parts" not in command:
                    settings = [word for word in command if re.match(r"[a-z][\w.]*=", word)]
                    named = command[2] if len(command) > 2 and command[2] in recipe_names() else "minute"
                    found.append((named, *settings))
    return sorted({each for each in found if len(each) > 1})


@pytest.mark.parametrize("training", trainings(), ids=" ".join)
def test_a_training_as_the_documentation_shows_it_is_stored_as_it_is(
    training: tuple[str, ...], tmp_path: Path
) -> None:
    name, *settings = training
    try:
        recipe = load_recipe(name, settings)
    except ConfigError:  # of a recipe of the reader's own, or that needs a text
        recipe = load_recipe({}, settings)
    (tmp_path / "config.yaml").write_text(to_yaml(recipe), encoding="utf-8")
    assert stored_recipe(tmp_path / "config.yaml") == recipe


@pytest.mark.parametrize("name", recipe_names())
def test_a_shipped_recipe_is_stored_as_it_is(name: str, tmp_path: Path) -> None:
    recipe = load_recipe(name)
    (tmp_path / "config.yaml").write_text(to_yaml(recipe), encoding="utf-8")
    assert stored_recipe(tmp_path / "config.yaml") == recipe


@pytest.mark.parametrize(
    ("alphabet", "lines"),
    [
        ("ACGT", ["GATTACA", "TAG", "CAT", "ACT"]),
        (["e4", "e5", "Nf3"], ["e4 e5 Nf3", "e5 e4", "Nf3 Nf3", "e4 e4 e5", "Nf3", "e4 e5 e4", "e5"]),
        (None, ["1 2 3", "3 2 1", "7 7", "0 255", "4", "8 9", "5 6"]),
    ],
)
def test_a_run_of_symbols_opens(
    alphabet: Any, lines: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OCTAVO_CACHE", str(tmp_path / "cache"))
    (tmp_path / "lines.txt").write_text("".join(f"{line}\n" for line in lines))
    recipe = {
        "corpus": {"documents": "lines"},
        "split": "documents",
        "validation": 0.4,
        "tokenizer": {"kind": "symbols"} | ({} if alphabet is None else {"alphabet": alphabet}),
        "batches": {"kind": "documents", "alone": True},
        "model": {"layers": 1, "width": 8, "heads": 1, "context": 12},
        "training": {"steps": 2, "batch": 2, "precision": "float32", "device": "cpu", "threads": 1},
        "sampling": {"tokens": 3},
    }
    octavo.train(recipe, text=tmp_path / "lines.txt", out=tmp_path / "run", quiet=True)
    run = octavo.Run.open(tmp_path / "run")
    assert run.config.tokenizer.size == (256 if alphabet is None else len(alphabet))
    assert run.tokenizer.vocab_size == run.config.tokenizer.size + 1


def test_a_run_of_symbols_opens_that_an_earlier_version_wrote() -> None:
    """It wrote the usual size beside every alphabet."""
    symbols = parts("tokenizer")["symbols"]
    assert symbols(size=256, alphabet="ACGT") == symbols(alphabet="ACGT")
