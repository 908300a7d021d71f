"""Noise, intervals and corrected p-values: against the textbook where it has the answer, and by simulation."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from octavo.studies.statistics import (
    DRAWS,
    Arm,
    compare,
    default_noise,
    f_tail,
    noise_floor,
    resample,
    smallest_visible,
)


def arm(*values: float, steady: bool = True) -> Arm:
    return Arm(np.array(values, float), steady)


def spread(count: int, sd: float, mean: float = 0.0) -> Arm:
    """Values with exactly this mean and standard deviation."""
    values = np.arange(count) - (count - 1) / 2
    return Arm(mean + sd * values / values.std(ddof=1))


# Student's t, two-sided 5 %, from any table: degrees of freedom → critical value.
T_TABLE = {7: 2.365, 9: 2.262, 13: 2.160, 22: 2.074}

# Dunnett's two-sided 5 % values for equal groups (1964 table II): changes, degrees of freedom → critical value.
DUNNETT = {(2, 12): 2.50, (3, 16): 2.59, (4, 20): 2.65}


@pytest.mark.parametrize(("freedom", "critical"), T_TABLE.items())
def test_one_change_is_student(freedom: int, critical: float) -> None:
    base, change = spread(freedom - 1, 1.0), spread(3, 1.0)
    noise, (contrast,) = compare(base, [change])
    error = noise.sd * math.sqrt(1 / base.count + 1 / change.count)
    assert noise.freedom == freedom
    assert contrast.high / error == pytest.approx(critical, rel=0.02)


@pytest.mark.parametrize(("changes", "freedom"), DUNNETT)
def test_several_changes_are_dunnett(changes: int, freedom: int) -> None:
    count = freedom // (changes + 1) + 1
    noise, contrasts = compare(spread(count, 1.0), [spread(count, 1.0)] * changes)
    assert noise.freedom == freedom
    error = noise.sd * math.sqrt(2 / count)
    mean = sum(contrast.high for contrast in contrasts) / changes / error
    # On the safe side of the table by what the draws themselves leave to chance.
    assert DUNNETT[changes, freedom] <= mean <= 1.035 * DUNNETT[changes, freedom]


def test_p_and_interval_agree() -> None:
    for distance in np.linspace(1.5, 3.5, 21):
        _, contrasts = compare(spread(6, 1.0), [spread(3, 1.0, distance), spread(3, 1.0)])
        for contrast in contrasts:
            if abs(contrast.p_adjusted - 0.05) > 0.003:
                assert contrast.seen == (contrast.p_adjusted < 0.05)
            assert contrast.p <= contrast.p_adjusted


ARMS = st.lists(
    st.lists(st.floats(-4, 4).map(lambda value: round(value, 3)), min_size=2, max_size=5),
    min_size=2,
    max_size=5,
)


@given(ARMS)
def test_an_improvement_and_its_mirror_agree(values: list[list[float]]) -> None:
    """A p-value once took the difference with its sign, and no improvement was ever significant."""
    noise, contrasts = compare(arm(*values[0]), [arm(*each) for each in values[1:]])
    mirror, mirrored = compare(
        arm(*(-value for value in values[0])), [arm(*(-value for value in each)) for each in values[1:]]
    )
    assert mirror == noise
    for one, other in zip(contrasts, mirrored, strict=True):
        assert (other.p, other.p_adjusted, other.smallest) == (one.p, one.p_adjusted, one.smallest)
        assert (other.difference, other.low, other.high) == (-one.difference, -one.high, -one.low)


@given(ARMS, st.floats(-50, 50), st.floats(0.01, 100))
def test_neither_level_nor_unit_decides(values: list[list[float]], level: float, unit: float) -> None:
    assume(max(map(np.ptp, values)) > 0.01)
    contrasts = compare(arm(*values[0]), [arm(*each) for each in values[1:]])[1]
    moved = [arm(*(level + unit * value for value in each)) for each in values]
    for one, other in zip(contrasts, compare(moved[0], moved[1:])[1], strict=True):
        # To the few draws that rounding carries over the measured ratio.
        assert other.p == pytest.approx(one.p, abs=3 / DRAWS)
        assert other.p_adjusted == pytest.approx(one.p_adjusted, abs=0.002)
        assert other.low == pytest.approx(unit * one.low, rel=1e-6, abs=1e-6 * unit)


@pytest.mark.parametrize("seed", range(12))
def test_the_p_value_of_one_change_is_students(seed: int) -> None:
    stats = pytest.importorskip("scipy.stats")
    random = np.random.default_rng(seed)
    base, change = random.standard_normal(2 + seed % 5), random.standard_normal(2 + seed % 3) + seed % 4 - 1.5
    expected = float(stats.ttest_ind(base, change).pvalue)
    found = compare(Arm(base), [Arm(change)])[1][0]
    chance = 4 * math.sqrt(expected * (1 - expected) / DRAWS) + 1 / DRAWS
    assert found.p == pytest.approx(expected, abs=chance)
    assert expected <= found.p_adjusted + chance


def test_more_changes_need_more_evidence() -> None:
    change = spread(3, 1.0, 2.5)
    few = compare(spread(9, 1.0), [change])[1][0]
    many = compare(spread(9, 1.0), [change, *[spread(3, 1.0)] * 7])[1][0]
    assert few.seen and few.p_adjusted < many.p_adjusted


def test_an_arm_that_lost_a_run_does_not_speak_for_the_noise() -> None:
    base, wild = spread(6, 1.0), arm(0.0, 40.0, steady=False)
    alone = noise_floor(base, [spread(3, 1.0)])
    beside = noise_floor(base, [spread(3, 1.0), wild])
    assert beside.sd == alone.sd == pytest.approx(1.0)
    assert beside.pooled == (0,) and beside.noisier == (1,)


def test_a_visibly_noisier_arm_is_judged_with_its_own_noise() -> None:
    base, wild = spread(9, 1.0), spread(3, 30.0, 20.0)
    noise, (calm, loud) = compare(base, [spread(3, 1.0, 3.0), wild])
    assert noise.noisier == (1,) and noise.sd == pytest.approx(1.0)
    assert loud.noise == pytest.approx(30.0) and not loud.seen
    assert calm.seen  # and the other change does not suffer


@pytest.mark.parametrize("count", [3, 4, 6])
def test_a_noisier_arm_has_the_freedom_of_its_own_runs(count: int) -> None:
    """Beside its noise the baseline's is nothing, so the interval is Student's of these runs alone."""
    stats = pytest.importorskip("scipy.stats")
    noise, (loud,) = compare(spread(12, 1e-3), [spread(count, 1.0, 1.5)])
    assert noise.noisier == (0,) and noise.freedom == 11
    error = 1 / math.sqrt(count)
    assert (loud.high - loud.difference) / error == pytest.approx(stats.t.ppf(0.975, count - 1), rel=0.05)
    expected = float(stats.ttest_1samp(spread(count, 1.0, 1.5).values, 0.0).pvalue)
    assert loud.p == pytest.approx(expected, abs=4 * math.sqrt(expected / DRAWS))


def test_a_little_more_noise_stays_in_the_pool() -> None:
    noise = noise_floor(spread(6, 1.0), [spread(3, 2.0)])
    assert noise.pooled == (0,) and noise.sd == pytest.approx(math.sqrt((5 + 2 * 4) / 7))


def test_one_run_of_a_change_can_be_judged() -> None:
    _, (far, near) = compare(spread(8, 1.0), [arm(9.0), arm(0.5)])
    assert far.seen and not near.seen


def test_without_two_like_runs_there_is_no_noise() -> None:
    with pytest.raises(ValueError, match="cannot be measured"):
        compare(arm(1.0), [arm(2.0)])


def test_runs_equal_to_the_last_digit() -> None:
    _, (same, other) = compare(arm(2, 2, 2, 2), [arm(2, 2, 2), arm(2.1, 2.1, 2.1)])
    assert not same.seen and other.seen


def test_the_smallest_visible_difference_is_seen_19_times_of_20() -> None:
    random = np.random.default_rng(5)
    shift = smallest_visible(2, 3, 6)
    seen = 0
    for _ in range(200):
        values = random.standard_normal((3, 6))
        seen += compare(Arm(values[0]), [Arm(shift + values[1, :3]), Arm(values[2, :3])])[1][0].seen
    assert 0.90 <= seen / 200 <= 0.99


def test_no_effect_is_rarely_seen() -> None:
    random = np.random.default_rng(6)
    alarms = 0
    for _ in range(250):
        arms = [Arm(random.standard_normal(3)) for _ in range(4)]
        alarms += any(found.seen for found in compare(Arm(random.standard_normal(9)), arms)[1])
    assert alarms / 250 <= 0.092  # 0.05 and three standard errors


def test_default_noise_reaches_three_deviations_and_is_the_least() -> None:
    for seeds, changes in ((3, 1), (3, 3), (4, 2), (5, 8)):
        extra = default_noise(seeds, changes)
        assert smallest_visible(changes, seeds, seeds + extra) <= 3
        assert extra == 0 or smallest_visible(changes, seeds, seeds + extra - 1) > 2.9
    assert default_noise(1, 5) > 0


def units(
    random: np.random.Generator, runs: int, *, bump: np.ndarray | float = 0.0, tau: float = 0.1
) -> np.ndarray:
    return 2.0 + bump + tau * random.standard_normal((runs, 100))


def test_documents_widen_an_interval_where_the_change_depends_on_them() -> None:
    random = np.random.default_rng(7)
    sizes, uneven = np.full(100, 1000.0), random.standard_normal(100)

    def of(nats: np.ndarray) -> Arm:
        return Arm(nats.mean(axis=1), True, resample(nats * sizes, sizes))

    base = units(random, 6)
    even, odd = units(random, 3, bump=0.05), units(random, 3, bump=0.05 + 0.5 * uneven - 0.5 * uneven.mean())
    plain = compare(of(base), [of(even)])[1][0]
    wide = compare(of(base), [of(odd)])[1][0]
    without = compare(Arm(base.mean(axis=1)), [Arm(even.mean(axis=1))])[1][0]
    assert wide.high - wide.low > 3 * (plain.high - plain.low)
    # What is chance between runs is in the noise floor already, and is not counted again.
    assert plain.high - plain.low < 1.15 * (without.high - without.low)


def test_what_runs_do_alike_on_documents_is_not_counted_twice() -> None:
    """Runs that differ in chance alone: over many studies, documents add next to nothing to the interval."""
    random, sizes, wider = np.random.default_rng(9), np.full(60, 1000.0), []
    others = [spread(3, 0.1 / math.sqrt(60))] * 8  # so that the noise floor is known well
    for _ in range(15):
        nats = 2.0 + 0.1 * random.standard_normal((4, 60))
        base, change = (
            Arm(part.mean(axis=1), True, resample(part * sizes, sizes)) for part in (nats[:2], nats[2:])
        )
        whole = compare(base, [change, *others])[1][0]
        without = compare(Arm(base.values), [Arm(change.values), *others])[1][0]
        wider.append((whole.high - whole.low) / (without.high - without.low))
    assert np.median(wider) < 1.1


def test_resampling_matches_the_textbook_variance_of_a_mean() -> None:
    random = np.random.default_rng(8)
    nats = random.standard_normal((2, 80)) + 3
    drawn = resample(nats, np.ones(80))
    assert drawn.shape == (DRAWS, 2)
    assert drawn.mean(axis=0) == pytest.approx(nats.mean(axis=1), abs=0.01)
    assert drawn.std(axis=0) == pytest.approx(nats.std(axis=1) / math.sqrt(80), rel=0.05)


def test_many_units_are_grouped_without_losing_any() -> None:
    nats = np.arange(2 * 1003, dtype=float).reshape(2, 1003)
    assert resample(nats, np.ones(1003)).mean(axis=0) == pytest.approx(nats.mean(axis=1), rel=0.02)


@given(st.floats(0.01, 50), st.integers(1, 12), st.integers(1, 40))
def test_f_tail_is_the_f_distribution(ratio: float, upper: int, lower: int) -> None:
    stats = pytest.importorskip("scipy.stats")
    assert f_tail(ratio, upper, lower) == pytest.approx(stats.f.sf(ratio, upper, lower), rel=1e-9, abs=1e-14)


def test_f_tail_of_two_degrees_has_a_closed_form() -> None:
    assert f_tail(4.0, 2, 10) == pytest.approx((1 + 2 * 4 / 10) ** -5)
    assert f_tail(math.inf, 2, 10) == 0 and f_tail(0.0, 2, 10) == 1


def test_the_same_numbers_give_the_same_answer() -> None:
    first = compare(spread(6, 1.0), [spread(3, 1.0, 2.0), spread(3, 20.0)])
    assert first == compare(spread(6, 1.0), [spread(3, 1.0, 2.0), spread(3, 20.0)])
