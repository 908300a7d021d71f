"""What settings' docstrings say: of a class and what it extends, in a JSON schema, and where there is no file."""

from __future__ import annotations

from typing import Any, ClassVar

from pydantic import ConfigDict, Field, create_model

from octavo.config import Recipe, Strict
from octavo.config.docs import SchemaWithSentences, sentences


class Above(Strict):
    """Extended."""

    first: int = 1
    """What the first does,
    on two lines."""
    second: int = 2
    plain: ClassVar[int] = 3
    """Of no setting."""


class Below(Above):
    """Extends."""

    second: int = 4
    """What the second does."""
    third: int = Field(5, description="said where it is made")
    """Said below."""


class Read(Below):
    """The same, read by pydantic itself."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    fourth: int = 6
    """What the fourth does."""


def test_sentences_of_a_class_and_those_it_extends() -> None:
    assert sentences(Above) == {"first": "What the first does,\non two lines."}
    assert list(sentences(Below)) == ["first", "second", "third"]
    assert sentences(Read)["fourth"] == Read.model_fields["fourth"].description


def test_a_schema_says_them_and_keeps_what_is_said_otherwise() -> None:
    found = Below.model_json_schema(schema_generator=SchemaWithSentences)["properties"]
    assert found["second"]["description"] == "What the second does."
    assert found["third"]["description"] == "said where it is made"
    assert "description" not in Below.model_json_schema()["properties"]["second"]


def test_a_class_without_a_file_says_nothing() -> None:
    made: Any = create_model("Made", __base__=Strict, number=(int, 1))
    assert sentences(made) == {}
    assert "number" in made.model_json_schema(schema_generator=SchemaWithSentences)["properties"]


def test_the_schema_of_recipes_describes_each_setting() -> None:
    schema = Recipe.model_json_schema(schema_generator=SchemaWithSentences)
    assert schema["properties"]["seed"]["description"] == sentences(Recipe)["seed"]
    parts = [each["properties"] for name, each in schema["$defs"].items() if name.startswith("Muon")]
    assert parts and all("description" in each["rounds"] for each in parts)
