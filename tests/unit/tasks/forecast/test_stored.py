"""Scores of forecasts as evaluation.json has them."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from octavo.tasks.forecast.stored import OWN, ForecastEvaluation, crps_by_predictor, forecast_sentences
from octavo.util.records import parse_json


def read(**predictors: Any) -> dict[str, Any]:
    return parse_json(json.dumps({"forecast": {"predictors": predictors}}), ForecastEvaluation)


def row(horizon: int, scaled: float | None, *crps: float | None) -> dict[str, Any]:
    return {"horizon": horizon, "scaled_crps": scaled, "crps_by_channel": list(crps)}


def test_the_mean_of_all_horizons() -> None:
    own, other = [row(1, 2.0, 0.5, 1.5), row(4, 4.0, 2.0, None)], [row(1, 3.0, 2.0)]
    found = read(**{OWN: own, "drift": other})
    assert crps_by_predictor(found, scaled=False) == {OWN: 1.5, "drift": 2.0}
    assert crps_by_predictor(found, scaled=True) == {OWN: 3.0, "drift": 3.0}
    assert crps_by_predictor({}, scaled=True) == {} == crps_by_predictor({"forecast": None}, scaled=False)


@pytest.mark.parametrize("scaled", [False, True])
def test_paths_that_ran_away_have_no_mean_though_one_channel_stayed(scaled: bool) -> None:
    found = read(**{OWN: [row(1, 2.0, 1.0, 1.0), row(4, None, 1.0, None)]})
    assert math.isnan(crps_by_predictor(found, scaled=scaled)[OWN])


def test_an_earlier_version_had_no_scaled_score() -> None:
    found = read(**{OWN: [{"horizon": 1, "crps": 2.0, "crps_by_channel": [1.0, 3.0]}]})
    assert crps_by_predictor(found, scaled=False) == {OWN: 2.0}


@pytest.mark.parametrize(
    "horizons",
    [
        [],
        [{"horizon": 1}],
        [{"horizon": 1, "crps_by_channel": []}],
        [{"horizon": -1, "crps_by_channel": [1.0]}],
        [{"horizon": 1, "crps_by_channel": [math.nan]}],
        "x",
    ],
)
def test_what_is_no_score_is_refused(horizons: Any) -> None:
    with pytest.raises(ValueError, match="forecast"):
        read(model=horizons)


def judged(main: int | None = None, **predictors: list[dict[str, Any]]) -> dict[str, Any]:
    known = {"channels": ["Fx", "Fy"], "rate": 300.0, "horizons": [1, 60], "predictors": predictors}
    return {"forecast": known if main is None else {**known, "main_horizon": main}}


BOTH = {
    OWN: [row(1, 1.0, 9.0, 2.0), row(60, 2.5, 60.0, 8.0)],
    "NLinear": [row(1, 2.0, 12.0, 3.0), row(60, 2.25, 70.0, 6.0)],
    "drift": [row(1, 3.0, 20.0, 4.0), row(60, None, None, None)],
}


def test_the_verdict_begins_with_the_horizon_that_counts() -> None:
    far, near = forecast_sentences(judged(60, **BOTH))
    assert far == (
        "60 steps ahead (200 ms), the horizon that counts: CRPS 2.50 usual steps, better than drift (its paths run "
        "away), not better than NLinear (2.25). It is the best of all in Fx, not in Fy."
    )
    assert near == (
        "1 step ahead (3.33 ms): CRPS 1.00 usual steps, better than NLinear (2.00) and drift. It is the best of all in "
        "every channel."
    )
    assert forecast_sentences(judged(1, **BOTH))[0].startswith(
        "1 step ahead (3.33 ms), the horizon that counts: "
    )
    assert forecast_sentences(judged(**BOTH))[0] == far, "without one named, the furthest"
    assert forecast_sentences({}) == []


def test_a_model_that_ran_away_is_better_than_nothing() -> None:
    ran = {**BOTH, OWN: [row(1, 1.0, 9.0, 2.0), row(60, None, None, 8.0)]}
    far, _ = forecast_sentences(judged(60, **ran))
    assert far.startswith(
        "60 steps ahead (200 ms), the horizon that counts: its paths run away, not better than "
    )
    assert "It is the best of all in no channel." in far


def test_many_channels_are_counted() -> None:
    one, other = [1.0] * 6, [2.0] * 4 + [0.5] * 2
    found = judged(1, **{OWN: [row(1, 1.0, *one)] * 2, "drift": [row(1, 2.0, *other)] * 2})
    found["forecast"]["channels"] = list("abcdef")
    assert "It is the best of all in 4 of 6 channels." in forecast_sentences(found)[0]
