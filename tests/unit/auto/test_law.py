"""The law: what it says at its ends, how sure it is, and that what is shipped can be read."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from octavo.auto.law import NAMES, as_plain, law_from, shares, shipped_law, slopes
from unit.auto.laws import VALUES, made_up

POINTS = st.tuples(st.floats(1e4, 1e8), st.floats(1e3, 1e10), st.floats(1e4, 1e9))


@given(point=POINTS)
def test_never_worse_than_counting_and_never_below_nothing(point: tuple[float, ...]) -> None:
    assert 0 < made_up().share(*point) <= 1


def test_by_hand() -> None:
    """2 million parameters, 4 million bytes, of 1 million that are different."""
    network = 0.7 + ((0.05 * 2**-0.5) ** 3 + (0.3 * 4**-0.5) ** 3) ** (1 / 3) + 0.01 * 2**0.5 * 4
    wanted = -0.05 * np.log(np.exp(-1 / 0.05) + np.exp(-network / 0.05))
    assert made_up().share(2e6, 4e6, 1e6) == pytest.approx(wanted, rel=1e-12)


def test_more_data_helps_and_too_many_passes_do_not() -> None:
    law = made_up()
    assert law.share(1e6, 4e6, 1e7) < law.share(1e6, 1e6, 1e7)
    assert law.share(1e6, 2e8, 1e6) > law.share(1e6, 4e6, 1e6)


def test_it_is_less_sure_outside_of_what_it_was_fitted_on() -> None:
    law = made_up()
    inside = law.error(1e6, 1e6, 1e6)
    assert inside == pytest.approx(np.hypot(0.02, 0.03), rel=0.1)
    assert law.error(1e6, 1e9, 1e6) > 2 * inside
    assert law.error(1e8, 1e6, 1e6) > 2 * inside
    assert law.outside(1e6, 1e6, 1e6) == 0


def test_a_pilot_tells_of_what_kind_a_text_is() -> None:
    law, point, later = made_up(), (1e5, 3e5, 1e6), (1e6, 1e7, 1e6)
    expected, usual = law.share(*point), np.hypot(law.residual, law.alike)
    for near in (expected, expected + 1.7 * usual, expected - 1.7 * usual):
        alike = law.known(near, *point)
        assert alike.share(*later) == law.share(*later)
        assert alike.error(*later) < law.error(*later)
    apart = law.known(0.7 * expected, *point)
    assert apart.share(*point) == pytest.approx(0.7 * expected)
    assert apart.share(*later) == pytest.approx(0.7 * law.share(*later))
    assert apart.error(*later) == pytest.approx(np.hypot(law.residual, 0.3 * 0.3 * expected), rel=0.05)
    assert law.known(2 * expected, *point).share(*point) == 1, "never worse than before the first step"


def test_slopes_are_those_of_the_shares() -> None:
    values = np.array([VALUES[name] for name in NAMES])
    points = np.array([[1e6, 3e6, 1e6], [1e5, 1e5, 1e5]])
    found = slopes(values, points)
    up, down = values.copy(), values.copy()
    up[3] += 1e-4
    down[3] -= 1e-4
    assert (shares(up, points) - shares(down, points)) / 2e-4 == pytest.approx(
        found[:, 3], rel=1e-3, abs=1e-6
    )


def test_to_plain_data_and_back() -> None:
    law = made_up()
    plain = as_plain(
        law.values,
        np.array(law.covariance),
        residual=law.residual,
        text=law.text,
        alike=law.alike,
        beyond=law.beyond,
        ranges=law.ranges,
    )
    assert law_from(json.loads(json.dumps(plain))) == law


def test_the_shipped_law_says_what_experience_says() -> None:
    """Of text that does not repeat, more is better, and a large model has more of it; text seen too often is not."""
    law = shipped_law()
    small, large, text = 1e5, 2e6, 1e7
    assert law.share(small, 3e6, text) < law.share(small, 2e5, text) < 1
    assert law.share(large, 3e6, text) < law.share(small, 3e6, text)
    assert law.share(large, 4e7, 3e4) > law.share(large, 3e6, 3e4), (
        "it knows 30 kB by heart after so many passes"
    )
    assert law.share(small, 3e6, 3e4) < law.share(small, 3e5, 3e4), (
        "a small one does not yet, after a hundred"
    )
    assert 0.005 < law.error(1e6, 2e6, text) < 0.2
