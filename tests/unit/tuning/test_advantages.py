"""Advantages: what they do to a gradient, whatever the rewards; and which groups teach nothing."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from octavo.tuning.rollouts import Form, costs_ahead, credited, flat, group_advantages

FORMS: tuple[Form, ...] = ("rloo", "mean", "grpo")
REWARDS = st.lists(
    st.lists(st.sampled_from([0.0, 0.25, 1.0, -3.0, float("nan")]), min_size=3, max_size=3),
    min_size=1,
    max_size=5,
)


@pytest.mark.parametrize("form", FORMS)
@given(REWARDS)
def test_a_group_is_flat_where_none_of_its_texts_has_an_advantage(
    form: Form, rewards: list[list[float]]
) -> None:
    """Also where no text of it has a reward, or one alone."""
    table = np.array(rewards)
    teaches = (group_advantages(table, form) != 0).any(axis=1)
    assert flat(table) == int((~teaches).sum())


@pytest.mark.parametrize("form", FORMS)
def test_advantages_add_up_to_nothing_and_do_not_know_the_level(form: Form) -> None:
    rewards = np.random.default_rng(0).normal(size=(6, 5))
    rewards[1, 2] = rewards[4, 0] = np.nan
    found = group_advantages(rewards, form)
    assert found.sum(axis=1) == pytest.approx(0, abs=1e-12)
    assert group_advantages(rewards + 7, form) == pytest.approx(found)
    unit = 1.0 if form == "grpo" else 3.0
    assert group_advantages(3 * rewards, form) == pytest.approx(unit * found)
    assert not found[np.isnan(rewards)].any()


def test_the_leave_one_out_form_compares_with_the_others_alone() -> None:
    rewards = np.array([[1.0, 2.0, 6.0], [4.0, np.nan, 2.0]])
    assert group_advantages(rewards, "rloo") == pytest.approx(
        np.array([[1 - 4, 2 - 3.5, 6 - 1.5], [2, 0, -2]])
    )


@pytest.mark.parametrize("form", FORMS[:2])
def test_on_average_it_is_the_gradient_of_the_mean_reward(form: Form) -> None:
    """Two ways to write, of which one is worth 1: with four texts a group the mean of all shrinks it by 1 − 1/4."""
    random, p, group = np.random.default_rng(1), 0.3, 4
    wrote = random.random((200_000, group)) < p
    found = group_advantages(wrote.astype(float), form)
    gradient = (found * (wrote - p)).mean()  # of ln p by the logit
    exact = p * (1 - p) * (1.0 if form == "rloo" else 1 - 1 / group)
    assert gradient == pytest.approx(exact, abs=0.002)


def test_costs_ahead_are_those_that_a_token_can_still_change() -> None:
    costs = np.random.default_rng(2).random((2, 3, 5))
    own, after = costs_ahead(costs, own=True), costs_ahead(costs, own=False)
    others = costs[0, 1:].sum(axis=-1).mean()
    assert own[0, 0, 0] == pytest.approx(costs[0, 0].sum() - others)
    assert after[0, 0, 1] == pytest.approx(costs[0, 0, 2:].sum() - costs[0, 1:, 2:].sum(axis=-1).mean())
    assert after[..., -1] == pytest.approx(0)
    assert own.sum(axis=1) == pytest.approx(0) and after.sum(axis=1) == pytest.approx(0)


def test_credit_of_one_gives_each_token_what_was_still_to_come() -> None:
    """And with none but its own, what that token changed; less what the others of the group have there."""
    worth = np.random.default_rng(3).random((1, 3, 5))
    worth[0, 2] = np.nan
    whole, own = credited(worth, 1.0), credited(worth, 1e-12)
    ahead = worth[..., -1:] - worth[..., :-1]
    assert whole[0, 0] == pytest.approx(ahead[0, 0] - ahead[0, 1])
    changes = np.diff(worth, axis=-1)
    assert own[0, 0] == pytest.approx(changes[0, 0] - changes[0, 1])
    assert not whole[0, 2].any()
    half = credited(worth, 0.5)[0, 0, -2]
    both = changes[..., -2] + 0.5 * changes[..., -1]
    assert half == pytest.approx(both[0, 0] - both[0, 1])
