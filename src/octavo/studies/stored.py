"""The files that a study leaves in its run folders, as shapes."""

from __future__ import annotations

import math
from typing import Annotated, Literal

from pydantic import AfterValidator, model_validator

from octavo.util.records import Count, Number, Record


def _sane(value: float) -> float:
    if 1e150 < abs(value) < math.inf:
        raise ValueError("no measurement is that large")
    return value


Measured = Annotated[float, AfterValidator(_sane)]
"""What a run reached. Earlier versions wrote NaN or Infinity where that is no finite number."""


class Outcome(Record):
    """outcome.json: how a run ended and, if it is done, its metrics on the whole validation split."""

    judge: Literal["last", "best"]
    status: Literal["done", "failed", "stopped"]
    reason: str | None = None
    settled: bool
    hopeless: dict[str, Number] | None = None
    """The rule by which it was stopped."""
    val_loss: Measured | None = None
    bits_per_byte: Measured | None = None
    accuracy: Measured | None = None
    perplexity: Measured | None = None
    nats_per_record: Measured | None = None
    valid: Measured | None = None
    crps: Measured | None = None
    scaled_crps: Measured | None = None
    unit: str | None = None
    """Of the loss, where that is none of text."""
    initial_loss: Measured | None = None
    step: Count | None = None
    tokens: Count | None = None
    flops: Number | None = None
    parameters: Count | None = None
    seconds: Number | None = None

    @model_validator(mode="after")
    def _complete(self) -> Outcome:
        of_text = () if self.unit else (self.bits_per_byte, self.perplexity)
        if self.status == "done" and None in (self.val_loss, *of_text):
            raise ValueError("a run that is done lacks a figure")
        return self


class Units(Record):
    """units.json: losses of the evaluated weights, unit by unit."""

    nats: tuple[Measured, ...]
    bytes: tuple[Count, ...]
    tokens: tuple[Count, ...]

    @model_validator(mode="after")
    def _same_units(self) -> Units:
        if not len(self.nats) == len(self.bytes) == len(self.tokens):
            raise ValueError("the lists are not of the same units")
        return self
