"""Columns on disk (.parquet): every row a record, one column of it a document."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, BinaryIO, ClassVar, Literal

from octavo.config.parts import register
from octavo.corpus.documents import Report
from octavo.corpus.readers.base import DocumentConfig
from octavo.errors import CorpusError

_ROWS = 256  # decoded at once


@register("reader")
class ParquetConfig(DocumentConfig):
    """Parquet files; the option `field` names the column with the text. Needs pyarrow."""

    kind: Literal["parquet"] = "parquet"
    suffixes: ClassVar[tuple[str, ...]] = (".parquet",)
    label: ClassVar[str] = "a Parquet file"
    package: ClassVar[str | None] = "pyarrow"
    extra: ClassVar[str] = "data"
    records: ClassVar[bool] = True

    @staticmethod
    def extract(file: BinaryIO, options: dict[str, Any], say: Report) -> Iterator[tuple[str, Iterator[str]]]:
        """The column's texts, a few rows at a time; rows without text are passed over."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        pa.set_cpu_count(1)
        pa.set_io_thread_count(1)
        table = pq.ParquetFile(file)
        schema, field = table.schema_arrow, options["field"]
        if field not in schema.names:
            raise CorpusError(
                f"has no column '{field}'; it has {', '.join(map(repr, schema.names)) or 'none'}.",
                remedy="Name the column that holds the text with corpus.field=…",
            )
        kind = schema.field(field).type
        value = kind.value_type if pa.types.is_dictionary(kind) else kind
        if not (
            pa.types.is_string(value) or pa.types.is_large_string(value) or pa.types.is_string_view(value)
        ):
            raise CorpusError(
                f"holds no text in the column '{field}' but {kind}.",
                remedy="Name the column that holds the text with corpus.field=…",
            )
        number = 0
        for batch in table.iter_batches(batch_size=_ROWS, columns=[field], use_threads=False):
            for text in batch.column(0).to_pylist():
                number += 1
                if text:
                    yield f"row {number}", iter([text.replace("\r\n", "\n").replace("\r", "\n")])
