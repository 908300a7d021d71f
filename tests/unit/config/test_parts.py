"""Parts: registered by room and kind, taken by the config as a tagged union, described in the schema. Parts in a file
of the user's own: loaded when named, by what was hashed, whole or not at all."""

from __future__ import annotations

import hashlib
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
from octavo.config import PartOf, Recipe, Strict, check
from octavo.config import parts as own_parts
from octavo.config.docs import sentences
from octavo.config.parts import (
    ROOMS,
    PartConfig,
    changed_parts,
    how_to_load,
    kinds,
    load_parts,
    load_told_parts,
    part,
    parts,
    register,
    registered,
    restore,
)
from octavo.errors import ConfigError
from octavo.util.processes import TOLD, plain_environment

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


PART = """
from typing import Literal
from octavo.config import register
from octavo.model.norms import LayerNormConfig

@register("norm")
class OwnConfig(LayerNormConfig):
    kind: Literal["own"] = "own"
    times: int = {times}
"""


UNAWARE = """
from typing import Literal
from octavo.config.parts import PartConfig, register

@register("norm")
class OwnConfig(PartConfig):
    kind: Literal["rms"] = "rms"
"""


@pytest.fixture(autouse=True)
def as_before(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    check({})
    before = registered()
    monkeypatch.setattr(own_parts, "_loaded", {})
    monkeypatch.setitem(TOLD, own_parts.VARIABLE, "[]")
    yield
    restore(before)
    assert registered() == before


def write(path: Path, times: int = 1) -> Path:
    path.write_text(PART.format(times=times), encoding="utf-8")
    return path


def test_a_part_is_known_also_after_configs_were_checked(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="there is no norm 'own'"):
        check({"model": {"norm": "own"}})
    path = write(tmp_path / "mine.py")
    loaded = load_parts(path)
    assert loaded.parts == ("norm.own",) and loaded.path == str(path)
    assert loaded.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
    assert check({"model": {"norm": {"kind": "own", "times": 7}}}).model.norm.times == 7
    assert check({"model": {"norm": "rms"}}).model.norm.kind == "rms"
    assert not list(tmp_path.glob("__pycache__"))


def test_a_registered_class_is_known_also_after_configs_were_checked() -> None:
    """As in a notebook."""

    class Later(PartConfig):
        """Later."""

        kind: Literal["later"] = "later"

    register("schedule")(Later)
    assert check({"training": {"schedule": "later"}}).training.schedule == Later()


def test_an_edited_file_takes_the_place_of_the_old(tmp_path: Path) -> None:
    path = write(tmp_path / "mine.py", times=1)
    first = load_parts(path)
    assert load_parts(str(path)) is first
    assert changed_parts([{"path": str(path), "sha256": first.sha256}]) == []
    write(path, times=2)
    second = load_parts(path)
    assert second.sha256 != first.sha256 and check({"model": {"norm": "own"}}).model.norm.times == 2
    assert changed_parts([{"path": str(path), "sha256": first.sha256}]) == [str(path)]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("def f(:", "line 1: SyntaxError"),
        ("x = 1\n1 / 0\n", "line 2: ZeroDivisionError: division by zero"),
        ("import a_module_that_is_none", "line 1: ModuleNotFoundError"),
        ("x = 1", "registers no part"),
        ("raise SystemExit(0)", "SystemExit"),
        ("\0", "cannot be loaded"),
        (PART.format(times=1).replace('"own"', '"rms"'), "line 6: There is a norm 'rms' already"),
        (UNAWARE, "There is a norm 'rms' already"),
        (PART.format(times=1) + "\n1 / 0\n", "ZeroDivisionError"),
        (PART.format(times=1).replace('"norm"', '"nothing"'), "line 6: There is no room 'nothing'"),
    ],
)
def test_what_cannot_be_loaded_leaves_nothing(tmp_path: Path, content: str, words: str) -> None:
    path = tmp_path / "mine.py"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(ConfigError, match=words):
        load_parts(path)
    assert "own" not in parts("norm") and own_parts.loaded_parts() == []
    with pytest.raises(ConfigError, match="there is no norm 'own'"):
        check({"model": {"norm": "own"}})


def test_the_name_of_a_part_that_is_not_imported_yet_is_taken(tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    path.write_text(UNAWARE, encoding="utf-8")
    code = "import sys; from octavo.config.parts import load_parts; load_parts(sys.argv[1])"
    command = [sys.executable, "-c", code, path]
    done = subprocess.run(command, env=plain_environment(), capture_output=True, text=True, check=False)
    assert done.returncode and "There is a norm 'rms' already (octavo.model.norms)" in done.stderr


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        load_parts(tmp_path / "none.py")


def test_a_file_that_breaks_while_it_is_edited_keeps_the_old_parts(tmp_path: Path) -> None:
    path = write(tmp_path / "mine.py", times=3)
    load_parts(path)
    path.write_text("1 / 0", encoding="utf-8")
    with pytest.raises(ConfigError):
        load_parts(path)
    assert check({"model": {"norm": "own"}}).model.norm.times == 3


def test_children_load_what_their_parent_has_loaded_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(own_parts.VARIABLE, json.dumps([{"path": "somebody-elses.py", "sha256": ""}]))
    assert plain_environment()[own_parts.VARIABLE] == "[]"
    path = write(tmp_path / "mine.py")
    load_parts(path)
    monkeypatch.setenv(own_parts.VARIABLE, plain_environment()[own_parts.VARIABLE])
    monkeypatch.setattr(own_parts, "_loaded", {})
    load_told_parts()
    assert [each.path for each in own_parts.loaded_parts()] == [str(path)]
    monkeypatch.setattr(own_parts, "_loaded", {})
    write(path, times=5)
    with pytest.raises(ConfigError, match="has changed since it was loaded"):
        load_told_parts()


def test_children_find_the_neighbours_that_their_parent_found(tmp_path: Path) -> None:
    """Python looks into the folder that it is called in for the parent, and not for a child."""
    (tmp_path / "own_helper_of_parts.py").write_text("TIMES = 1\n")
    content = "from own_helper_of_parts import TIMES\n" + PART.format(times=1)
    (tmp_path / "mine.py").write_text(content, encoding="utf-8")
    code = (
        "from octavo.config.parts import load_parts\nfrom octavo.util.processes import TOLD\n"
        "load_parts('mine.py')\nprint(TOLD['OCTAVO_PARTS'])"
    )
    parent = [sys.executable, "-c", code]
    found = subprocess.run(
        parent, cwd=tmp_path, env=plain_environment(), capture_output=True, text=True, check=True
    )
    assert json.loads(found.stdout)[0]["neighbours"]
    child = [sys.executable, "-P", "-c", "from octavo.config.parts import load_told_parts as f; f()"]
    subprocess.run(child, cwd=tmp_path, env=plain_environment(OCTAVO_PARTS=found.stdout), check=True)
    assert not load_parts(write(tmp_path / "alone.py")).neighbours


def test_a_run_says_which_files_it_needs(tmp_path: Path) -> None:
    path = write(tmp_path / "mine.py")
    told = [{"path": str(path), "sha256": hashlib.sha256(path.read_bytes()).hexdigest(), "parts": []}]
    assert f"--parts {path}" in str(how_to_load(told))
    load_parts(path)
    assert how_to_load(told) is None
    assert how_to_load(["junk", {}, {"path": 3}]) is None
