"""From YAML and `key=value` to a checked `Recipe`: defaults < recipe file < overrides, all problems in one message."""

from __future__ import annotations

import difflib
from collections.abc import Hashable, Iterable, Iterator, Mapping
from importlib import resources
from pathlib import Path
from typing import Any, get_args

import yaml
from pydantic import BaseModel, ValidationError

from octavo.config.parts import PartOf, parts
from octavo.config.schema import Recipe
from octavo.errors import ConfigError


class _Loader(yaml.SafeLoader):
    """Safe YAML that refuses a key given twice, instead of silently taking the last."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[Any] = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if not isinstance(key, Hashable):
                continue  # refused below, with its line
            if key in seen:
                raise ConfigError(
                    f"The key '{key}' stands twice, again in line {key_node.start_mark.line + 1}."
                )
            seen.add(key)
        return super().construct_mapping(node, deep)


def parse_yaml(text: str, name: str) -> Any:
    """YAML as plain data; `name` says in errors where it came from."""
    try:
        return yaml.load(text, _Loader)  # noqa: S506 - a SafeLoader
    except yaml.YAMLError as error:
        raise ConfigError(f"{name} is not valid YAML: {error}") from error


def recipe_names() -> list[str]:
    """The shipped recipes, in alphabetical order."""
    entries = resources.files("octavo.recipes").iterdir()
    return sorted(entry.name[:-5] for entry in entries if entry.name.endswith(".yaml"))


def recipe_text(recipe: str | Path) -> str:
    """The YAML of a shipped recipe, or of a recipe file.

    Raises ConfigError when there is neither.
    """
    names = recipe_names()
    if str(recipe) in names:
        return resources.files("octavo.recipes").joinpath(f"{recipe}.yaml").read_text(encoding="utf-8")
    path = Path(recipe)
    if path.is_file():
        try:
            return path.read_text(encoding="utf-8")
        except UnicodeDecodeError as error:
            raise ConfigError(f"{path} is not a text file, so it cannot be a recipe.") from error
        except OSError as error:
            raise ConfigError(f"The recipe {path} cannot be read: {error.strerror}.") from error
    near = difflib.get_close_matches(str(recipe), names, n=1)
    raise ConfigError(
        f"There is no recipe '{recipe}': neither a shipped one nor a file."
        + (f" Did you mean '{near[0]}'?" if near else ""),
        remedy="octavo recipes    lists the shipped ones",
    )


def load_recipe(recipe: str | Path | Mapping[str, Any], overrides: Iterable[str] = ()) -> Recipe:
    """A checked recipe from a shipped name, a file or plain data, with `key=value` overrides on top.

    Raises ConfigError with every problem at once.
    """
    if isinstance(recipe, str | Path):
        tree = parse_yaml(recipe_text(recipe), f"Recipe '{recipe}'")
    else:
        tree = dict(recipe)
    if not isinstance(tree, dict):
        raise ConfigError(
            f"Recipe '{recipe}' holds no keys; a recipe is a mapping such as 'training: {{steps: 9}}'."
        )
    for override in overrides:
        apply_override(tree, override)
    return check(tree)


def apply_override(tree: dict[str, Any], override: str) -> None:
    """Set one `a.b.c=value` in plain data, in place. Naming another kind of a part drops the old kind's options."""
    key, equals, text = override.partition("=")
    path = key.strip().split(".")
    if not equals or not all(path):
        raise ConfigError(
            f"'{override}' is not an override; an override reads key=value.",
            remedy="for example training.steps=500",
        )
    value = parse_yaml(text, f"The value of '{key}'")
    if isinstance(value, dict) and not text.lstrip().startswith("{"):
        value = text  # a word with a colon, such as the prompt ROMEO:, is no mapping
    node = tree
    for name in path[:-1]:
        child = node.get(name)
        if isinstance(child, str):  # a part in short form
            child = {"kind": child}
        node[name] = dict(child) if isinstance(child, dict) else {}
        node = node[name]
    if path[-1] == "kind":
        part = _part_at(path[:-1])
        if part and node.get("kind", part.default) != value:
            node.clear()
    node[path[-1]] = value


