"""JSON lines: every line a record, one field of it a document."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import BinaryIO, ClassVar, Literal

from octavo.config.parts import register
from octavo.corpus.documents import Document, Report
from octavo.corpus.readers.base import Reader, ReaderConfig, ReaderOptions, decoded
from octavo.corpus.records.base import LeftOut, RecordConfig, sound
from octavo.errors import CorpusError


class JsonLines(Reader):
    """Every record is a document; empty lines are passed over."""

    gives_records = True

    def __init__(self, *, encoding: str, field: str, records: RecordConfig, report: Report) -> None:
        self._encoding = encoding
        self._report = report
        self._field = field
        self._records = records

    def read(self, file: BinaryIO, name: str) -> Iterator[Document]:
        lines = _lines(decoded(file, name, self._encoding, self._report))
        for number, line in enumerate(lines, start=1):
            if line and not line.isspace():
                place = f"{name}, line {number}"
                record = self._record(line, place)
                try:
                    text = self._records.text(record, place, self._field)
                except LeftOut as error:
                    self._report(f"left out: {error.what}")
                    continue
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
    """JSON lines; the option `field` names the field with the text, `records` says what else a record can be."""

    kind: Literal["jsonl"] = "jsonl"
    suffixes: ClassVar[tuple[str, ...]] = (".jsonl", ".ndjson")
    label: ClassVar[str] = "JSON lines"

    def build(self, options: ReaderOptions, report: Report) -> JsonLines:
        """Make the reader."""
        return JsonLines(
            encoding=options.encoding, field=options.field, records=options.records, report=report
        )
