"""Noise, intervals and corrected p-values: against the textbook where it has the answer, and by simulation."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from octavo.studies.chance import DRAWS, Shape, chance, pooled_floor, worlds
from octavo.studies.statistics import Arm, compare, default_noise, noise_floor, resample, smallest_visible


def arm(*values: float, steady: bool = True) -> Arm:
    return Arm(np.array(values, float), steady)


def spread(count: int, sd: float, mean: float = 0.0) -> Arm:
    """Values with exactly this mean and standard deviation."""
    values = np.arange(count) - (count - 1) / 2
    return Arm(mean + sd * values / values.std(ddof=1))


# Dunnett's two-sided 5 % values for equal groups (1964 table II): changes, degrees of freedom → critical value.
DUNNETT = {(1, 8): 2.31, (2, 12): 2.50, (3, 16): 2.59, (4, 20): 2.65}


@pytest.mark.parametrize(("changes", "freedom"), DUNNETT)
def test_unequal_noise_costs_a_fifth_to_a_quarter_of_dunnetts_interval(changes: int, freedom: int) -> None:
    """Dunnett's test holds where all arms are equally noisy; with five runs each the price of not needing that is
    bounded.
    """
    noise, contrasts = compare(spread(5, 1.0), [spread(5, 1.0)] * changes)
    assert noise.freedom == freedom
    critical = contrasts[0].high / (noise.sd * math.sqrt(2 / 5))
    assert 1.05 * DUNNETT[changes, freedom] <= critical <= 1.27 * DUNNETT[changes, freedom]


@pytest.mark.parametrize(("changes", "seeds", "noisy"), [(1, 3, 1), (3, 5, 2), (3, 3, 1), (8, 5, 4)])
@pytest.mark.parametrize("ratio", [1.0, 5.0])
def test_false_alarms_stay_rare_where_changes_are_noisier(
    changes: int, seeds: int, noisy: int, ratio: float
) -> None:
    """20,000 studies without a difference at once, drawn here; benchmarks/study_noise.py has the whole table."""
    shape = Shape((seeds + 3, *[seeds] * changes), (True,) * (changes + 1), (0,) * changes)
    random, counts = np.random.default_rng(17), np.array(shape.counts)
    spreads = np.where((np.arange(changes + 1) > 0) & (np.arange(changes + 1) <= noisy), ratio, 1.0)
    runs = [s * random.standard_normal((20_000, n)) for n, s in zip(shape.counts, spreads, strict=True)]
    means, variances = np.stack([r.mean(1) for r in runs], 1), np.stack([r.var(1, ddof=1) for r in runs], 1)
    used = np.maximum(variances, pooled_floor(variances, counts - 1.0)[0][:, None]) / counts
    ratios = np.abs(means[:, 1:] - means[:, :1]) / np.sqrt(used[:, 1:] + used[:, :1])
    found = chance(shape, [None] * changes)
    seen = ratios > np.array([found.critical(change) for change in range(changes)])
    assert seen.any(1).mean() <= 0.06
    if ratio == 1.0:  # and `compare` says the same of each
        for study in range(40):
            base, *arms = (Arm(run[study]) for run in runs)
            contrasts = compare(base, arms)[1]
            assert [contrast.seen for contrast in contrasts] == seen[study].tolist()


def slow_floor(variances: list[float], freedoms: list[int]) -> tuple[float, list[bool]]:
    """`pooled_floor` in words of one study."""
    inside = [freedom > 0 for freedom in freedoms]

    def mean(chosen: list[int]) -> float:
        return sum(variances[i] * freedoms[i] for i in chosen) / sum(freedoms[i] for i in chosen)

    while changes := [i for i in range(1, len(variances)) if inside[i]]:
        worst = max(changes, key=lambda i: variances[i])
        rest = [i for i in range(len(variances)) if inside[i] and i != worst]
        if not rest or variances[worst] <= 9 * mean(rest):
            break
        inside[worst] = False
    kept = [i for i in range(len(variances)) if inside[i]]
    return (mean(kept) if kept else 0.0), inside


@given(
    st.lists(st.tuples(st.floats(1e-6, 1e6), st.integers(0, 4)), min_size=2, max_size=6).filter(
        lambda arms: arms[0][1] > 0
    )
)
def test_the_floor_of_many_studies_is_that_of_one(arms: list[tuple[float, int]]) -> None:
    variances, freedoms = [variance for variance, _ in arms], [freedom for _, freedom in arms]
    found, inside = pooled_floor(np.array([variances] * 2), np.array(freedoms, float))
    expected, kept = slow_floor(variances, freedoms)
    assert found == pytest.approx(expected, rel=1e-6) and inside.tolist() == [kept] * 2


def test_worlds_are_the_studies_that_they_say() -> None:
    shape = Shape((6, 3, 3, 3), (True,) * 4, (0,) * 3)
    equal, *others = worlds(shape)
    assert equal.noisy == () and {(world.noisy, world.ratio) for world in others} == {
        (who, ratio) for who in ((1,), (1, 2), (1, 2, 3)) for ratio in (3.0, 5.0)
    }
    assert equal.deviation.std(axis=0) == pytest.approx(math.sqrt(1 / 3 + 1 / 6), rel=0.02)
    loud = next(world for world in others if (world.noisy, world.ratio) == ((1,), 5.0))
    assert loud.deviation.std(axis=0) == pytest.approx(
        [math.sqrt(25 / 3 + 1 / 6), *[math.sqrt(1 / 2)] * 2], rel=0.02
    )


def in_pairs(change: np.ndarray, base: np.ndarray, extra: int = 2) -> tuple[Arm, Arm]:
    seeds = tuple(range(len(base)))
    return Arm(base, seeds=seeds), Arm(change, seeds=seeds[: len(base) - extra])


def test_seeds_that_agree_are_compared_in_pairs() -> None:
    stats = pytest.importorskip("scipy.stats")
    random = np.random.default_rng(4)
    base = random.standard_normal(7)
    change = base[:5] + 0.2 + 0.1 * random.standard_normal(5)
    baseline, arm = in_pairs(change, base)
    (paired,) = compare(baseline, [arm])[1]
    (apart,) = compare(Arm(baseline.values), [Arm(arm.values)])[1]
    assert paired.pairs is not None and paired.pairs.decide and paired.pairs.count == 5
    assert paired.pairs.correlation == pytest.approx(np.corrcoef(change, base[:5])[0, 1])
    assert paired.seen and not apart.seen and apart.pairs is None
    assert paired.difference == pytest.approx(float((change - base[:5]).mean()))
    expected = stats.ttest_1samp(change - base[:5], 0.0)
    assert paired.p == pytest.approx(float(expected.pvalue), abs=0.002)
    low, high = expected.confidence_interval(0.95)
    assert (paired.low, paired.high) == (pytest.approx(low, rel=0.25), pytest.approx(high, rel=0.05))


@pytest.mark.parametrize("kept", [slice(0, 3), slice(0, 4)])
def test_few_pairs_stand_beside_and_do_not_decide(kept: slice) -> None:
    base = np.arange(6.0)
    seeds = tuple(range(6))
    (found,) = compare(Arm(base, seeds=seeds), [Arm(base[kept] + 0.01, seeds=seeds[kept])])[1]
    assert (
        found.pairs is not None and not found.pairs.decide and found.pairs.difference == pytest.approx(0.01)
    )
    assert not found.seen


def test_seeds_that_do_not_agree_are_not_paired() -> None:
    base, change = np.arange(7.0), np.array([3.0, 1.0, 4.0, 1.5, 2.0])
    baseline, arm = in_pairs(change, base)
    (found,) = compare(baseline, [arm])[1]
    (apart,) = compare(Arm(base), [Arm(change)])[1]
    assert found.pairs is not None and not found.pairs.decide
    assert (found.low, found.high, found.p) == (apart.low, apart.high, apart.p)


def test_seeds_that_go_against_each_other_are_not_paired() -> None:
    """Their differences are noisier than either arm."""
    base = np.random.default_rng(4).standard_normal(7)
    baseline, arm = in_pairs(-base[:5], base)
    (found,) = compare(baseline, [arm])[1]
    assert found.pairs is not None and found.pairs.correlation == pytest.approx(-1) and not found.pairs.decide
    assert (found.low, found.high) == (
        compare(Arm(baseline.values), [Arm(arm.values)])[1][0].low,
        compare(Arm(baseline.values), [Arm(arm.values)])[1][0].high,
    )


def test_too_few_seeds_are_told_from_no_difference() -> None:
    few = compare(spread(6, 1.0), [spread(3, 1.0, 2.3)])[1][0]
    more = compare(spread(8, 1.0), [spread(8, 1.0, 2.3)])[1][0]
    none = compare(spread(6, 1.0), [spread(3, 1.0, 0.5)])[1][0]
    assert (few.seen, few.too_few) == (False, True)
    assert (more.seen, more.too_few) == (True, False)
    assert (none.seen, none.too_few) == (False, False)


def test_p_and_interval_agree() -> None:
    for distance in np.linspace(1.5, 3.5, 21):
        _, contrasts = compare(spread(6, 1.0), [spread(3, 1.0, distance), spread(3, 1.0)])
        for contrast in contrasts:
            if abs(contrast.p_adjusted - 0.05) > 0.003:
                assert contrast.seen == (contrast.p_adjusted < 0.05)
            assert contrast.p <= contrast.p_adjusted


ARMS = st.lists(
    st.lists(st.floats(-4, 4).map(lambda value: round(value, 3)), min_size=3, max_size=3),
    min_size=2,
    max_size=4,
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


def test_more_changes_need_more_evidence() -> None:
    change = spread(5, 1.0, 1.6)
    few = compare(spread(9, 1.0), [change])[1][0]
    many = compare(spread(9, 1.0), [change, *[spread(5, 1.0)] * 7])[1][0]
    assert few.seen and not many.seen and few.p_adjusted < many.p_adjusted


def test_an_arm_that_lost_a_run_does_not_speak_for_the_noise() -> None:
    base, wild = spread(6, 1.0), arm(0.0, 40.0, steady=False)
    alone = noise_floor(base, [spread(3, 1.0)])
    beside = noise_floor(base, [spread(3, 1.0), wild])
    assert beside.sd == alone.sd == pytest.approx(1.0)
    assert beside.pooled == (0,) and beside.noisier == (1,)


def test_a_visibly_noisier_arm_is_judged_with_its_own_noise() -> None:
    base, wild = spread(9, 1.0), spread(3, 30.0, 20.0)
    noise, (calm, loud) = compare(base, [spread(3, 1.0, 5.0), wild])
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
    assert (loud.high - loud.difference) / error == pytest.approx(stats.t.ppf(0.975, count - 1), rel=0.08)
    expected = float(stats.ttest_1samp(spread(count, 1.0, 1.5).values, 0.0).pvalue)
    assert loud.p == pytest.approx(expected, rel=0.05, abs=4 * math.sqrt(expected / DRAWS))


def test_a_little_more_noise_stays_in_the_pool() -> None:
    noise = noise_floor(spread(6, 1.0), [spread(3, 2.0)])
    assert noise.pooled == (0,) and noise.sd == pytest.approx(math.sqrt((5 + 2 * 4) / 7))


def test_one_run_of_a_change_can_be_judged() -> None:
    _, (far, near) = compare(spread(8, 1.0), [arm(15.0), arm(2.0)])
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


@pytest.mark.parametrize(
    ("seeds", "changes", "extra"), [(5, 1, 0), (5, 3, 4), (5, 8, 10), (3, 1, 0), (1, 1, 2), (2, 1, 1)]
)
def test_the_baseline_has_root_k_times_the_runs_of_a_change(seeds: int, changes: int, extra: int) -> None:
    assert default_noise(seeds, changes) == extra


@pytest.mark.parametrize("changes", [1, 3, 8])
def test_five_seeds_see_what_is_a_little_above_three_noise_deviations(changes: int) -> None:
    assert smallest_visible(changes, 5, 5 + default_noise(5, changes)) <= 3.2


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
    assert wide.high - wide.low > 2.5 * (plain.high - plain.low)
    # What is chance between runs is in the noise floor already, and is not counted again.
    assert plain.high - plain.low < 1.15 * (without.high - without.low)


def test_what_runs_do_alike_on_documents_is_not_counted_twice() -> None:
    """Runs that differ in chance alone: over many studies, documents add next to nothing to the interval."""
    random, sizes, wider = np.random.default_rng(9), np.full(60, 1000.0), []
    others = [spread(3, 0.1 / math.sqrt(60))] * 4  # so that the noise floor is known well
    for _ in range(7):
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


def test_a_long_document_counts_for_what_it_is_long() -> None:
    """A loss is that of all text together, however it is cut: two halves of a document weigh what it did."""
    nats, sizes = np.array([[300.0, 10.0, 20.0, 30.0]]), np.array([100.0, 10.0, 10.0, 10.0])
    drawn = resample(np.repeat(nats, 20, axis=1), np.repeat(sizes, 20))
    assert drawn.mean() == pytest.approx(nats.sum() / sizes.sum(), rel=0.01)


def test_one_text_is_drawn_again_alike_for_all_runs_and_another_text_apart() -> None:
    nats = np.random.default_rng(3).standard_normal((2, 50)) + 3
    whole, alone = resample(nats, np.ones(50)), resample(nats[1:], np.ones(50))
    assert whole[:, 1] == pytest.approx(alone[:, 0])
    other = resample(nats[1:], np.ones(50), stream=1)
    assert abs(np.corrcoef(other[:, 0], alone[:, 0])[0, 1]) < 0.05


def test_many_units_are_grouped_without_losing_any() -> None:
    nats = np.arange(2 * 1003, dtype=float).reshape(2, 1003)
    assert resample(nats, np.ones(1003)).mean(axis=0) == pytest.approx(nats.mean(axis=1), rel=0.02)


def test_the_same_numbers_give_the_same_answer() -> None:
    first = compare(spread(6, 1.0), [spread(3, 1.0, 2.0), spread(3, 20.0)])
    assert first == compare(spread(6, 1.0), [spread(3, 1.0, 2.0), spread(3, 20.0)])