def check(tree: Mapping[str, Any]) -> Recipe:
    """Validate plain data; raises ConfigError that lists every problem with its place."""
    try:
        return Recipe.model_validate(dict(tree))
    except ValidationError as error:
        problems = [_sentence(tree, dict(problem)) for problem in error.errors()]
        head = (
            "One problem in the config:" if len(problems) == 1 else f"{len(problems)} problems in the config:"
        )
        raise ConfigError("\n  · ".join([head, *problems])) from error


def to_yaml(recipe: BaseModel) -> str:
    """The resolved config as YAML, in the schema's order."""
    return yaml.safe_dump(recipe.model_dump(mode="json"), sort_keys=False, allow_unicode=True, width=100)


def flatten(recipe: BaseModel) -> dict[str, Any]:
    """The resolved config as `a.b.c` → value."""

    def walk(prefix: str, node: Any) -> Iterator[tuple[str, Any]]:
        if isinstance(node, dict) and node:
            for name, child in node.items():
                yield from walk(f"{prefix}.{name}" if prefix else name, child)
        else:
            yield prefix, node

    return dict(walk("", recipe.model_dump(mode="json")))


def all_keys() -> list[str]:
    """Every key that a recipe can hold, of all parts."""
    return sorted(set(_keys(Recipe, "")))


def _part_room(field: Any) -> PartOf | None:
    return next((item for item in field.metadata if isinstance(item, PartOf)), None)


def _keys(config: type[BaseModel], prefix: str) -> Iterator[str]:
    for name, field in config.model_fields.items():
        yield prefix + name
        room = _part_room(field)
        if room:
            for part in parts(room.room).values():
                yield from _keys(part, f"{prefix}{name}.")
        elif isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            yield from _keys(field.annotation, f"{prefix}{name}.")


def _place(location: tuple[Any, ...]) -> tuple[list[str], type[BaseModel] | None]:
    """The key path without pydantic's union tags, and the config class that holds its last key."""
    path: list[str] = []
    config: type[BaseModel] | None = Recipe
    steps = iter(location)
    for step in steps:
        if (
            config is None
        ):  # inside a value: the place in a list says something, pydantic's names for types do not
            path += [str(step)] if isinstance(step, int) else []
            continue
        path.append(str(step))
        field = config.model_fields.get(str(step))
        room = field and _part_room(field)
        if room:
            config = parts(room.room).get(str(next(steps, "")))
        else:
            inner = [field.annotation, *get_args(field.annotation)] if field else []
            config = next(
                (kind for kind in inner if isinstance(kind, type) and issubclass(kind, BaseModel)), None
            )
    return path, config


def _sentence(tree: Mapping[str, Any], problem: dict[str, Any]) -> str:
    location, kind, given = problem["loc"], problem["type"], problem.get("input")
    path, _ = _place(location)
    key = ".".join(path) or "the config"
    if kind == "extra_forbidden":
        _, holder = _place(location[:-1])
        siblings = list((holder or Recipe).model_fields)
        near = difflib.get_close_matches(path[-1], siblings, n=1)
        if near:
            return f"{key} is not an option; did you mean {'.'.join([*path[:-1], near[0]])}?"
        named = [full for full in all_keys() if full.rsplit(".", 1)[-1] == path[-1]]
        hint = f"did you mean {' or '.join(named)}?" if named else f"there are: {', '.join(siblings)}"
        return f"{key} is not an option; {hint}"
    if kind in ("union_tag_invalid", "union_tag_not_found", "model_attributes_type"):
        part = _part_at(path)
        names = list(parts(part.room)) if part else []
        wrong = given.get("kind") if isinstance(given, dict) else given
        near = difflib.get_close_matches(str(wrong), names, n=1)
        hint = f"did you mean {near[0]}? " if near else ""
        return f"{key}: there is no {path[-1]} '{wrong}'; {hint}(there are: {', '.join(names)})"
    message = problem["msg"].removeprefix("Value error, ")
    if kind == "value_error":
        return f"{key}: {message}" if path else message
    return f"{key}: {message[0].lower() + message[1:]}, not {given!r}"


def _part_at(path: list[str]) -> PartOf | None:
    """Which parts fit at a key path, if parts do."""
    config: Any = Recipe
    field: Any = None
    for name in path:
        field = getattr(config, "model_fields", {}).get(name)
        config = field and field.annotation
    return _part_room(field) if field else None
