"""The ceiling: closed forms, no policy above it, and samples that say where they end."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import pytest

from octavo.errors import InputError
from octavo.tuning import ceiling
from octavo.tuning.ceiling import (
    LEAST,
    _chosen,
    _effective,
    _table,
    exact_best_of_n,
    exact_frontier,
    sampled_best_of_n,
    sampled_frontier,
    tilted,
)
from octavo.util.stats import LEVEL

FOUND = {-1.0: 0.2, 0.0: 0.5, 0.5: 0.2, 3.0: 0.1}


def binary_cost(share: float, wanted: float) -> float:
    """Nats to raise a prompt's success rate from `share` to `wanted`, at the least: the closed form for rewards of 0
    and 1. Infinite where nothing succeeds, or nothing fails, and another share is wanted."""
    return sum(
        0.0 if q == 0 else math.inf if p == 0 else q * math.log(q / p)
        for q, p in ((wanted, share), (1 - wanted, 1 - share))
    )


@pytest.mark.parametrize("share", [0.01, 0.3, 0.97])
def test_rewards_of_0_and_1_cost_what_the_closed_form_says(share: float) -> None:
    curve = exact_frontier({0.0: 1 - share, 1.0: share})
    for kl, reward in zip(curve.kl, curve.reward, strict=True):
        assert kl == pytest.approx(binary_cost(share, reward), abs=1e-9)
    assert (curve.reward[0], curve.kl[0]) == (pytest.approx(share), 0.0)
    assert (curve.reward[-1], curve.kl[-1]) == (1.0, pytest.approx(-math.log(share)))


def test_prompts_share_the_cost_prompt_by_prompt() -> None:
    """At one β each prompt's cost is its own closed form; their mean is the curve's."""
    rewards = np.array([[1.0] * 2 + [0.0] * 18, [1.0] * 10 + [0.0] * 10])
    reward, kl, _ = tilted(rewards, np.full((2, 20), 1 / 20), 0.7)
    assert kl == pytest.approx([binary_cost(0.1, reward[0]), binary_cost(0.5, reward[1])])


def test_the_tilted_policy_is_p_times_exp_r_over_beta() -> None:
    values, p = np.array(list(FOUND)), np.array(list(FOUND.values()))
    q = p * np.exp(values / 0.8)
    q /= q.sum()
    reward, kl, found = tilted(values[None], p[None], 0.8)
    assert found[0] == pytest.approx(q)
    assert reward[0] == pytest.approx(q @ values)
    assert kl[0] == pytest.approx((q * np.log(q / p)).sum())
    assert kl[0] == pytest.approx(q @ values / 0.8 - np.log((p * np.exp(values / 0.8)).sum()))


def test_no_policy_lies_above_the_ceiling() -> None:
    curve, random = exact_frontier(FOUND), np.random.default_rng(0)
    values, p = np.array(list(FOUND)), np.array(list(FOUND.values()))
    for q in random.dirichlet(np.full(4, 0.7), 300):
        kl = (q[q > 0] * np.log(q[q > 0] / p[q > 0])).sum()
        at = curve.reward_at(kl)
        # Between its points the curve is drawn straight, which is a little too low.
        assert q @ values <= (curve.reward[-1] if at is None else at) + 0.01


def test_the_curve_answers_both_ways() -> None:
    curve = exact_frontier(FOUND)
    assert curve.reward_at(curve.kl[20]) == pytest.approx(curve.reward[20])
    assert curve.kl_at(curve.reward[20]) == pytest.approx(curve.kl[20])
    assert curve.reward_at(99.0) is None and curve.kl_at(3.1) is None
    assert curve.kl_at(-5.0) == 0.0


def test_best_of_n_without_ties_has_the_known_kl() -> None:
    """log n − (n − 1)/n, in the limit of many different texts."""
    best = exact_best_of_n({float(i): 1 / 20000 for i in range(20000)})
    for n, kl in zip(best.labels, best.kl, strict=True):
        assert kl == pytest.approx(math.log(n) - (n - 1) / n, abs=2e-3)


def test_best_of_n_with_ties_is_the_best_of_n_draws() -> None:
    """By every one of 4³ triples; less than the bound says."""
    values, p = list(FOUND), list(FOUND.values())
    q = dict.fromkeys(values, 0.0)
    for a in range(4):
        for b in range(4):
            for c in range(4):
                q[max(values[a], values[b], values[c])] += p[a] * p[b] * p[c]
    best = exact_best_of_n(FOUND, (1, 3))
    assert best.reward[1] == pytest.approx(sum(v * s for v, s in q.items()))
    assert best.kl[1] == pytest.approx(sum(s * math.log(s / FOUND[v]) for v, s in q.items()))
    assert best.kl[1] < math.log(3) - 2 / 3 and best.kl[0] == 0.0


def test_of_0_and_1_best_of_n_lies_on_the_ceiling() -> None:
    curve, best = exact_frontier({0.0: 0.9, 1.0: 0.1}), exact_best_of_n({0.0: 0.9, 1.0: 0.1})
    for kl, reward in zip(best.kl, best.reward, strict=True):
        assert kl == pytest.approx(binary_cost(0.1, reward), abs=1e-9)
    assert best.kl[-1] < curve.kl[-1]


def draw(count: int, seed: int) -> np.ndarray:
    random = np.random.default_rng(seed)
    return random.choice(list(FOUND), size=count, p=list(FOUND.values()))


def test_samples_find_the_curve_within_their_interval(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ceiling, "POINTS", 16)
    monkeypatch.setattr(ceiling, "DRAWS", 200)
    truth, held = exact_frontier(FOUND), 0
    for seed in range(12):
        curve = sampled_frontier([draw(400, seed)], seed=seed)
        at = truth.reward_at(0.4)
        assert at is not None
        low, high = (np.interp(0.4, curve.kl, side) for side in (curve.low, curve.high))
        held += bool(low <= at <= high)
    assert held >= 9  # of 12 at 95 %: fewer in one of 450 times


def test_best_of_n_of_samples_has_no_bias(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ceiling, "DRAWS", 2)
    truth = exact_best_of_n(FOUND, (1, 2, 8))
    found = np.array([sampled_best_of_n([draw(60, seed)], (1, 2, 8)).reward for seed in range(40)])
    error = found.std(0) / math.sqrt(len(found))
    assert (np.abs(found.mean(0) - truth.reward) < 4 * error).all()


def test_the_curve_ends_where_too_few_samples_carry_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ceiling, "DRAWS", 40)
    random = np.random.default_rng(1)
    short, long = (sampled_frontier([random.exponential(size=count)]) for count in (100, 3000))
    assert 0 < short.kl[-1] < long.kl[-1]
    assert "More samples lead further" in short.ends and short.kl[-1] < math.log(100 / LEAST) + 1
    table = np.random.default_rng(1).exponential(size=100)[None]
    _, _, q = tilted(table, np.full((1, 100), 0.01), float(short.labels[-1]))
    assert 1 / (q**2).sum() >= LEAST
    best = sampled_best_of_n([random.exponential(size=100)])
    assert best.labels[-1] < 64 and "n =" in best.ends


def test_rewards_that_are_all_alike_give_a_point() -> None:
    for curve in (exact_frontier({0.7: 1.0}), sampled_frontier([np.full(5, 0.7)])):
        assert list(curve.kl) == [0.0] and curve.reward == pytest.approx([0.7])


def test_what_has_no_reward_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ceiling, "DRAWS", 40)
    random = np.random.default_rng(2)
    rewards = random.integers(0, 2, 200).astype(float)
    holed = np.concatenate((rewards, [math.nan, math.inf]))
    assert sampled_frontier([holed]).as_dict("beta") == sampled_frontier([rewards]).as_dict("beta")
    with pytest.raises(InputError, match="two texts or more"):
        sampled_frontier([np.array([1.0, math.nan])])
    few = sampled_best_of_n([np.array([1.0, 2.0])])
    assert list(few.labels) == [1] and "n = 1" in few.ends
    assert list(sampled_frontier([np.array([1.0, 2.0])]).reward) == [1.5]


@pytest.mark.parametrize("prompts", [1, 12])
def test_the_interval_is_that_of_other_prompts_and_other_texts(
    prompts: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Prompts differ far more than texts of one: were they not drawn again, it would hold in one of four cases."""
    monkeypatch.setattr(ceiling, "DRAWS", 120)
    random, held, count = np.random.default_rng(5), 0, 80
    for seed in range(count):
        # Rates of success around 1/2; of one prompt alone it is that prompt that counts.
        rates = random.beta(0.5, 0.5, prompts) if prompts > 1 else np.array([0.4])
        rewards = [random.binomial(1, rate, 30).astype(float) for rate in rates]
        best = sampled_best_of_n(rewards, (1,), seed=seed)
        held += bool(best.low[0] <= (0.5 if prompts > 1 else 0.4) <= best.high[0])
    assert LEVEL - 0.09 <= held / count <= min(LEVEL + 0.06, 0.995)


