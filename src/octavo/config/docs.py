"""What the settings' docstrings say, read from the source where somebody asks: no run has to wait for it."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Iterator
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema


def sentences(config: type[BaseModel]) -> dict[str, str]:
    """What stands below each setting of a class and of those that it extends, by the setting's name."""
    found: dict[str, str] = {}
    for one in reversed(config.__mro__):
        if issubclass(one, BaseModel) and one is not BaseModel:
            found |= _below_each(one)
    return {name: found[name] for name in config.model_fields if name in found}


def _below_each(config: type[BaseModel]) -> Iterator[tuple[str, str]]:
    """The string after each assignment with a type in a class's own body."""
    try:
        source = inspect.getsource(config)
    except (OSError, TypeError):  # of a class that was made without a file
        return
    (body,) = ast.parse(textwrap.dedent(source)).body
    assert isinstance(body, ast.ClassDef)
    for setting, below in zip(body.body, body.body[1:], strict=False):
        if isinstance(setting, ast.AnnAssign) and isinstance(setting.target, ast.Name):
            match below:
                case ast.Expr(value=ast.Constant(value=str(text))):
                    yield setting.target.id, inspect.cleandoc(text)


class SchemaWithSentences(GenerateJsonSchema):
    """A JSON schema whose settings say what they do: `Recipe.model_json_schema(schema_generator=…)`."""

    def model_schema(self, schema: core_schema.ModelSchema) -> JsonSchemaValue:
        """A class of settings."""
        found: dict[str, Any] = super().model_schema(schema)
        for name, text in sentences(schema["cls"]).items():
            found["properties"][name].setdefault("description", text)
        return found
