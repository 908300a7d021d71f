"""Settings on top of a recipe's plain data: `key=value` words, and values by dotted keys."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from copy import copy, deepcopy
from typing import Any

import yaml

from octavo.config.parts import PartOf, parts
from octavo.config.plain import parse_yaml, plain
from octavo.config.schema import Recipe
from octavo.config.shipped import cleaning_steps
from octavo.errors import ConfigError

CLOSED_BY = {"[": "]", "{": "}", '"': '"', "'": "'"}


def override_words(overrides: Iterable[str] | Mapping[str, Any]) -> list[str]:
    """Overrides as `key=value` words, whole parts before their options; a mapping has dotted keys."""
    if isinstance(overrides, Mapping):
        overrides = [_word(key, plain(value)) for key, value in overrides.items()]
    return sorted(overrides, key=lambda word: _depth(override_key(word)))


def _word(key: str, value: Any) -> str:
    try:
        return f"{key}={json.dumps(value)}"
    except TypeError as error:
        raise ConfigError(
            f"The value of '{key}' is {value!r}; it must be a number, a text, true or false, or a list or mapping of "
            "these."
        ) from error


def _depth(key: str) -> tuple[int, bool]:
    """Of what a dotted key sets: a part's kind stands for all of it, and comes first. In this order (a stable one) no
    setting silently takes away what another has set."""
    path = key.split(".")
    kind = path[-1] == "kind"
    return len(path) - kind, not kind


def override_key(word: str) -> str:
    """The dotted key of a `key=value` word."""
    return word.partition("=")[0].strip()


def apply_overrides(tree: dict[str, Any], overrides: Iterable[str] | Mapping[str, Any]) -> None:
    """Set what `key=value` words say, or a mapping from dotted keys, in plain data, in place: in any order the same,
    but for a key that is given twice, whose last value counts."""
    for word in override_words(overrides):
        apply_override(tree, word)


def apply_values(tree: dict[str, Any], settings: Mapping[str, Any]) -> None:
    """The same with values that are plain data already."""
    for key in sorted(settings, key=_depth):
        apply_value(tree, key, deepcopy(plain(settings[key])))


def apply_override(tree: dict[str, Any], override: str) -> None:
    """Set one `a.b.c=value` in plain data, in place. Naming another kind of a part drops the old kind's options."""
    key, equals, text = override.partition("=")
    path = key.strip().split(".")
    if not equals or not all(path):
        raise ConfigError(
            f"'{override}' is not an override; an override reads key=value.",
            remedy="for example training.steps=500",
        )
    apply_value(tree, key.strip(), override_value(text, f"The value of '{key}'"))


def override_value(text: str, name: str) -> Any:
    """What stands behind the equals sign: YAML, unless it is plain words. Those may have in them what YAML takes for a
    comment (#1), a mapping (ROMEO:), or the beginning of a quotation ('Tis) or a list ([Chorus] hello)."""
    inside = text.strip()
    first, last = inside[:1], inside[-1:]
    try:
        value = parse_yaml(text, name)
    except ConfigError as error:
        if not isinstance(error.__cause__, yaml.YAMLError) or (
            first in CLOSED_BY and last == CLOSED_BY[first]
        ):
            raise
        return text.strip(" ")
    words = isinstance(value, (str, dict)) and first not in CLOSED_BY
    return text.strip(" ") if words or first == "#" else value


def apply_value(tree: dict[str, Any], key: str, value: Any) -> None:
    """Set the dotted `key` to a value in plain data, in place; see `apply_override`."""
    path = key.split(".")
    node: Any = tree
    for number, name in enumerate(path[:-1]):
        place: Any = _index(node, name, key) if isinstance(node, list) else name
        child: Any = node[place] if isinstance(node, list) else node.get(name)
        if isinstance(child, str):
            named_list = path[: number + 1] == ["cleaning"]
            child = cleaning_steps(child) if named_list else {"kind": child}  # else a part in short form
        node[place] = copy(child) if isinstance(child, (dict, list)) else {}
        node = node[place]
    if path[-1] == "kind" and isinstance(node, dict):
        part = part_at(path[:-1])
        if part and node.get("kind", part.default) != value:
            node.clear()
    node[_index(node, path[-1], key) if isinstance(node, list) else path[-1]] = value


def _index(items: list[Any], name: str, key: str) -> int:
    if name.isdecimal() and int(name) < len(items):
        return int(name)
    raise ConfigError(f"{key}: '{name}' is no place in a list of {len(items)}; places are counted from 0.")


def part_at(path: list[str]) -> PartOf | None:
    """Which parts fit at a key path, if parts do."""
    inside: list[Any] = [Recipe]
    field: Any = None
    for name in path:
        if name.isdigit() and field:  # one of a list
            continue
        field = next(
            (kind.model_fields[name] for kind in inside if name in getattr(kind, "model_fields", {})), None
        )
        part = PartOf.of(field) if field else None
        inside = [*parts(part.room).values()] if part else [field.annotation] if field else []
    return PartOf.of(field) if field else None
