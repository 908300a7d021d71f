"""What evaluation.json says of texts that were checked one by one."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from octavo.evaluation.stored import Evaluation
from octavo.util.records import Count, Number, Record


class FirstWrong(Record):
    """Where a record that is not valid goes wrong."""

    symbol: Count
    why: str


class Checked(Record):
    """How many of some records are valid."""

    records: Annotated[Count, Field(ge=1)]
    valid: Count
    interval: tuple[Number, Number]
    typical: FirstWrong | None = None
    order: Count | None = None


class Validity(Record):
    """Of the model's records, held-out ones and those of n-grams."""

    generated: Checked
    held_out: Checked
    control: Checked | None = None


class Stories(Record):
    """How many of the stories that it wrote are good."""

    written: Annotated[Count, Field(ge=1)]
    passed: Count


class TextEvaluation(Evaluation):
    """evaluation.json of a model that writes."""

    validity: Validity | None = None
    stories: Stories | None = None
