"""Windows of numbers that are made louder or softer."""

from __future__ import annotations

import numpy as np

from octavo.data.batches import Stream
from octavo.tasks.forecast.batches import SeriesBatchesConfig, SeriesWindows

ROWS = np.concatenate([np.random.default_rng(0).normal(3, 1, (60, 3)), np.full((1, 3), np.nan)])
ROWS[5:20, 0], ROWS[30, 1] = 0.0, np.nan
STREAM = Stream(ROWS.astype(np.float32), np.array([0]), 40, 16, None, None, channels=2)


def windows(stretch: float) -> SeriesWindows:
    return SeriesBatchesConfig(stretch=stretch).training(STREAM, seed=1, accumulation=1)


def test_each_window_has_a_factor_of_its_own_and_covariates_have_none() -> None:
    plain, louder = windows(0.0).batch(7), windows(0.2).batch(7)
    assert plain.values is not None and louder.values is not None
    with np.errstate(invalid="ignore", divide="ignore"):
        ratio = (louder.inputs / plain.inputs)[:, :, :2]
    factors = np.nanmedian(ratio, axis=(1, 2))
    assert np.nanmax(np.abs(ratio - factors[:, None, None])) < 1e-5 and np.ptp(factors) > 0.2
    assert np.array_equal(louder.inputs[:, :, 2], plain.inputs[:, :, 2])
    assert np.array_equal(louder.inputs == 0, plain.inputs == 0) and (plain.inputs == 0).any()
    assert np.array_equal(np.isnan(louder.values), np.isnan(plain.values))
    assert np.allclose(louder.values[:, :-1, :2], louder.inputs[:, 1:, :2], equal_nan=True)


def test_factors_are_as_often_above_one_as_below() -> None:
    plain, louder = windows(0.0), windows(0.2)
    logs = []
    for step in range(40):
        one, other = plain.batch(step).inputs[:, :, :2], louder.batch(step).inputs[:, :, :2]
        with np.errstate(invalid="ignore", divide="ignore"):
            logs += np.log(np.nanmedian(other / one, axis=(1, 2))).tolist()
    assert len(logs) == 640 and abs(np.mean(logs)) < 4 * 0.2 / np.sqrt(640)
    assert 0.18 < np.std(logs) < 0.22


def test_a_batch_follows_from_seed_and_step() -> None:
    first, again, other = windows(0.2).batch(3), windows(0.2).batch(3), windows(0.2).batch(4)
    assert np.array_equal(first.inputs, again.inputs, equal_nan=True)
    assert not np.array_equal(first.inputs, other.inputs, equal_nan=True)
    plain = next(iter(SeriesBatchesConfig(stretch=0.2).scoring(STREAM, None)))
    assert np.array_equal(plain.inputs[0, :, :2], STREAM.tokens[:40, :2], equal_nan=True)  # as they are
