"""JSON files (.json): a list of records, of texts, or a single record; one field of each record is a document."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import BinaryIO, ClassVar, Literal

from octavo.config.parts import register
from octavo.corpus.documents import Document, Report
from octavo.corpus.formats import decoded
from octavo.corpus.readers.base import Reader, ReaderConfig, ReaderOptions
from octavo.corpus.readers.jsonl import JsonLines, documents_of
from octavo.corpus.records.base import RecordConfig
from octavo.errors import CorpusError

LARGEST = 256 << 20  # bytes; such a file is read whole


class JsonList(Reader):
    """Every record, or text, is a document; a file with one JSON object on each line is read as JSON lines."""

    gives_records = True

    def __init__(self, *, encoding: str, field: str, records: RecordConfig, report: Report) -> None:
        self._encoding = encoding
        self._field = field
        self._records = records
        self._report = report

    def read(self, file: BinaryIO, name: str) -> Iterator[Document]:
        lines = self._lines(file, name)
        if lines is not None:
            self._report(f"{name} has a JSON object on each line; read as JSON lines")
            yield from lines
            return
        size = file.seek(0, os.SEEK_END)
        if size > LARGEST:
            raise CorpusError(
                f"{name} has {size / 1e6:,.0f} MB; a JSON file of more than {LARGEST >> 20} MB is not read.",
                remedy="Write it as JSON lines (.jsonl), one record on each line: such files have no limit.",
            )
        try:
            found = json.loads("".join(decoded(file, name, self._encoding, self._report)))
        except (ValueError, RecursionError) as error:
            raise CorpusError(
                f"{name} is not JSON: {error}.", remedy="Check the file at that place."
            ) from error
        records = found if isinstance(found, list) else [found]
        places = ((f"{name}, record {number}", record) for number, record in enumerate(records, start=1))
        yield from documents_of(places, self._records, field=self._field, report=self._report)

    def _lines(self, file: BinaryIO, name: str) -> Iterator[Document] | None:
        """The file as JSON lines, if its first line is an object and there is another one."""
        file.seek(0)
        first = file.readline(1 << 20)
        second = file.readline(2)
        try:
            whole = isinstance(json.loads(first), dict)
        except (ValueError, RecursionError):
            whole = False
        if not whole or not second.strip():
            return None
        lines = JsonLines(
            encoding=self._encoding, field=self._field, records=self._records, report=self._report
        )
        return lines.read(file, name)


@register("reader")
class JsonListConfig(ReaderConfig):
    """JSON files with a list of records or texts; the option `field` names the field with the text."""

    kind: Literal["json"] = "json"
    suffixes: ClassVar[tuple[str, ...]] = (".json",)
    label: ClassVar[str] = "a JSON file"

    def build(self, options: ReaderOptions, report: Report) -> JsonList:
        return JsonList(
            encoding=options.encoding, field=options.field, records=options.records, report=report
        )
