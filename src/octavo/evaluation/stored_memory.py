"""Planted passages and what a run remembers of them, as shapes of their files; see `octavo.evaluation.planted`."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, model_validator

from octavo.ground.records import Count, Number, Record

Text = Annotated[str, Field(min_length=1)]


class PlantedPassage(Record):
    """One passage."""

    beginning: Text
    rest: Text
    times: Count


class Planted(Record):
    """The plan beside a planted text."""

    passages: Annotated[list[PlantedPassage], Field(min_length=1)]


class RememberedTimes(Record):
    """The passages that were planted so many times."""

    times: Count
    passages: Annotated[Count, Field(ge=1)]
    recited: Count
    interval: tuple[Number, Number]
    matched: Number
    nats: Number
    p_recited: Number | None
    p_known: Number | None


class Remembered(Record):
    """memory.json of a run."""

    rows: Annotated[list[RememberedTimes], Field(min_length=2)]
    verdict: list[str]
    step: Count

    @model_validator(mode="after")
    def _controls_first(self) -> Remembered:
        if self.rows[0].times:
            raise ValueError("the controls do not stand first")
        return self
