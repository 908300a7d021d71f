"""Records that are texts: one field of each."""

from __future__ import annotations

from typing import ClassVar, Literal

from octavo.config.parts import register
from octavo.corpus.records.base import Form, RecordConfig, sound
from octavo.errors import CorpusError


def text_in(record: object, field: str, place: str) -> str:
    """The text in a record's field.

    Raises:
        CorpusError: it is no record, lacks the field, or holds no text there.
    """
    if not isinstance(record, dict):
        raise CorpusError(
            f"{place} is not a JSON object but {type(record).__name__}.",
            remedy='For example {"text": "Once …"}.',
        )
    if field not in record:
        raise CorpusError(
            f"{place} has no field '{field}'; it has {', '.join(map(repr, record)) or 'none'}.",
            remedy="Name the field that holds the text with corpus.field=…",
        )
    text = record[field]
    if not isinstance(text, str):
        raise CorpusError(
            f"{place}: the field '{field}' holds no text but {type(text).__name__}.",
            remedy="Name the field that holds the text with corpus.field=…",
        )
    return sound(text, place)


@register("record")
class TextRecord(RecordConfig):
    """A record's field with the name of the option `field` is a text."""

    kind: Literal["text"] = "text"
    form: ClassVar[Form] = "text"

    def text(self, record: object, place: str, field: str) -> str:
        return sound(record, place) if isinstance(record, str) else text_in(record, field, place)
