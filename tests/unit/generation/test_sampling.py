"""Choosing a token: pure functions."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from octavo.generation.sampling import (
    Sampling,
    below_best,
    draw,
    keep_min_p,
    keep_top_k,
    keep_top_p,
    log_probabilities,
    penalized,
)

BELOW_ONE = 1 - 2.0**-53

logit = st.floats(-30, 30, width=32)
rows = st.lists(logit, min_size=1, max_size=12).map(lambda row: np.array([row], np.float32))
fractions = st.floats(0, BELOW_ONE)
shares = st.floats(0.01, 1.0)


def softmax(logits: np.ndarray) -> np.ndarray:
    weights = np.exp(logits.astype(np.float64) - logits.max())
    return weights / weights.sum(axis=-1, keepdims=True)


def kept(logits: np.ndarray) -> set[int]:
    return set(np.flatnonzero(logits[0] > -math.inf).tolist())


@given(rows, st.integers(1, 15))
def test_top_k_keeps_the_k_largest(logits: np.ndarray, k: int) -> None:
    stay = kept(keep_top_k(logits, k))
    ordered = sorted(logits[0].tolist(), reverse=True)
    threshold = ordered[min(k, len(ordered)) - 1]
    assert stay == {i for i, value in enumerate(logits[0].tolist()) if value >= threshold}
    if len(set(ordered)) == len(ordered):
        assert len(stay) == min(k, len(ordered))


@given(rows, shares)
def test_top_p_keeps_the_fewest_that_hold_p(logits: np.ndarray, p: float) -> None:
    probabilities = softmax(logits)[0]
    stay = kept(keep_top_p(logits.astype(np.float64), p))
    mass = probabilities[sorted(stay)].sum().item()
    assert mass >= p - 1e-12
    least = min(stay, key=lambda i: probabilities[i].item())
    assert mass - probabilities[least].item() < p + 1e-12, "without its least token it would hold less than p"
    assert min(probabilities[i] for i in stay) >= max(
        [probabilities[i] for i in range(len(probabilities)) if i not in stay], default=0
    )


@given(rows, shares)
def test_min_p_keeps_what_comes_near_the_best(logits: np.ndarray, p: float) -> None:
    stay = kept(keep_min_p(logits.astype(np.float64), p))
    probabilities = softmax(logits)[0].tolist()
    best = max(probabilities)
    assert {i for i, each in enumerate(probabilities) if each > p * best * (1 + 1e-9)} <= stay
    assert stay <= {i for i, each in enumerate(probabilities) if each >= p * best * (1 - 1e-9)}
    assert logits[0].argmax().item() in stay


@given(rows)
def test_filters_leave_the_kept_as_they_are(logits: np.ndarray) -> None:
    for found in (keep_top_k(logits, 3), keep_top_p(logits, 0.5), keep_min_p(logits, 0.2)):
        stay = sorted(kept(found))
        assert stay and np.array_equal(found[0, stay], logits[0, stay])


@given(rows, st.floats(1, 5))
def test_a_penalty_lowers_what_was_seen_and_nothing_else(logits: np.ndarray, penalty: float) -> None:
    seen = np.arange(logits.shape[1])[None] % 2 == 0
    found = penalized(logits, seen, penalty)
    assert np.array_equal(found[~seen], logits[~seen])
    assert (found[seen] <= logits[seen]).all()
    expected = [x / penalty if x > 0 else x * penalty for x in logits[seen].tolist()]
    assert found[seen].tolist() == pytest.approx(expected, rel=1e-6)


def test_a_penalty_of_1_changes_nothing() -> None:
    logits = np.array([[1.0, -2.0, 0.0]])
    assert np.array_equal(penalized(logits, np.ones((1, 3), bool), 1.0), logits)


@given(rows, fractions)
def test_a_draw_lies_where_the_sum_passes_the_number(logits: np.ndarray, uniform: float) -> None:
    token = draw(below_best(logits), np.array([uniform])).item()
    total = np.exp((logits - logits.max()).astype(np.float64)).cumsum(axis=-1)[0]
    target = uniform * total[-1].item()
    assert total[token].item() > target
    assert token == 0 or total[token - 1].item() <= target


@pytest.mark.parametrize("probabilities", [[0.5, 0.25, 0.25], [0.125, 0.0, 0.875], [0.0, 1.0, 0.0]])
def test_every_token_has_the_share_of_numbers_that_is_its_probability(probabilities: list[float]) -> None:
    """Exactly: 64 evenly spaced numbers, and probabilities that are multiples of 1/8."""
    uniform = np.arange(64) / 64
    with np.errstate(divide="ignore"):
        logits = np.tile(np.log(probabilities), (64, 1))
    uniform = uniform + 1e-9  # off the thresholds, which the logarithm has rounded
    counts = np.bincount(draw(below_best(logits), uniform), minlength=3)
    assert counts.tolist() == [64 * p for p in probabilities]


impossible = st.lists(st.one_of(logit, st.just(-math.inf)), min_size=2, max_size=10).filter(
    lambda row: max(row) > -math.inf
)


@given(impossible, st.one_of(fractions, st.sampled_from([0.0, BELOW_ONE])))
def test_a_token_of_probability_0_is_never_drawn(row: list[float], uniform: float) -> None:
    token = draw(below_best(np.array([row], np.float32)), np.array([uniform])).item()
    assert row[token] > -math.inf


settings = st.builds(
    Sampling,
    temperature=st.sampled_from([0.0, 5e-324, 1e-40, 1e-3, 0.7, 1.0, 3.0, 1e30]),
    top_k=st.none() | st.integers(1, 12),
    top_p=st.none() | shares,
    min_p=st.none() | shares,
    repetition_penalty=st.sampled_from([1.0, 0.5, 1.3, 10.0]),
)


@given(rows, fractions, settings)
def test_a_choice_survives_every_filter(logits: np.ndarray, uniform: float, sampling: Sampling) -> None:
    seen = np.arange(logits.shape[1])[None] % 3 == 0
    number = np.array([uniform])
    token = sampling.choose(logits, number, seen).item()
    changed = penalized(logits, seen, sampling.repetition_penalty)
    if sampling.temperature == 0:
        assert token == changed.argmax().item()
    if sampling.temperature < 1e-30:
        assert changed[0, token] == changed.max(), "a temperature next to 0 is next to greedy"
    if sampling.top_k is not None:
        assert token in kept(keep_top_k(changed, sampling.top_k))


@given(rows, fractions)
def test_plain_sampling_is_a_draw_from_the_softmax(logits: np.ndarray, uniform: float) -> None:
    number = np.array([uniform])
    assert np.array_equal(Sampling().choose(logits, number), draw(below_best(logits), number))


@given(rows, fractions)
def test_top_k_of_1_and_temperature_0_agree(logits: np.ndarray, uniform: float) -> None:
    if len(np.unique(logits[0])) == logits.shape[1]:
        number = np.array([uniform])
        assert np.array_equal(Sampling(top_k=1).choose(logits, number), logits.argmax(axis=-1))


def test_rows_are_chosen_apart() -> None:
    random = np.random.default_rng(0)
    logits, uniform = random.normal(size=(40, 9)).astype(np.float32), random.random(40)
    seen = random.random((40, 9)) > 0.5
    sampling = Sampling(temperature=0.8, top_k=6, top_p=0.9, min_p=0.05, repetition_penalty=1.2)
    together = sampling.drawn(logits, uniform, seen=seen)
    apart = [sampling.drawn(logits[i : i + 1], uniform[i : i + 1], seen=seen[i : i + 1]) for i in range(40)]
    assert together == tuple([one for (one,) in each] for each in zip(*apart, strict=True))


@given(rows, fractions, settings)
def test_log_probabilities_are_those_before_all_else(
    logits: np.ndarray, uniform: float, sampling: Sampling
) -> None:
    (token,), (known,) = sampling.drawn(logits, np.array([uniform]), seen=np.ones(logits.shape, bool))
    assert known == log_probabilities(logits)[0, token]
    assert math.exp(known) == pytest.approx(softmax(logits)[0, token], rel=1e-5)


@given(rows, fractions, settings, st.integers(0, 11))
def test_what_is_not_allowed_is_not_drawn(
    logits: np.ndarray, uniform: float, sampling: Sampling, only: int
) -> None:
    allowed = np.arange(logits.shape[1])[None] == only % logits.shape[1]
    tokens, (known,) = sampling.drawn(logits, np.array([uniform]), allowed=allowed)
    assert tokens == [only % logits.shape[1]] and known == log_probabilities(logits)[0, tokens[0]]
