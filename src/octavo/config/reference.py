"""The reference of all settings, as Markdown, from the schema itself: `python -m octavo.config.reference`."""

from __future__ import annotations

import json
import sys
import types
import typing
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Literal, Union

from annotated_types import Ge, Gt, Le, Lt
from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from octavo.config.docs import sentences
from octavo.config.parts import PartConfig, PartOf, parts
from octavo.config.schema import Recipe

_SIGNS = {Ge: "≥", Gt: ">", Le: "≤", Lt: "<"}


def reference() -> str:
    """docs/reference.md, from the schema."""
    head = (
        "# Reference of all settings\n\n"
        "Made from the schema by `python -m octavo.config.reference`; do not edit.\n\n"
        "A setting is given in a recipe (YAML) or after it on the command line: `training.steps=500`. Where a *part* "
        "is asked for, its kind alone is enough (`model.norm=rms`), or its kind with options "
        "(`model.norm={kind: rms, scale: false}`, `model.norm.eps=1e-6`).\n"
    )
    return head + "".join(_section(Recipe, "", "A run"))


def _section(
    config: type[BaseModel], prefix: str, title: str, above: Mapping[str, str] = MappingProxyType({})
) -> Iterator[str]:
    """The settings of a class, and of the parts in it; `above`: the keys of the rooms that it is in itself, which a
    part of one of them points to."""
    yield f"\n## {title}\n\n| setting | values | default | what it does |\n| --- | --- | --- | --- |\n"
    inner: list[tuple[str, type[BaseModel]]] = []
    rooms: list[tuple[str, str]] = []
    said = sentences(config)
    for name, field in config.model_fields.items():
        room = PartOf.of(field)
        if room is not None:
            listed = room not in field.metadata
            anchor = _anchor(above.get(room.room, prefix + name))
            if room.room not in above:
                rooms.append((f"{prefix}{name}.0" if listed else prefix + name, room.room))
            values = f"list of [{room.room}](#{anchor}0) steps" if listed else f"a [{room.room}](#{anchor})"
            default = _default(field) if listed else _part_default(field)
            yield _row(prefix + name, values, default, said.get(name, ""))
        elif isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            inner.append((prefix + name, field.annotation))
        elif name != "kind" or not issubclass(config, PartConfig):
            yield _row(prefix + name, _values(field), _default(field), said.get(name, ""))
    for name, room in rooms:
        yield from _parts(name, room, above)
    for name, sub in inner:
        yield from _section(sub, f"{name}.", f"`{name}`: {_first_sentence(sub)}", above)


def _parts(key: str, room: str, above: Mapping[str, str]) -> Iterator[str]:
    yield f"\n### `{key}`\n"
    for name, config in sorted(parts(room).items(), key=lambda item: _holds_parts(item[1])):
        if _holds_parts(config):  # a section of its own, after all that have none
            title = f"`{key}` of kind `{name}`: {_first_sentence(config)}"
            yield from _section(config, f"{key}.", title, {**above, room: key})
            continue
        yield f"\n**`{name}`** {_sentence(config).replace('<', '&lt;')}\n"
        fields = {each: field for each, field in config.model_fields.items() if each != "kind"}
        if fields:
            yield "\n| option | values | default | what it does |\n| --- | --- | --- | --- |\n"
        said = sentences(config)
        for each, field in fields.items():
            yield _row(f"{key}.{each}", _values(field), _default(field), said.get(each, ""))


def _holds_parts(config: type[BaseModel]) -> bool:
    return any(PartOf.of(field) for field in config.model_fields.values())


def _row(key: str, values: str, default: str, said: str) -> str:
    cells = [f"`{key}`", values, default, " ".join(said.split()).replace("<", "&lt;")]
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |\n"


def _values(field: FieldInfo) -> str:
    bounds = [f"{_SIGNS[type(item)]} {_bound(item)}" for item in field.metadata if type(item) in _SIGNS]
    return ", ".join([_type(field.annotation), *bounds])


def _bound(item: Any) -> Any:
    return getattr(item, type(item).__name__.lower())


def _type(annotation: Any) -> str:
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is Literal:
        return " or ".join(f"`{value}`" for value in arguments)
    if origin in (Union, types.UnionType):
        return " or ".join("empty" if each is type(None) else _type(each) for each in arguments)
    if origin is Annotated:  # with a check that the values do not show
        return _type(arguments[0])
    if origin in (tuple, list):
        return "list of " + _type(arguments[0])
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return "settings of its own"
    names = {int: "whole number", float: "number", bool: "true or false", str: "text", Path: "path"}
    return names.get(annotation, str(annotation))


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "must be given"
    if field.default_factory_takes_validated_data:
        return "as the corpus asks"
    value = field.get_default(call_default_factory=True) if field.default is not PydanticUndefined else ""
    if isinstance(value, BaseModel):
        value = value.model_dump(mode="json", exclude={"kind"})
    return "empty" if value is None else f"`{json.dumps(value, ensure_ascii=False)}`"


def _part_default(field: FieldInfo) -> str:
    return f"`{field.default['kind']}`"


def _sentence(config: type[BaseModel]) -> str:
    return " ".join((config.__doc__ or "").split())


def _first_sentence(config: type[BaseModel]) -> str:
    return _sentence(config).partition(". ")[0].removesuffix(".")


def _anchor(key: str) -> str:
    return key.replace(".", "").lower()


if __name__ == "__main__":
    sys.stdout.write(reference())