def test_the_best_of_n_is_drawn_without_putting_back() -> None:
    """By every choice of n of few texts; so of all of them it is surely the best."""
    rewards = np.array([0.0, 1.0, 1.0, 4.0, 9.0, 9.5])
    _, counts = _table([rewards])
    for n in (1, 2, 3, 6):
        best = [max(one) for one in combinations(rewards, n)]
        expected = [np.mean([value == one for value in best]) for one in np.unique(rewards)]
        assert _chosen(counts, n)[0] == pytest.approx(expected)


def test_effective_samples_are_those_of_the_mean_prompt() -> None:
    """Of a weight that is even over some of a prompt's texts it is how many those are."""
    table, counts = _table([np.arange(20.0), np.arange(20.0), np.ones(20)])
    q = np.zeros_like(counts)
    q[0, :4], q[1, :16], q[2, 0] = 1 / 4, 1 / 16, 1
    assert _effective(q, table, counts) == pytest.approx((4 + 16) / 2), (
        "one whose texts are alike is never too few"
    )


def test_the_base_has_the_same_interval_on_both_curves() -> None:
    rewards = [draw(40, seed) + seed for seed in range(5)]
    curve, best = sampled_frontier(rewards, seed=3), sampled_best_of_n(rewards, (1, 2), seed=3)
    assert (curve.low[0], curve.reward[0], curve.high[0]) == pytest.approx(
        (best.low[0], best.reward[0], best.high[0])
    )
