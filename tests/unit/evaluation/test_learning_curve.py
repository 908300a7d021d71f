"""Curves against what is known of them: the noise that was put in, least squares, and symmetries."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from octavo.evaluation.learning_curve import Curve

STEPS = np.arange(1, 101) * 50.0


def noisy(seed: int, *, noise: float = 0.02, slope: float = 0.0) -> Curve:
    """A straight line with normal noise."""
    scatter = noise * np.random.default_rng(seed).standard_normal(len(STEPS))
    return Curve(STEPS, 2.0 + slope * STEPS + scatter)


@pytest.mark.parametrize("slope", [0.0, -1e-4, 3e-4])
def test_the_noise_is_what_was_put_in(slope: float) -> None:
    found = [noisy(seed, slope=slope).noise for seed in range(40)]
    assert np.mean(found) == pytest.approx(0.02, rel=0.1)


def test_the_slopes_error_is_that_of_least_squares() -> None:
    trends = [noisy(seed, slope=-1e-4).trend() for seed in range(40)]
    assert all(trend is not None for trend in trends)
    slopes = [trend.slope for trend in trends if trend]
    exact = 0.02 / np.sqrt(((STEPS - STEPS.mean()) ** 2).sum())
    assert np.mean(slopes) == pytest.approx(-1e-4, abs=4 * exact / np.sqrt(40))
    assert np.std(slopes) == pytest.approx(exact, rel=0.35)
    assert np.mean([trend.error for trend in trends if trend]) == pytest.approx(1.1 * exact, rel=0.1)


@given(seed=st.integers(0, 1000), level=st.floats(-5, 5), slope=st.floats(-1e-3, 1e-3))
def test_a_line_moves_the_trend_and_not_the_noise(seed: int, level: float, slope: float) -> None:
    curve = noisy(seed)
    moved = Curve(curve.steps, curve.losses + level + slope * curve.steps)
    mirror = Curve(curve.steps, -curve.losses)
    before, after, other = curve.trend(), moved.trend(), mirror.trend()
    assert before is not None and after is not None and other is not None
    assert moved.noise == pytest.approx(curve.noise, rel=1e-6) and mirror.noise == curve.noise
    assert after.slope - slope == pytest.approx(before.slope, abs=1e-9)
    assert after.error == pytest.approx(before.error, rel=1e-6)
    assert (other.slope, other.error) == (-before.slope, pytest.approx(before.error))


def test_the_tail_is_the_share_of_steps_that_was_asked_for() -> None:
    assert noisy(1).tail(0.2).steps.tolist() == [4000.0 + 50 * n for n in range(21)]
    assert len(noisy(1).tail(1.0)) == 100


def test_the_noise_is_that_of_the_end() -> None:
    scatter = np.random.default_rng(0).standard_normal(400)
    losses = 2.0 + scatter * np.where(np.arange(400) < 200, 0.5, 0.02)
    assert Curve(np.arange(400.0), losses).noise == pytest.approx(0.02, rel=0.2)


def test_the_best_of_equal_losses_is_the_first() -> None:
    assert Curve(np.arange(5.0), np.array([3.0, 1.0, 2.0, 1.0, 4.0])).best == 1
