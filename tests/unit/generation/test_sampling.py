"""Choosing a token: pure functions."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from octavo.generation.sampling import Sampling, draw, keep_min_p, keep_top_k, keep_top_p, penalized

BELOW_ONE = 1 - 2.0**-53

logit = st.floats(-30, 30, width=32)
rows = st.lists(logit, min_size=1, max_size=12).map(lambda row: torch.tensor([row]))
fractions = st.floats(0, BELOW_ONE)
shares = st.floats(0.01, 1.0)


def kept(logits: Tensor) -> set[int]:
    return set(torch.nonzero(logits[0] > -math.inf).flatten().tolist())


@given(rows, st.integers(1, 15))
def test_top_k_keeps_the_k_largest(logits: Tensor, k: int) -> None:
    stay = kept(keep_top_k(logits, k))
    ordered = sorted(logits[0].tolist(), reverse=True)
    threshold = ordered[min(k, len(ordered)) - 1]
    assert stay == {i for i, value in enumerate(logits[0].tolist()) if value >= threshold}
    if len(set(ordered)) == len(ordered):
        assert len(stay) == min(k, len(ordered))


@given(rows, shares)
def test_top_p_keeps_the_fewest_that_hold_p(logits: Tensor, p: float) -> None:
    probabilities = logits.double().softmax(dim=-1)[0]
    stay = kept(keep_top_p(logits.double(), p))
    mass = probabilities[sorted(stay)].sum().item()
    assert mass >= p - 1e-12
    least = min(stay, key=lambda i: probabilities[i].item())
    assert mass - probabilities[least].item() < p + 1e-12, "without its least token it would hold less than p"
    assert min(probabilities[i] for i in stay) >= max(
        [probabilities[i] for i in range(len(probabilities)) if i not in stay], default=0
    )


@given(rows, shares)
def test_min_p_keeps_what_comes_near_the_best(logits: Tensor, p: float) -> None:
    stay = kept(keep_min_p(logits.double(), p))
    probabilities = logits.double().softmax(dim=-1)[0].tolist()
    best = max(probabilities)
    assert {i for i, each in enumerate(probabilities) if each > p * best * (1 + 1e-9)} <= stay
    assert stay <= {i for i, each in enumerate(probabilities) if each >= p * best * (1 - 1e-9)}
    assert logits[0].argmax().item() in stay


@given(rows)
def test_filters_leave_the_kept_as_they_are(logits: Tensor) -> None:
    for found in (keep_top_k(logits, 3), keep_top_p(logits, 0.5), keep_min_p(logits, 0.2)):
        stay = sorted(kept(found))
        assert stay and torch.equal(found[0, stay], logits[0, stay])


@given(rows, st.floats(1, 5))
def test_a_penalty_lowers_what_was_seen_and_nothing_else(logits: Tensor, penalty: float) -> None:
    seen = torch.arange(logits.size(1))[None] % 2 == 0
    found = penalized(logits, seen, penalty)
    assert torch.equal(found[~seen], logits[~seen])
    assert (found[seen] <= logits[seen]).all()
    expected = [x / penalty if x > 0 else x * penalty for x in logits[seen].tolist()]
    assert found[seen].tolist() == pytest.approx(expected, rel=1e-6)


def test_a_penalty_of_1_changes_nothing() -> None:
    logits = torch.tensor([[1.0, -2.0, 0.0]])
    assert torch.equal(penalized(logits, torch.ones(1, 3, dtype=torch.bool), 1.0), logits)


@given(rows, fractions)
def test_a_draw_lies_where_the_sum_passes_the_number(logits: Tensor, uniform: float) -> None:
    token = draw(logits, torch.tensor([uniform], dtype=torch.float64)).item()
    total = logits.double().softmax(dim=-1).cumsum(dim=-1)[0]
    target = uniform * total[-1].item()
    assert total[token].item() > target
    assert token == 0 or total[token - 1].item() <= target


@pytest.mark.parametrize("probabilities", [[0.5, 0.25, 0.25], [0.125, 0.0, 0.875], [0.0, 1.0, 0.0]])
def test_every_token_has_the_share_of_numbers_that_is_its_probability(probabilities: list[float]) -> None:
    """Exactly: 64 evenly spaced numbers, and probabilities that are multiples of 1/8."""
    uniform = torch.arange(64, dtype=torch.float64) / 64
    logits = torch.tensor(probabilities, dtype=torch.float64).log().expand(64, -1)
    uniform = uniform + 1e-9  # off the thresholds, which the logarithm has rounded
    counts = torch.bincount(draw(logits, uniform), minlength=3)
    assert counts.tolist() == [64 * p for p in probabilities]


impossible = st.lists(st.one_of(logit, st.just(-math.inf)), min_size=2, max_size=10).filter(
    lambda row: max(row) > -math.inf
)


@given(impossible, st.one_of(fractions, st.sampled_from([0.0, BELOW_ONE])))
def test_a_token_of_probability_0_is_never_drawn(row: list[float], uniform: float) -> None:
    token = draw(torch.tensor([row]), torch.tensor([uniform], dtype=torch.float64)).item()
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
def test_a_choice_survives_every_filter(logits: Tensor, uniform: float, sampling: Sampling) -> None:
    seen = torch.arange(logits.size(1))[None] % 3 == 0
    number = torch.tensor([uniform], dtype=torch.float64)
    token = sampling.choose(logits, number, seen).item()
    changed = penalized(logits, seen, sampling.repetition_penalty)
    if sampling.temperature == 0:
        assert token == changed.argmax().item()
    if sampling.temperature < 1e-30:
        assert changed[0, token] == changed.max(), "a temperature next to 0 is next to greedy"
    if sampling.top_k is not None:
        assert token in kept(keep_top_k(changed, sampling.top_k))


@given(rows, fractions)
def test_plain_sampling_is_a_draw_from_the_softmax(logits: Tensor, uniform: float) -> None:
    number = torch.tensor([uniform], dtype=torch.float64)
    shifted = logits - logits.max()
    assert torch.equal(Sampling().choose(logits, number), draw(shifted, number))


@given(rows, fractions)
def test_top_k_of_1_and_temperature_0_agree(logits: Tensor, uniform: float) -> None:
    if len(logits[0].unique()) == logits.size(1):
        number = torch.tensor([uniform], dtype=torch.float64)
        assert torch.equal(Sampling(top_k=1).choose(logits, number), logits.argmax(dim=-1))


def test_rows_are_chosen_apart() -> None:
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(40, 9, generator=generator)
    uniform = torch.from_numpy(np.random.default_rng(0).random(40))
    seen = torch.rand(40, 9, generator=generator) > 0.5
    sampling = Sampling(temperature=0.8, top_k=6, top_p=0.9, min_p=0.05, repetition_penalty=1.2)
    together = sampling.choose(logits, uniform, seen)
    apart = [sampling.choose(logits[i : i + 1], uniform[i : i + 1], seen[i : i + 1]) for i in range(40)]
    assert torch.equal(together, torch.cat(apart))
