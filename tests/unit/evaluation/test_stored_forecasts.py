"""Scores of forecasts as evaluation.json has them."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from octavo.evaluation.stored import Evaluation
from octavo.evaluation.stored_forecasts import OWN, crps_by_predictor
from octavo.ground.records import parse_json


def read(**predictors: Any) -> dict[str, Any]:
    return parse_json(json.dumps({"forecast": {"predictors": predictors}}), Evaluation)


def test_the_mean_of_all_horizons() -> None:
    own, other = [{"horizon": 1, "crps": 0.5}, {"horizon": 4, "crps": 1.5}], [{"horizon": 1, "crps": 2.0}]
    assert crps_by_predictor(read(**{OWN: own, "drift": other})) == {OWN: 1.0, "drift": 2.0}
    assert crps_by_predictor({}) == {} and crps_by_predictor({"forecast": None}) == {}


def test_paths_that_ran_away_can_be_read() -> None:
    assert math.isnan(crps_by_predictor(read(model=[{"horizon": 1, "crps": math.nan}]))["model"])


@pytest.mark.parametrize("horizons", [[], [{"horizon": 1}], [{"horizon": -1, "crps": 1.0}], "x"])
def test_what_is_no_score_is_refused(horizons: Any) -> None:
    with pytest.raises(ValueError, match="forecast"):
        read(model=horizons)
