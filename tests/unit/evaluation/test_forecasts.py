"""Scores of forecasts beside closed forms and scipy's, and the simple predictors beside what is known of them."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import pytest

from octavo.evaluation.forecast_baselines import (
    Baselines,
    Linear,
    Noise,
    filled,
    fit_t,
    histories,
    period_of,
    t_log_density,
)
from octavo.evaluation.forecast_scores import covered, crps, energy_score, mean_density, ranks, scores

stats = pytest.importorskip("scipy.stats")


def test_crps_of_a_normal_is_its_closed_form() -> None:
    random = np.random.default_rng(0)
    drawn, truth = random.normal(1.0, 2.0, (4000, 200)), np.linspace(-4, 6, 200)
    z = (truth - 1) / 2
    closed = 2 * (z * (2 * stats.norm.cdf(z) - 1) + 2 * stats.norm.pdf(z) - 1 / math.sqrt(math.pi))
    assert np.abs(crps(drawn, truth) - closed).max() < 0.12
    assert abs(crps(drawn, truth).mean() - closed.mean()) < 0.01


def test_scores_are_the_sums_over_pairs() -> None:
    random = np.random.default_rng(0)
    drawn, truth = random.normal(size=(5, 3, 2)), random.normal(size=(3, 2))
    pairs = list(combinations(range(5), 2))
    for row in range(3):
        near = np.mean([np.linalg.norm(drawn[m, row] - truth[row]) for m in range(5)])
        apart = np.mean([np.linalg.norm(drawn[a, row] - drawn[b, row]) for a, b in pairs])
        assert energy_score(drawn, truth)[row] == pytest.approx(near - apart / 2)
        near = np.mean(np.abs(drawn[:, row, 0] - truth[row, 0]))
        apart = np.mean([abs(drawn[a, row, 0] - drawn[b, row, 0]) for a, b in pairs])
        assert crps(drawn[:, :, 0], truth[:, 0])[row] == pytest.approx(near - apart / 2)


def test_the_score_of_few_draws_is_fair() -> None:
    """With two draws the mean is what it is with many."""
    random = np.random.default_rng(0)
    few = crps(random.normal(size=(2, 40_000)), np.full(40_000, 0.5)).mean()
    many = crps(random.normal(size=(2000, 100)), np.full(100, 0.5)).mean()
    assert few == pytest.approx(many, abs=0.02)


def test_coverage_and_ranks_of_a_right_forecast() -> None:
    random = np.random.default_rng(0)
    truth = random.normal(size=40_000)
    drawn = random.normal(size=(60, 40_000))
    for level in (50, 80, 95):  # few draws too: the usual quantiles of 60 hold 92 % instead of 95
        assert covered(drawn, truth, level).mean() == pytest.approx(level / 100, abs=0.01)
    truth, drawn = truth[:4000], drawn[:, :4000]
    assert stats.kstest(ranks(drawn, truth, random), "uniform").pvalue > 0.001
    assert not covered(drawn, truth + 9, 95).any()


def test_ranks_among_equal_draws_are_even() -> None:
    """A probability of exact zeros must not look like a forecast that is too narrow."""
    random = np.random.default_rng(0)
    drawn, truth = np.zeros((100, 4000)), np.zeros(4000)
    assert stats.kstest(ranks(drawn, truth, random), "uniform").pvalue > 0.001


def test_a_mean_of_densities_is_no_mean_of_logs() -> None:
    logs = np.log([[0.2, 1e-300], [0.6, 3e-300]])
    np.testing.assert_allclose(np.exp(mean_density(logs)), [0.4, 2e-300])


def test_what_is_missing_is_not_judged_and_what_stands_beside_it_is() -> None:
    random = np.random.default_rng(0)
    drawn, truth = random.normal(size=(50, 4, 2)), random.normal(size=(4, 2))
    truth[1, 0], truth[2] = np.nan, np.nan
    found = scores(drawn, truth, np.array([1.0, 2.0, 0.0, 3.0]), np.ones(2), random)
    assert found["rows"] == 3 and sum(found["pit"]) == pytest.approx(1) and found["nll"] == pytest.approx(-2)
    assert found["rmse"] == pytest.approx(np.sqrt(np.nanmean((drawn.mean(axis=0) - truth) ** 2)))
    assert found["mase"] == pytest.approx(np.nanmean(np.abs(np.median(drawn, axis=0) - truth)))
    assert found["energy"] == pytest.approx(energy_score(drawn[:, [0, 3]], truth[[0, 3]]).mean())
    one, other = found["crps_by_channel"]
    assert one == pytest.approx(crps(drawn[:, [0, 3], 0], truth[[0, 3], 0]).mean())
    assert found["crps"] == pytest.approx((2 * one + 3 * other) / 5)


def test_rows_that_always_lack_a_channel_are_judged_by_the_others() -> None:
    random = np.random.default_rng(0)
    drawn, truth = random.normal(size=(50, 4, 2)), random.normal(size=(4, 2))
    truth[:, 1] = np.nan
    found = scores(drawn, truth, np.zeros(4), np.ones(2), random)
    alone = scores(drawn[:, :, :1], truth[:, :1], np.zeros(4), np.ones(1), random)
    assert found["crps"] == pytest.approx(alone["crps"]) and found["coverage"] == alone["coverage"]
    assert found["energy"] is None and found["crps_by_channel"] == [
        pytest.approx(alone["crps_by_channel"][0]),
        None,
    ]


def test_students_t_is_scipys() -> None:
    random = np.random.default_rng(0)
    np.testing.assert_allclose(
        t_log_density(np.array([0.5, -3.0]), 3.0, 2.0), stats.t.logpdf([0.5, -3.0], 3, 0, 2)
    )
    drawn = 2 * random.standard_t(4.0, 20_000)
    freedom, spread = fit_t(drawn, 1e-3)
    known = stats.t.fit(drawn, floc=0)
    assert 3 <= freedom <= 5 and spread == pytest.approx(known[2], rel=0.05)
    assert fit_t(np.zeros(10), 0.25)[1] == 0.25


def test_an_autoregression_is_found_again() -> None:
    random = np.random.default_rng(0)
    rows = np.zeros((4000, 2))
    for row in range(2, 4000):
        rows[row] = 0.6 * rows[row - 1] + 0.3 * rows[row - 2, ::-1] + random.normal(size=2)
    places = np.arange(3, 4000)
    found = Linear(histories(rows, places, 3), rows[places], reach=3, own=False)
    history = np.array([[[0.0, 0.0], [2.0, 4.0], [1.0, 3.0]]])
    np.testing.assert_allclose(found.expected(history), [[0.6 + 1.2, 1.8 + 0.6]], atol=0.2)


def test_a_period_is_found() -> None:
    time = np.arange(600)
    assert (
        period_of([np.stack([np.sin(time / 25 * 2 * np.pi), np.cos(time / 25 * 2 * np.pi)], axis=1)], 60)
        == 25
    )
    assert period_of([np.linspace(0, 1, 50)[:, None]], 3) is None


@pytest.mark.filterwarnings("error")
def test_a_channel_that_somebody_lacks_has_no_say_in_the_period() -> None:
    wave = np.sin(np.arange(600) / 25 * 2 * np.pi)
    assert period_of([np.stack([wave, np.full(600, np.nan)], axis=1)], 60) == 25


def test_the_chance_of_zeros_is_counted() -> None:
    before = np.array([[1.0], [1.0], [0.0], [0.0]] * 50)
    truth = np.array([[2.0], [0.0], [0.0], [0.0]] * 50)
    noise = Noise.fit(before, before, truth, np.array([1e-3]))
    assert noise.zero[:, 0] == pytest.approx([0.5, 1.0], abs=0.01)
    assert noise.log_density(before[1], before[1], truth[1])[0] == pytest.approx(math.log(noise.zero[0, 0]))
    drawn = noise.draw(np.ones((1000, 1)), np.ones((1000, 1)), np.random.default_rng(0))
    assert (drawn == 0).mean() == pytest.approx(0.5, abs=0.05)


def test_zeros_that_have_a_chance_of_their_own_do_not_widen_what_is_missed() -> None:
    random = np.random.default_rng(0)
    ones = np.ones((4000, 1))
    truth = np.where(np.arange(4000)[:, None] % 2, 0.0, 5 + random.normal(size=(4000, 1)))
    assert Noise.fit(ones, 5 * ones, truth, np.array([1e-3])).spread == pytest.approx([1.0], rel=0.1)


def test_rows_that_are_missing_do_not_lower_the_mean_loss_of_baselines() -> None:
    random = np.random.default_rng(0)
    walk, judged = (random.normal(size=(300, 2)).cumsum(axis=0) for _ in range(2))
    simple = Baselines([walk], context=16, horizons=[1])
    gone = np.concatenate([judged, np.full((100, 2), np.nan)])
    assert simple.losses([gone]) == pytest.approx(simple.losses([judged]))


def test_baselines_learn_from_the_training_split_alone_and_bear_gaps() -> None:
    random = np.random.default_rng(0)
    walk = [random.normal(size=(300, 2)).cumsum(axis=0) for _ in range(4)]
    walk[0][50:60] = np.nan
    simple = Baselines(walk[:3], context=16, horizons=[1, 4])
    losses = simple.losses([walk[3]])
    best = float(np.log(2 * np.pi) + 1)  # two standard normals
    assert losses["last value"] == pytest.approx(best, abs=0.15)
    assert all(np.isfinite(loss) and loss > best - 0.2 for loss in losses.values())
    changed = walk[3].copy()
    changed[40] = np.nan
    assert np.isfinite(list(simple.losses([changed]).values())).all()
    history = np.stack([filled(walk[3])[20:36], filled(walk[3])[60:76]])
    truth = np.stack([walk[3][36:40], walk[3][76:80]])
    found = simple.forecast(history, truth, [1, 4], paths=2000, seed=0)
    for each in found.values():
        assert set(each) == {1, 4} and each[4][0].shape == (2000, 2, 2)
    drawn, density = found["last value"][4]
    expected = stats.norm.logpdf(truth[:, 3], history[:, -1], 2.0).sum(axis=1)  # four steps: spread 2
    np.testing.assert_allclose(density, expected, atol=0.5)
    assert drawn.std(axis=0) == pytest.approx(np.full((2, 2), 2.0), rel=0.15)


def test_baselines_learn_channels_that_are_never_there_at_once() -> None:
    walks = [np.random.default_rng(seed).normal(size=(45_000, 2)).cumsum(axis=0) for seed in (1, 2)]
    for walk in walks:
        walk[::2, 0], walk[1::2, 1] = np.nan, np.nan
    simple = Baselines(walks[:1], context=8, horizons=[1, 2])
    best = float(np.log(2 * np.pi * 2) + 1) / 2  # one of two normals of variance 2 in each row
    losses = simple.losses([walks[1][:4000]])
    assert {"NLinear", "AR(7)", "last value"} <= set(losses)
    assert all(loss == pytest.approx(best, abs=0.2) for loss in losses.values())
    assert simple.step == pytest.approx([2 / np.sqrt(np.pi)] * 2, rel=0.05)


def test_a_baseline_without_a_pair_to_learn_from_is_none() -> None:
    walks = [np.random.default_rng(seed).normal(size=(9, 1)).cumsum(axis=0) for seed in range(20)]
    simple = Baselines(walks, context=4, horizons=[1, 30])
    assert "NLinear" in simple.losses(walks)
    found = simple.forecast(np.zeros((2, 4, 1)), np.zeros((2, 30, 1)), [1, 30], paths=10, seed=0)
    assert "NLinear" not in found and set(found["last value"]) == {1, 30}
