"""Sums as documents, such as 27+58=85: what can be checked to the digit, and needs no text."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any, Literal

from pydantic import Field, model_validator

from octavo.config.parts import MOST, PartConfig, register
from octavo.corpus import Document, Report, Source


class Sums(Source):
    """So many different sums of two numbers below `below`, in the order of a seed; more sums begin with the same."""

    def __init__(self, *, sums: int, below: int, seed: int) -> None:
        self._count, self._below, self._seed = sums, below, seed

    def documents(self) -> Iterator[Document]:
        places = list(range(self._below**2))
        Random(self._seed).shuffle(places)
        for number, place in enumerate(places[: self._count]):
            first, second = divmod(place, self._below)
            yield Document(f"sum {number}", iter([f"{first}+{second}={first + second}"]))

    def describe(self) -> dict[str, Any]:
        return {"kind": "sums", "sums": self._count, "below": self._below, "seed": self._seed}


@register("source")
class SumsSource(PartConfig):
    """Different sums of two numbers, each a document."""

    kind: Literal["sums"] = "sums"
    sums: int = Field(2000, ge=1, le=MOST)
    """How many."""
    below: int = Field(100, ge=2, le=1000)
    """Both numbers are from 0 to below this."""
    seed: int = Field(0, ge=0, le=MOST)
    """Which sums come first: the same seed gives the same order, and more sums begin with the same ones."""

    @model_validator(mode="after")
    def _enough(self) -> SumsSource:
        if self.sums > self.below**2:
            raise ValueError(
                f"there are {self.below**2:,} sums of numbers below {self.below}, not {self.sums:,}"
            )
        return self

    def build(self, report: Report | None = None) -> Sums:
        """Make the source; sums are written as they are read."""
        return Sums(sums=self.sums, below=self.below, seed=self.seed)
