"""What evaluation.json says of forecasts several steps ahead, as shapes."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import fmean
from typing import Annotated, Any

from pydantic import Field

from octavo.ground.records import Count, Record

OWN = "this model"
"""What a model is called among the predictors of its forecasts."""


class Horizon(Record):
    """A predictor's scores so many steps ahead."""

    horizon: Count
    crps: float
    """It need not be finite: paths may run away."""


class Forecast(Record):
    """Scores of forecasts, by predictor."""

    predictors: dict[str, Annotated[tuple[Horizon, ...], Field(min_length=1)]]


def crps_by_predictor(evaluation: Mapping[str, Any]) -> dict[str, float]:
    """Of a forecaster and the simple predictors beside it: CRPS, the mean of all horizons."""
    predictors = (evaluation.get("forecast") or {}).get("predictors", {})
    return {name: fmean(each["crps"] for each in horizons) for name, horizons in predictors.items()}
