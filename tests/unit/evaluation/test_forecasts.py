"""Scores of forecasts beside closed forms and scipy's, and the simple predictors beside what is known of them."""

from __future__ import annotations

import json
import math
from itertools import combinations

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from octavo.model.vectors import differences, spread_of, spread_of_steps
from octavo.tasks.forecast.baselines import (
    Baselines,
    Linear,
    Noise,
    filled,
    fit_t,
    histories,
    period_of,
    t_log_density,
    usual_step,
)
from octavo.tasks.forecast.scores import covered, crps, energy_score, mean_density, ranks, scores
from octavo.tasks.forecast.stored import OWN, forecast_sentences
from octavo.util.records import plain

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
    found = scores(1, drawn, truth, np.array([1.0, 2.0, 0.0, 3.0]), np.ones(2), random)
    assert found.rows == 3 and sum(found.pit) == pytest.approx(1) and found.nll == pytest.approx(-2)
    squares = np.nanmean((drawn.mean(axis=0) - truth) ** 2, axis=0)
    assert found.rmse_by_channel == pytest.approx(np.sqrt(squares))
    assert found.mase == pytest.approx(np.nanmean(np.abs(np.median(drawn, axis=0) - truth)))
    assert found.scaled_energy == pytest.approx(energy_score(drawn[:, [0, 3]], truth[[0, 3]]).mean())
    one, other = found.crps_by_channel
    assert one == pytest.approx(crps(drawn[:, [0, 3], 0], truth[[0, 3], 0]).mean())
    assert found.scaled_crps == pytest.approx((2 * one + 3 * other) / 5)


