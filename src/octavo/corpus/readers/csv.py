"""Tables as text (.csv, .tsv): every row a record, one column of it a document."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator
from typing import BinaryIO, ClassVar, Literal

from octavo.config.parts import register
from octavo.corpus.documents import Document, Report
from octavo.corpus.formats import decoded
from octavo.corpus.readers.base import Reader, ReaderConfig, ReaderOptions
from octavo.errors import CorpusError

_LONGEST = 1 << 27  # characters of one field; a quote that is never closed ends there
_DELIMITERS = ",;\t|"
_WITH_TABS = (".tsv", ".tab")


class Csv(Reader):
    """The first row names the columns; rows without text are passed over."""

    gives_records = True

    def __init__(self, *, encoding: str, field: str, report: Report) -> None:
        self._encoding = encoding
        self._field = field
        self._report = report

    def read(self, file: BinaryIO, name: str) -> Iterator[Document]:
        csv.field_size_limit(_LONGEST)
        lines = _lines(decoded(file, name, self._encoding, self._report))
        head = next(lines)
        # A header holds few words, so the sign that stands there most often is the one between columns.
        tabs = name.lower().endswith(_WITH_TABS)
        delimiter = "\t" if tabs else max(_DELIMITERS, key=head.count)
        columns = next(csv.reader([head], delimiter=delimiter), [])
        if self._field not in columns:
            raise CorpusError(
                f"{name} has no column '{self._field}'; it has {', '.join(map(repr, columns)) or 'none'}.",
                remedy="Name the column that holds the text with corpus.field=…",
            )
        at = columns.index(self._field)
        rows = csv.reader(lines, delimiter=delimiter, strict=True)
        while True:
            try:
                row = next(rows)
            except StopIteration:
                return
            except csv.Error as error:
                raise CorpusError(
                    f"{name}, line {rows.line_num + 1:,} is not CSV: {error}.",
                    remedy="Check the quotation marks there; a quote inside a field is written twice.",
                ) from error
            if any(row[len(columns) :]):
                raise CorpusError(
                    f"{name}, line {rows.line_num + 1:,} has {len(row)} cells, and the first row has {len(columns)}.",
                    remedy="Put a text that holds the sign between the columns into quotation marks.",
                )
            if len(row) > at and row[at]:
                yield Document(f"{name}, line {rows.line_num + 1}", iter([row[at]]))


def _lines(pieces: Iterable[str]) -> Iterator[str]:
    """Lines with their line breaks, however long."""
    held: list[str] = []
    for piece in pieces:
        *whole, last = piece.split("\n")
        for line in whole:
            yield "".join([*held, line, "\n"])
            held = []
        held.append(last)
    yield "".join(held)


@register("reader")
class CsvConfig(ReaderConfig):
    """Tables as text; the option `field` names the column with the text."""

    kind: Literal["csv"] = "csv"
    suffixes: ClassVar[tuple[str, ...]] = (".csv", ".tsv", ".tab")
    label: ClassVar[str] = "a table (.csv)"

    def build(self, options: ReaderOptions, report: Report) -> Csv:
        return Csv(encoding=options.encoding, field=options.field, report=report)
