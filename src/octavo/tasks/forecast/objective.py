"""The objective for rows of numbers: the probability of the row that follows, or the pinball loss of its quantiles.

B sequences, T positions, D columns.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal, Self

import torch
from pydantic import Field, model_validator
from torch import Tensor

from octavo.config.parts import register
from octavo.data.batch import Batch
from octavo.errors import ConfigError
from octavo.model.families import Quantiles
from octavo.model.heads import VectorHead
from octavo.training.objective import (
    Loss,
    Model,
    Objective,
    ObjectiveConfig,
    PerToken,
    Unit,
    at_least_float32,
    counts,
    logits_of,
)


def head_of(model: Any) -> VectorHead:
    """A model's head, also where several processes train it."""
    head = getattr(getattr(model, "module", model), "lm_head", None)
    if not isinstance(head, VectorHead):
        raise ConfigError(
            "The objective 'forecast' needs a model that predicts rows of numbers.",
            remedy="model.input=linear model.output=gaussian",
        )
    return head


class Forecast(Objective):
    """−ln of the density of all numbers of the next row, in their own units."""

    unit = Unit("nats", "step", text=False, counted="rows", density=True)

    def each(self, model: Model, batch: Batch[Tensor]) -> Tensor:
        """The loss of each number, (B, T, D)."""
        return self.of_raw(head_of(model), at_least_float32(logits_of(model, batch)), batch)

    def of_raw(self, head: VectorHead, raw: Tensor, batch: Batch[Tensor]) -> Tensor:
        """The same, of what a head gave."""
        return -head.log_prob(raw, batch.inputs, values_of(batch))

    def loss(self, model: Model, batch: Batch[Tensor], *, step: int = 0) -> Loss:
        head = head_of(model)
        if head.family.by_likelihood:
            return Loss(summed(self.each(model, batch), batch))
        raw = at_least_float32(logits_of(model, batch))
        with torch.no_grad():
            reported = summed(self.of_raw(head, raw, batch), batch)
        return Loss(summed(head.penalty(raw, batch.inputs, values_of(batch)), batch), reported=reported)

    def evaluate(self, model: Model, batch: Batch[Tensor]) -> PerToken:
        return PerToken(self.each(model, batch).sum(dim=-1) * (batch.targets >= 0), {})


class Pinball(Forecast):
    """Twice the mean pinball loss of the quantiles of each number, in spreads of what is predicted."""

    unit = Unit("pinball", "step", text=False, counted="rows")

    def of_raw(self, head: VectorHead, raw: Tensor, batch: Batch[Tensor]) -> Tensor:
        if not isinstance(head.family, Quantiles) or head.zero:
            raise ConfigError(
                "objective.score=pinball needs a model that predicts quantiles, without a mass at zero.",
                remedy="model.output=quantiles, or objective.score=likelihood",
            )
        return head.pinball(raw, batch.inputs, values_of(batch))


def summed(each: Tensor, batch: Batch[Tensor]) -> Tensor:
    """Of the numbers of all rows, (B, T, D), each row with its weight."""
    return (each.sum(dim=-1) * counts(batch)).sum()


def values_of(batch: Batch[Tensor]) -> Tensor:
    """The rows (B, T, D) that a batch predicts."""
    assert batch.values is not None, "these batches hold no numbers"
    return batch.values


@register("objective")
class ForecastConfig(ObjectiveConfig):
    """Predict the distribution of the next row of numbers, in nats per step."""

    kind: Literal["forecast"] = "forecast"
    takes_vectors: ClassVar[bool] = True
    score: Literal["likelihood", "pinball"] = "likelihood"
    """What losses are told in. likelihood: −ln of the density of what came; pinball: the loss of quantiles, for
    `model.output=quantiles`, which learn by it either way."""

    horizons: Annotated[tuple[Annotated[int, Field(ge=1, le=100_000)], ...], Field(min_length=1)] = (1, 8, 32)
    """Steps ahead at which sample paths are judged when the run ends."""
    main_horizon: int | None = Field(None, ge=1, le=100_000)
    """The one of `horizons` that counts: the verdict is about it. Without one it is the furthest."""
    origins: int = Field(100, ge=1, le=100_000)
    """Places in the validation split from which paths are drawn, evenly spread."""
    paths: int = Field(100, ge=2, le=100_000)
    """Paths from each."""

    @model_validator(mode="after")
    def _judged(self) -> Self:
        if self.main_horizon is not None and self.main_horizon not in self.horizons:
            raise ValueError(
                f"main_horizon={self.main_horizon} is not in horizons={list(self.horizons)}; "
                "name one of these, or add it"
            )
        return self

    def build(self) -> Objective:
        return Forecast() if self.score == "likelihood" else Pinball()