def test_rows_that_always_lack_a_channel_are_judged_by_the_others() -> None:
    random = np.random.default_rng(0)
    drawn, truth = random.normal(size=(50, 4, 2)), random.normal(size=(4, 2))
    truth[:, 1] = np.nan
    found = scores(1, drawn, truth, np.zeros(4), np.ones(2), random)
    alone = scores(1, drawn[:, :, :1], truth[:, :1], np.zeros(4), np.ones(1), random)
    assert found.scaled_crps == pytest.approx(alone.scaled_crps) and found.coverage == alone.coverage
    assert found.scaled_energy is None and found.crps_by_channel == [
        pytest.approx(alone.crps_by_channel[0]),
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
    found = Linear(histories(rows, places, 3), rows[places], own=False)
    history = np.array([[[0.0, 0.0], [2.0, 4.0], [1.0, 3.0]]])
    np.testing.assert_allclose(found.expected(history), [[0.6 + 1.2, 1.8 + 0.6]], atol=0.2)


def test_a_period_is_found() -> None:
    time = np.arange(600)
    assert (
        period_of([np.stack([np.sin(time / 25 * 2 * np.pi), np.cos(time / 25 * 2 * np.pi)], axis=1)], 60)
        == 25
    )
    assert period_of([np.linspace(0, 1, 50)[:, None]], 3) is None


def test_gaps_are_no_period() -> None:
    wave = np.sin(np.arange(600) / 25 * 2 * np.pi)
    gaps = 5 + wave + 0.0
    gaps[::3] = np.nan
    assert period_of([np.stack([gaps, gaps], axis=1)], 60) == 25


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
    history = np.stack([walk[3][20:36], walk[3][60:76]])
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


def waves(count: int, rows: int, seed: int) -> list[np.ndarray]:
    """Series of two channels, each with a phase of its own: what a line through many rows foretells and the last row
    alone does not."""
    random = np.random.default_rng(seed)
    time = np.arange(rows)[:, None] / np.array([40, 25]) * 2 * np.pi
    return [
        np.sin(time + random.uniform(0, 6, 2)) + 0.01 * random.normal(size=(rows, 2)) for _ in range(count)
    ]


def test_rows_with_little_history_are_predicted_from_what_they_have() -> None:
    """They were given a history that stood still, which nothing had been fitted to, and spoilt the mean of all."""
    simple = Baselines(waves(5, 400, seed=1), context=128, horizons=[1])
    judged = waves(3, 400, seed=2)
    whole = simple.losses(judged)
    beginnings = simple.losses([rows[:65] for rows in judged])  # of 399 rows each 64, so of all rows a sixth
    rest = {name: (399 * loss - 64 * beginnings[name]) / 335 for name, loss in whole.items()}
    for name in ("NLinear", "AR(15)"):
        assert whole[name] < rest[name] + 0.6 and whole[name] < whole["last value"] - 3, name


def test_forecasts_with_little_history_begin_with_what_there_is() -> None:
    simple = Baselines(waves(5, 400, seed=1), context=128, horizons=[1, 8])
    (judged,) = waves(1, 200, seed=2)
    for length in (1, 3, 20, 128):
        found = simple.forecast(
            [judged[:length]], judged[None, length : length + 8], [1, 8], paths=50, seed=0
        )
        for name in ("NLinear", "AR(15)", "drift"):
            error = np.abs(found[name][1][0].mean(axis=0) - judged[length])
            assert error.max() < (0.5 if length < 3 else 0.3), (name, length)
    both = simple.forecast([judged[:3], judged[:128]], np.zeros((2, 8, 2)), [1, 8], paths=50, seed=0)
    assert both["AR(15)"][8][0].shape == (50, 2, 2)


def test_what_is_missing_is_what_was_seen_last_and_never_what_comes() -> None:
    rows = np.array([[np.nan, 1.0], [2.0, np.nan], [np.nan, np.nan], [3.0, 4.0]])
    found = filled(rows, np.array([7.0, 8.0]))
    np.testing.assert_array_equal(found, [[7, 1], [2, 1], [2, 1], [3, 4]])
    assert np.isnan(filled(rows, np.nan)[0, 0]) and np.array_equal(
        filled(rows[:, :1] * np.nan, 5.0), [[5]] * 4
    )


def test_nobody_knows_a_channels_first_number_beforehand() -> None:
    """What was missing before it was filled with the number itself, which was then foretold."""
    simple = Baselines(waves(3, 200, seed=1), context=16, horizons=[1])
    rows = waves(1, 60, seed=2)[0]
    rows[:, 1] = np.nan
    usual, odd = rows.copy(), rows.copy()
    usual[30, 1], odd[30, 1] = 0.0, 9.0
    for name, loss in simple.losses([odd]).items():
        assert loss > simple.losses([usual])[name] + 2 / 59, name
    usual[30, 1] = 1.0
    with_one, without = (simple.losses([each])["last value"] for each in (usual, rows))
    assert 59 * (with_one - without) < 3, "many steps from the mean, and nothing unusual for a first number"
    (far,) = (simple.forecast([rows[:20]], rows[None, 20:22], [1], paths=4000, seed=0) for _ in "1")
    for name, each in far.items():
        assert each[1][0][:, 0, 1].std() == pytest.approx(np.sqrt(0.5), rel=0.2), name


def test_nlinear_is_none_where_a_channel_gives_no_pair() -> None:
    """It stood there as a baseline that is the last value under another name."""
    walks = [np.random.default_rng(seed).normal(size=(60, 2)).cumsum(axis=0) for seed in range(6)]
    for walk in walks:
        walk[1:, 0] = np.nan
    simple = Baselines(walks, context=8, horizons=[1, 7])
    assert not simple.direct and not any(name.startswith("AR") for name in simple.predictors)
    assert np.isfinite(list(simple.losses(walks).values())).all()


def test_the_steps_of_a_channel_that_is_hardly_ever_there_twice_in_a_row() -> None:
    walk = np.random.default_rng(0).normal(size=(2000, 3)).cumsum(axis=0)
    walk[::2, 1] = np.nan
    walk[1000, 1] = walk[1001, 1]  # once
    walk[:, 2] = np.repeat(walk[::4, 2], 4)
    for row in range(0, 2000, 4):  # it changes where it is not there
        walk[row + 2 : row + 4, 2] = np.nan
    steps = differences(walk)
    np.testing.assert_array_equal(steps[:, 0], np.diff(walk[:, 0]))
    assert np.isfinite(steps[:, 1]).sum() == 1000 and np.isfinite(steps[:, 2]).sum() == 500
    assert spread_of_steps(walk)[:2] == pytest.approx([1, np.sqrt(2)], rel=0.1)
    assert spread_of_steps(walk)[2] == spread_of(walk)[1][2], "its steps are all zero, so its own spread"
    assert usual_step([walk])[:2] == pytest.approx(np.sqrt([2 / np.pi, 4 / np.pi]), rel=0.1)
    assert usual_step([walk])[2] == spread_of(walk)[1][2]


@pytest.mark.parametrize("unit", [1e-15, 1.0, 1e15])
def test_a_column_that_never_changes_is_measured_by_its_size(unit: float) -> None:
    rows = np.array([[3 * unit, 0.0, np.nan], [3 * unit, 0.0, np.nan]])
    mean, spread = spread_of(rows)
    assert mean == pytest.approx([3 * unit, 0, 0]) and spread == pytest.approx([3 * unit, 1, 1])


def test_a_density_that_no_path_has_is_none_and_nothing_else_is_void() -> None:
    found = mean_density(np.array([[-np.inf, -1.0], [-np.inf, -np.inf]]))
    assert found[0] == -np.inf and found[1] == pytest.approx(-1 - np.log(2))
    random = np.random.default_rng(0)
    drawn, truth = random.normal(size=(50, 4, 2)), random.normal(size=(4, 2))
    drawn[0, 0, 0] = np.inf
    found = scores(1, drawn, truth, np.array([1.0, 2.0, -np.inf, 3.0]), np.ones(2), random)
    assert json.dumps(plain(found), allow_nan=False)
    assert found.nll is None and found.scaled_crps is None and found.scaled_energy is None
    one, other = found.crps_by_channel
    assert one is None and other == pytest.approx(crps(drawn[:, :, 1], truth[:, 1]).mean())


UNITS = st.tuples(*[st.floats(-12, 12).map(lambda power: 10.0**power)] * 2)
SHIFTS = st.tuples(*[st.floats(-1000, 1000)] * 2)


def holed(rows: np.ndarray) -> np.ndarray:
    """The series with gaps, and a second channel that is there in every other row alone."""
    rows = rows.copy()
    rows[20:24] = np.nan
    rows[1::2, 1] = np.nan
    return rows


def judged_in(units: np.ndarray, shifts: np.ndarray, *, holes: bool) -> dict[str, object]:
    """Losses, draws, scores and verdicts of series that are told in other units: what a model might draw too."""
    random = np.random.default_rng(0)
    train, judged = waves(4, 100, seed=1), waves(1, 100, seed=2)
    if holes:
        train, judged = [holed(rows) for rows in train], [holed(rows) for rows in judged]
    train, judged = ([shifts * units + units * rows for rows in part] for part in (train, judged))
    simple = Baselines(train, context=8, horizons=[1, 4])
    places = [2, 5, 60, 90]
    truth = np.stack([judged[0][at : at + 4] for at in places])
    before = [judged[0][max(0, at - 8) : at] for at in places]
    found = simple.forecast(before, truth, [1, 4], paths=20, seed=0)
    own = shifts * units + units * random.normal(size=(20, 4, 2))
    found[OWN] = {h: (own, np.full(4, -np.log(units).sum())) for h in (1, 4)}
    table = {
        name: [
            plain(scores(h, *each[h][:1], truth[:, h - 1], each[h][1], simple.step, random)) for h in (1, 4)
        ]
        for name, each in found.items()
    }
    forecast = {"channels": ["x", "y"], "horizons": [1, 4], "main_horizon": 4, "predictors": table}
    return {
        "losses": simple.losses(judged),
        "table": table,
        "said": forecast_sentences({"forecast": forecast}),
    }


@pytest.mark.parametrize("holes", [False, True])
@given(units=UNITS, shifts=SHIFTS)
@settings(max_examples=6, deadline=None, derandomize=True, phases=[Phase.generate])
def test_no_unit_of_a_channel_matters(
    units: tuple[float, float], shifts: tuple[float, float], holes: bool
) -> None:
    """Millimetres or metres, degrees or kelvins: the verdict is the same, scores of a channel are in its unit, and
    losses move by the logarithm of the unit."""
    scale = np.array(units)
    one = judged_in(np.ones(2), np.zeros(2), holes=holes)
    other = judged_in(scale, np.array(shifts), holes=holes)
    assert one["said"] == other["said"] and one["losses"].keys() == other["losses"].keys()
    assert {"NLinear", "drift", "last value"} <= one["losses"].keys()
    assert any(name.startswith("AR") for name in one["losses"])
    moved = np.log(scale) * ([1, 47 / 95] if holes else [1, 1])
    for name, loss in one["losses"].items():
        assert other["losses"][name] - loss == pytest.approx(moved.sum(), abs=1e-4), name
    for name, rows in one["table"].items():
        for here, there in zip(rows, other["table"][name], strict=True):
            for key in ("scaled_crps", "scaled_energy", "mase", "coverage", "pit", "rows"):
                same = here[key] if here[key] is None else pytest.approx(here[key], rel=1e-4)
                assert there[key] == same, (name, key)
            for key in ("crps_by_channel", "rmse_by_channel"):
                for channel, (old, new) in enumerate(zip(here[key], there[key], strict=True)):
                    assert new == (None if old is None else pytest.approx(old * scale[channel], rel=1e-4))
            if not holes:
                assert there["nll"] == pytest.approx(here["nll"] + np.log(scale).sum(), abs=1e-4)
