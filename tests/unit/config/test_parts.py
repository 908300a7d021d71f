"""Parts: registered by room and kind, taken by the config as a tagged union, described in the schema."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field, ValidationError

import octavo
from octavo.config import PartConfig, PartOf, Recipe, Strict
from octavo.config.docs import sentences
from octavo.config.parts import ROOMS, kinds, part, parts, register, registered
from octavo.errors import ConfigError

SCHEMA = Recipe.model_json_schema()


@pytest.mark.parametrize("room", ROOMS)
def test_every_room_has_parts_under_their_own_names(room: str) -> None:
    found = parts(room)
    assert found and list(found) == sorted(found)
    for kind, config in found.items():
        assert config.model_fields["kind"].default == kind
        assert issubclass(config, PartConfig)


def test_the_table_names_every_part_of_octavo_and_its_module() -> None:
    package = Path(octavo.__file__).parent
    registering = {
        ".".join(path.relative_to(package.parent).with_suffix("").parts)
        for path in package.rglob("*.py")
        if re.search(r"^@register\(", path.read_text(encoding="utf-8"), re.M)
    }
    assert registering == {module for modules in ROOMS.values() for module in modules.values()}
    for room, table in ROOMS.items():
        modules = {kind: config.__module__ for kind, config in parts(room).items()}
        assert modules.items() >= table.items()
        assert {kind: part(room, kind) for kind in kinds(room)} == parts(room)
    others = {
        name: config for name, config in registered().items() if config.__module__.startswith("octavo.")
    }
    assert others == {}


def test_a_recipe_imports_the_parts_that_it_names_and_no_others() -> None:
    code = (
        "import sys; from octavo.config import Recipe, check; from octavo.config.parts import ROOMS\n"
        "recipe = check({'model': {'norm': 'rms'}, 'tokenizer': 'byte'})\n"
        "named = {module for modules in ROOMS.values() for module in modules.values()} & set(sys.modules)\n"
        "print(*sorted(named))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    found = done.stdout.split()
    assert "octavo.tokenizers.config" in found and "octavo.model.norms" in found
    assert not [name for name in found if re.match(r"octavo\.(synthetic|tuning|llm_corpus|tasks)\.", name)]
    assert "octavo.tokenizers.gpt2" not in found


class Holder(Strict):
    norm: Annotated[PartConfig, PartOf("norm", "layer")] = Field({"kind": "layer"}, validate_default=True)
    positions: Annotated[PartConfig, PartOf("positions")]


@pytest.mark.parametrize(
    ("given", "kind"),
    [
        ("rms", "rms"),
        ({"kind": "rms"}, "rms"),
        ({"eps": 1e-3}, "layer"),
        ({}, "layer"),
        (None, "none"),
        ("none", "none"),
    ],
    ids=str,
)
def test_short_and_long_forms(given: object, kind: str) -> None:
    holder = Holder.model_validate({"norm": given, "positions": "rotary"})
    assert holder.norm.kind == kind
    assert type(holder.norm) is parts("norm")[kind]


def test_a_part_that_is_made_already_is_taken() -> None:
    norm = parts("norm")["rms"](eps=0.5)
    assert Holder(norm=norm, positions="none").norm == norm


@pytest.mark.parametrize(
    "given", [{"positions": {}}, {}, {"positions": "learnt"}, {"positions": {"kind": "none", "base": 3.0}}]
)
def test_what_is_no_part(given: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        Holder.model_validate(given)


def test_a_part_is_written_with_all_its_options() -> None:
    holder = Holder(norm="rms", positions={"kind": "sinusoidal", "base": 500})
    assert holder.model_dump(mode="json") == {
        "norm": {"kind": "rms", "eps": 1e-5, "scale": True},
        "positions": {"kind": "sinusoidal", "base": 500.0},
    }


def test_two_parts_cannot_have_one_name() -> None:
    class OtherConfig(PartConfig):
        """Another."""

        kind: Literal["rms"] = "rms"

    with pytest.raises(ConfigError, match="There is a norm 'rms' already"):
        register("norm")(OtherConfig)
    assert parts("norm")["rms"] is not OtherConfig


def test_configs_are_read_without_torch() -> None:
    code = "import sys, octavo.config; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


# The schema for editors


def test_the_schema_is_json_and_refers_only_to_what_it_holds() -> None:
    text = json.dumps(SCHEMA)
    assert SCHEMA["type"] == "object" and SCHEMA["additionalProperties"] is False
    references = {piece.split('"')[0] for piece in text.split('"#/$defs/')[1:]}
    assert references == set(SCHEMA["$defs"])


def test_the_schema_is_valid() -> None:
    jsonschema = pytest.importorskip("jsonschema")
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    jsonschema.validate({"model": {"norm": "rms"}, "training": {"optimizer": {"kind": "muon"}}}, SCHEMA)


def test_the_schema_knows_both_forms_of_every_part() -> None:
    for owner, name in [
        ("GPTConfig", "norm"),
        ("GPTConfig", "positions"),
        ("TrainingConfig", "optimizer"),
    ]:
        field = SCHEMA["$defs"][owner]["properties"][name]
        long, short = field["anyOf"]
        room = name
        assert sorted(short["enum"]) == list(parts(room))
        assert sorted(long["discriminator"]["mapping"]) == list(parts(room))
        assert len(long["oneOf"]) == len(parts(room))


def configs(config: type[BaseModel], seen: set[type[BaseModel]]) -> Iterator[type[BaseModel]]:
    """A config class and all that stand below it, of every part."""
    if config in seen:
        return
    seen.add(config)
    yield config
    for field in config.model_fields.values():
        part = PartOf.of(field)
        inner: list[Any] = list(parts(part.room).values()) if part else [field.annotation]
        for each in inner:
            if isinstance(each, type) and issubclass(each, BaseModel):
                yield from configs(each, seen)


ALL = sorted(configs(Recipe, set()), key=lambda config: config.__name__)


@pytest.mark.parametrize("config", ALL, ids=lambda config: config.__name__)
def test_every_option_says_what_it_does(config: type[BaseModel]) -> None:
    assert config.__doc__ and config.__doc__ != BaseModel.__doc__
    said = sentences(config)
    for name, field in config.model_fields.items():
        section = isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel)
        described = name in said or (section and field.annotation.__doc__)
        assert name == "kind" or described, f"{config.__name__}.{name}"


@pytest.mark.parametrize("config", ALL, ids=lambda config: config.__name__)
def test_every_config_is_strict(config: type[BaseModel]) -> None:
    assert issubclass(config, Strict)
    assert config.model_config["extra"] == "forbid" and config.model_config["frozen"]
