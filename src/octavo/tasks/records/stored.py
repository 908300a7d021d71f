"""What evaluation.json says of records."""

from __future__ import annotations

from octavo.tasks.text.stored import TextEvaluation
from octavo.util.records import Count, Number, Record


class Records(Record):
    """The loss by record."""

    records: Count
    symbols: Number
    nats: Number
    bits_per_symbol: Number | None = None


class RecordsEvaluation(TextEvaluation):
    """evaluation.json of a model of records."""

    records: Records | None = None
