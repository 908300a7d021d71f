"""Who predicted which token, as evaluation.json has it; see `octavo.evaluation.counted`."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from octavo.ground.records import Count, Number, Record

Share = Annotated[float, Field(ge=0, le=1)]


class Side(Record):
    """The network (order 0), an order of the n-grams, or what the text has said so far (no order)."""

    order: Count | None
    trust: Share
    loss: Number
    best: Share


class Counted(Record):
    """Counting beside learning."""

    tokens: Annotated[Count, Field(ge=1)]
    counting_better: Share
    trust_in_counting: Share
    loss: Number
    network_loss: Number
    counting_loss: Number
    sides: Annotated[list[Side], Field(min_length=2)]
    sample: list[tuple[str, Number]]
