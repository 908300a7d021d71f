"""JSON lines: every line a record, one field of it a document."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import BinaryIO, ClassVar, Literal

from octavo.config.parts import register
from octavo.corpus.documents import Document, Report
from octavo.corpus.readers.base import Reader, ReaderConfig, ReaderOptions, decoded
from octavo.errors import CorpusError


class JsonLines(Reader):
    """Every record is a document; empty lines are passed over."""

    gives_records = True

    def __init__(self, *, encoding: str, field: str, report: Report) -> None:
        self._encoding = encoding
        self._report = report
        self._field = field

    def read(self, file: BinaryIO, name: str) -> Iterator[Document]:
        lines = _lines(decoded(file, name, self._encoding, self._report))
        for number, line in enumerate(lines, start=1):
            if line and not line.isspace():
                place = f"{name}, line {number}"
                record = self._record(line, place)
                text = text_in(record, self._field, place)
                yield Document(place, iter([text]), file_in(record, place))

    def _record(self, line: str, place: str) -> object:
        try:
            return json.loads(line)
        except (ValueError, RecursionError) as error:
            raise CorpusError(
                f"{place} is not JSON: {error}.", remedy="Each line must be one JSON object."
            ) from error


def file_in(record: object, place: str) -> str:
    """The name of the file that a record says it came from, as `octavo corpus clean` writes it; empty without one."""
    named = record.get("file") if isinstance(record, dict) else None
    return sound(named, place) if isinstance(named, str) else ""


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


def sound(text: str, place: str) -> str:
    """The text with one kind of line break. Raises CorpusError: it holds half a character."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise CorpusError(
            f"{place}: the text holds half a character (U+{ord(text[error.start]):04X} alone).",
            remedy="Take that record out, or write the character in full.",
        ) from error
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _lines(pieces: Iterable[str]) -> Iterator[str]:
    held: list[str] = []
    for piece in pieces:
        first, *rest = piece.split("\n")
        held.append(first)
        for line in rest:
            yield "".join(held)
            held = [line]
    yield "".join(held)


@register("reader")
class JsonLinesConfig(ReaderConfig):
    """JSON lines; the option `field` names the field with the text."""

    kind: Literal["jsonl"] = "jsonl"
    suffixes: ClassVar[tuple[str, ...]] = (".jsonl", ".ndjson")
    label: ClassVar[str] = "JSON lines"

    def build(self, options: ReaderOptions, report: Report) -> JsonLines:
        """Make the reader."""
        return JsonLines(encoding=options.encoding, field=options.field, report=report)
