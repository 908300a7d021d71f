"""Learning-rate schedules, value by value; what holds for all of them stands in the contract tests."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from octavo.config.parts import parts
from octavo.training.schedules import constant, cosine, inverse_root, linear, stable_decay, warmed

floors = st.floats(0, 1)


def test_constant() -> None:
    assert {constant(step) for step in range(100)} == {1.0}


def test_linear_by_hand() -> None:
    assert [linear(step, steps=5, floor=0.0) for step in range(6)] == [1, 0.75, 0.5, 0.25, 0, 0]
    assert [linear(step, steps=3, floor=0.5) for step in range(3)] == [1, 0.75, 0.5]


def test_cosine_by_hand() -> None:
    found = [cosine(step, steps=5, floor=0.2) for step in range(5)]
    half = 0.8 * 0.5
    expected = [1, 0.2 + half * (1 + math.sqrt(0.5)), 0.6, 0.2 + half * (1 - math.sqrt(0.5)), 0.2]
    assert found == pytest.approx(expected)


def test_stable_decay_by_hand() -> None:
    found = [stable_decay(step, steps=10, decay=0.5, floor=0.0) for step in range(10)]
    assert found == pytest.approx([1, 1, 1, 1, 1, 1, 0.75, 0.5, 0.25, 0])


def test_inverse_root_by_hand() -> None:
    found = [inverse_root(step, scale=4) for step in (0, 4, 12, 32)]
    assert found == pytest.approx([1, math.sqrt(0.5), 0.5, 1 / 3])
    by_warmup = parts("schedule")["inverse-root"](warmup=3, scale=4).build(steps=100)  # pyrefly: ignore
    # The paper's min(step^-½, step · warmup^-1.5), each in terms of its highest value.
    assert [by_warmup(step) for step in (0, 3, 15)] == pytest.approx([0.25, 1, 0.5])


def test_warm_up_by_hand() -> None:
    found = [warmed(constant, warmup=4)(step) for step in range(6)]
    assert found == pytest.approx([0.2, 0.4, 0.6, 0.8, 1, 1])
    assert warmed(constant, warmup=0)(0) == 1


@given(st.integers(0, 500), st.integers(1, 400), floors)
def test_factors_lie_between_the_floor_and_1(step: int, steps: int, floor: float) -> None:
    for factor in (cosine(step, steps=steps, floor=floor), linear(step, steps=steps, floor=floor)):
        assert floor - 1e-12 <= factor <= 1 + 1e-12


@given(st.integers(0, 500), st.integers(1, 400), floors, st.floats(0.01, 1))
def test_stable_decay_lies_between_too(step: int, steps: int, floor: float, decay: float) -> None:
    assert floor - 1e-12 <= stable_decay(step, steps=steps, decay=decay, floor=floor) <= 1 + 1e-12


@pytest.mark.parametrize("kind", parts("schedule"))
@pytest.mark.parametrize("steps", [1, 2])
def test_the_shortest_runs(kind: str, steps: int) -> None:
    """They learn: the first step is at the full rate."""
    factor = parts("schedule")[kind]().build(steps=steps)
    assert factor(0) == 1


@pytest.mark.parametrize("kind", parts("schedule"))
@pytest.mark.parametrize("warmup", [1, 5, 30])
def test_a_fall_begins_where_the_warm_up_ends(kind: str, warmup: int) -> None:
    """What follows a warm-up is the whole schedule, as if the run began there."""
    config = parts("schedule")[kind]
    warmed, plain = config(warmup=warmup).build(steps=40), config().build(steps=40 - warmup)
    assert [warmed(step) for step in range(warmup, 40)] == [plain(step) for step in range(40 - warmup)]
    assert warmed(warmup) == 1 > warmed(warmup - 1)
