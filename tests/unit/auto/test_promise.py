"""Promises: how wide they are, and how earlier ones calibrate them."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from octavo.auto.choose import choices
from octavo.auto.train import LIKELY, NARROWEST, calibration, promise
from unit.auto.laws import made_up
from unit.auto.test_choose import FACTS, SPEEDS

BEST = choices(FACTS, SPEEDS, 60, made_up())[0]


def test_the_interval_holds_eighty_of_a_hundred() -> None:
    made = promise(1, BEST)
    drawn = random.Random(1)
    held = sum(made.holds(drawn.gauss(BEST.bits, BEST.error)) for _ in range(4000)) / 4000
    assert held == pytest.approx(0.8, abs=0.02)


def test_no_promise_is_below_nothing() -> None:
    made = promise(1, replace(BEST, bits=0.1, error=0.3), [-3.0] * 60)
    assert made.bits == 0 and "-" not in str(made)


def test_without_earlier_ones_nothing_changes() -> None:
    assert calibration([]) == (0, 1)


def test_promises_that_were_too_sure_widen_the_next_and_kept_ones_narrow_them() -> None:
    assert calibration([3, -3] * 20)[1] > 2
    assert calibration([0.1, -0.1] * 20)[1] < 0.6
    assert calibration([1.0] * 60) == (1, NARROWEST)
    assert 0 < calibration([1.0] * 5)[0] < 1, "a few of them move it on the way"
    assert promise(1, BEST, [1.0] * 60).bits > promise(1, BEST).bits
    assert promise(1, BEST, [3, -3] * 20).within > 2 * promise(1, BEST).within


def test_calibrated_promises_hold_eighty_of_a_hundred() -> None:
    """Where the law is off by half a standard deviation and half as sure as it should be, two hundred tell."""
    drawn = random.Random(2)
    shift, scale = calibration([drawn.gauss(0.5, 2) for _ in range(200)])
    new = [drawn.gauss(0.5, 2) for _ in range(4000)]
    assert sum(abs(each - shift) <= LIKELY * scale for each in new) / 4000 == pytest.approx(0.8, abs=0.04)


def test_promises_that_erred_to_one_side_widen_the_next_whichever_side_it_is() -> None:
    drawn = random.Random(3)
    earlier = [-4 * drawn.expovariate(1) for _ in range(300)]
    shift, scale = calibration(earlier)
    mirrored = calibration([-each for each in earlier])
    assert mirrored == (pytest.approx(-shift), pytest.approx(scale))
    new = [-4 * drawn.expovariate(1) for _ in range(4000)]
    assert sum(abs(each - shift) <= LIKELY * scale for each in new) / 4000 == pytest.approx(0.8, abs=0.04)


def test_one_text_like_no_other_does_not_spoil_all_promises() -> None:
    shift, scale = calibration([1000])
    assert 0 < shift < 0.2 and scale < 1.5
    assert calibration([1000, -1000])[0] == pytest.approx(0, abs=1e-9)
