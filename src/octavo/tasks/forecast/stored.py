"""What evaluation.json says of forecasts several steps ahead: its shape, and the same in sentences."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Annotated, Any

import numpy as np
from pydantic import Field

from octavo.evaluation.stored import Evaluation
from octavo.util.records import Count, Number, Record
from octavo.util.terminal import listed, significant

OWN = "this model"
"""What a model is called among the predictors of its forecasts."""

RAN_AWAY = "its paths run away"

NAMED = 4
"""Channels that are named in a sentence; of more, it says how many."""


class Horizon(Record):
    """A predictor's scores so many steps ahead."""

    horizon: Count
    crps_by_channel: Annotated[tuple[Number | None, ...], Field(min_length=1)]
    """In each channel's own unit; None where no number came, or where the paths ran away."""
    scaled_crps: Number | None = None
    """Of all channels, in usual steps of each; None where the paths ran away. Earlier versions had none."""


class Forecast(Record):
    """Scores of forecasts, by predictor."""

    predictors: dict[str, Annotated[tuple[Horizon, ...], Field(min_length=1)]]


class ForecastEvaluation(Evaluation):
    """evaluation.json of a forecaster."""

    forecast: Forecast | None = None
    why_no_forecast: str | None = None


def crps_by_predictor(evaluation: Mapping[str, Any], *, scaled: bool) -> dict[str, float]:
    """Of a forecaster and the simple predictors beside it: CRPS, the mean of all horizons; NaN where paths ran away.

    Args:
        scaled: in usual steps of each channel; else in the one unit that all channels have to share.
    """
    predictors = (evaluation.get("forecast") or {}).get("predictors", {})

    def of(row: Mapping[str, Any]) -> float:
        ran_away = "scaled_crps" in row and row["scaled_crps"] is None
        known = [row["scaled_crps"]] if scaled and "scaled_crps" in row else row["crps_by_channel"]
        scores = [] if ran_away else [score for score in known if score is not None]
        return fmean(scores) if scores else math.nan

    return {name: fmean(map(of, horizons)) for name, horizons in predictors.items()}


def ahead(horizon: int, rate: float | None) -> str:
    """A horizon in words, such as `8 steps ahead (0.5 s)`."""
    words = f"{horizon} step{'s' * (horizon > 1)} ahead"
    if rate is None:
        return words
    seconds = horizon / rate
    return f"{words} ({seconds:,.3g} s)" if seconds >= 1 else f"{words} ({1000 * seconds:.3g} ms)"


def main_horizon(forecast: Mapping[str, Any]) -> int:
    """The horizon that counts, of what an evaluation says of forecasts."""
    return forecast.get("main_horizon", forecast["horizons"][-1])


def scores_at(forecast: Mapping[str, Any], horizon: int) -> dict[str, float]:
    """CRPS in usual steps by predictor, at a horizon; infinite where paths ran away."""
    place = forecast["horizons"].index(horizon)
    each = {name: rows[place].get("scaled_crps") for name, rows in forecast["predictors"].items()}
    return {name: math.inf if score is None else score for name, score in each.items()}


def forecast_sentences(evaluation: Mapping[str, Any]) -> list[str]:
    """How good its forecasts are beside those of simple predictors: a sentence for each horizon, that which counts
    first. Empty for other models."""
    forecast = evaluation.get("forecast")
    if not forecast:
        return []
    main = main_horizon(forecast)
    return [
        _sentence_at(forecast, horizon)
        for horizon in sorted(forecast["horizons"], key=lambda one: one != main)
    ]


def _sentence_at(forecast: Mapping[str, Any], horizon: int) -> str:
    place, scores = forecast["horizons"].index(horizon), scores_at(forecast, horizon)
    own = scores.pop(OWN)
    ordered = sorted(scores, key=scores.__getitem__)
    better = [name for name in ordered if own < scores[name]]
    worse = [f"{name} ({_number(scores[name])})" for name in ordered if name not in better]
    if better:  # of those that are beaten, the best tells how clearly
        better[0] += f" ({_number(scores[better[0]])})"
    words = [
        f"{how} {listed(names)}"
        for how, names in (("better than", better), ("not better than", worse))
        if names
    ]
    counts = ", the horizon that counts" if horizon == main_horizon(forecast) else ""
    where = f"{ahead(horizon, forecast.get('rate'))}{counts}"
    reached = f"CRPS {significant(own, 3)} usual steps" if math.isfinite(own) else RAN_AWAY
    sentence = f"{where[0].upper()}{where[1:]}: {', '.join([reached, *words])}."
    each = {name: rows[place]["crps_by_channel"] for name, rows in forecast["predictors"].items()}
    return sentence + _by_channel(forecast["channels"], each)


def _by_channel(channels: Sequence[str], each: Mapping[str, Sequence[float | None]]) -> str:
    """In which of several channels the model is the best of all."""
    scores = np.array([[math.inf if one is None else one for one in row] for row in each.values()])
    known = np.isfinite(scores).any(axis=0)
    if len(channels) < 2 or not known.any():
        return ""
    own = scores[list(each).index(OWN)]
    best = own < np.array([row for name, row in zip(each, scores, strict=True) if name != OWN]).min(axis=0)
    first, rest = (
        [name for name, one in zip(channels, here, strict=True) if one] for here in (best, known & ~best)
    )
    if not first or not rest:
        return f" It is the best of all in {'every' if first else 'no'} channel."
    if known.sum() > NAMED:
        return f" It is the best of all in {len(first)} of {known.sum()} channels."
    return f" It is the best of all in {listed(first)}, not in {listed(rest)}."


def _number(score: float) -> str:
    return significant(score, 3) if math.isfinite(score) else RAN_AWAY
