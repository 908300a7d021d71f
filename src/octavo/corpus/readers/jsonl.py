"""JSON lines: every line a record, one field of it a document."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import BinaryIO, ClassVar, Literal

from octavo.config.parts import register
from octavo.corpus.documents import Document, Report
from octavo.corpus.formats import decoded
from octavo.corpus.readers.base import Reader, ReaderConfig, ReaderOptions
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
        places = ((f"{name}, line {number}", line) for number, line in enumerate(lines, start=1))
        found = ((place, self._record(line, place)) for place, line in places if line and not line.isspace())
        yield from documents_of(found, self._records, field=self._field, report=self._report)

    def _record(self, line: str, place: str) -> object:
        try:
            return json.loads(line)
        except (ValueError, RecursionError) as error:
            raise CorpusError(
                f"{place} is not JSON: {error}.", remedy="Each line must be one JSON object."
            ) from error


def documents_of(
    found: Iterable[tuple[str, object]], config: RecordConfig, *, field: str, report: Report
) -> Iterator[Document]:
    """Records, each with its place, as documents. Raises CorpusError where all are left out."""
    kept, first = 0, None
    for place, record in found:
        try:
            text = config.text(record, place, field)
        except LeftOut as error:
            report(f"left out: {error.what}")
            first = first or error.what
            continue
        kept += 1
        if text:
            yield Document(place, iter([text]), file_in(record, place))
    if first and not kept:
        raise CorpusError(
            f"Every record is left out; the first: {first}", remedy=f"For example {config.sample}"
        )


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
        return JsonLines(
            encoding=options.encoding, field=options.field, records=options.records, report=report
        )
