"""The law: what it says at its ends, how sure it is, and that what is shipped can be read."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from guards.common import ROOT
from octavo.auto.law import (
    NAMES,
    OF_TEXTS,
    TRIED,
    Law,
    Told,
    as_plain,
    law_from,
    middle,
    shares,
    shipped_law,
    slopes,
    work,
)
from unit.auto.laws import VALUES, made_up

POINTS = st.tuples(st.floats(1e4, 1e8), st.floats(1e3, 1e10), st.floats(1e4, 1e9))


@given(point=POINTS)
def test_never_worse_than_counting_and_never_below_nothing(point: tuple[float, ...]) -> None:
    assert 0 < made_up().share(*point) <= 1


def test_by_hand() -> None:
    """2 million parameters, 6 million bytes, of 3 million that are different; a text that teaches twice as much."""
    network = 0.7 + ((0.05 * 2**-0.5) ** 3 + (0.3 * 6**-0.5) ** 3) ** (1 / 3)
    network = network * 3**0.05 + 0.01 * (2 / 3) ** 0.5 * 2
    wanted = -0.05 * np.log(np.exp(-1 / 0.05) + np.exp(-network / 0.05))
    assert made_up().share(2e6, 6e6, 3e6) == pytest.approx(wanted, rel=1e-12)
    told = replace(made_up(), told=Told(np.log(2e6 * 6e6), np.log(2), 0.1))
    assert told.share(2e6, 6e6, 3e6) == pytest.approx(wanted**2, rel=1e-12)


def test_more_data_helps_and_too_many_passes_do_not() -> None:
    law = made_up()
    assert law.share(1e6, 4e6, 1e7) < law.share(1e6, 1e6, 1e7)
    assert law.share(1e6, 2e8, 1e6) > law.share(1e6, 4e6, 1e6)


@pytest.mark.parametrize(("at", "sd"), [(0.0, 0.1), (0.7, 0.4), (-1.3, 0.05)])
def test_of_a_normal_distribution_it_knows_middle_and_deviation(at: float, sd: float) -> None:
    """Whatever it is multiplied with; of what is even around nothing the middle is nothing."""
    likely = np.exp(-(((TRIED - at) / sd) ** 2) / 2)
    assert middle(likely) == pytest.approx(middle(50 * likely))
    assert middle(likely) == pytest.approx((at, sd), abs=5e-4)
    between = np.exp(-(TRIED**2) / 2)  # or all places between two peaks far apart would be the middle
    assert middle(likely + likely[::-1] + between)[0] == pytest.approx(0, abs=1e-9)


def certain(law: Law) -> Law:
    """With values that are known for sure."""
    return replace(law, covariance=tuple((0.0,) * len(NAMES) for _ in NAMES))


def test_it_is_less_sure_outside_of_what_it_was_fitted_on() -> None:
    law = certain(made_up())
    share = law.share(1e6, 1e6, 1e6)
    texts = stats.t.ppf(0.9, 4) / stats.norm.ppf(0.9) * share * -np.log(share)
    there = replace(law, at=np.log(1e12)).error(1e6, 1e6, 1e6)
    assert there == pytest.approx(np.hypot(0.005, 0.3 * texts), rel=1e-3)
    apart = np.hypot(0.3, 0.1 * (np.log(1e12) - 26))
    assert law.error(1e6, 1e6, 1e6) == pytest.approx(np.hypot(0.005, apart * texts), rel=1e-3)
    everywhere = replace(law, ranges=dict.fromkeys(law.ranges, (1e-9, 1e99)))
    for point, times in (((1e6, 1e9, 1e6), 100), ((1e8, 1e6, 1e6), 20), ((1e3, 1e6, 1e6), 50)):
        assert law.error(*point) == pytest.approx((1 + np.log(times)) * everywhere.error(*point))
    assert law.outside(1e6, 1e6, 1e6) == 0


def test_the_numbers_of_the_fit_are_not_known_for_sure() -> None:
    """Where nothing else is uncertain, the error is theirs; a text that teaches twice as much is twice as far off."""
    point = (1e6, 1e6, 1e6)
    law = replace(made_up(residual=0.0, texts=0.0), bend=0.0)
    (slope,) = slopes(np.array(law.values), np.array([point]))
    assert law.error(*point) == pytest.approx(1e-3 * np.linalg.norm(slope), rel=1e-9)
    told = replace(law, told=Told(work(point), np.log(2), 0.0), texts=1e-9, beyond=0.0)
    assert told.error(*point) == pytest.approx(2 * law.share(*point) * law.error(*point), rel=1e-6)
    assert certain(law).error(*point) == 0


@pytest.mark.parametrize("point", [(1e5, 1e6, 1e6), (1e5, 4e6, 1e6)])
@pytest.mark.parametrize("power", [1.0, 2.0, 0.5, 6.0, -0.5])
def test_a_pilot_tells_how_much_can_be_learned_of_a_text(point: tuple[float, ...], power: float) -> None:
    """By quadrature of Bayes' rule, where it stands."""
    law = made_up()
    expected = law.share(*point)
    logarithms = np.linspace(-4, 4, 200_001)
    apart = np.hypot(0.3, 0.1 * (np.log(point[0] * point[1]) - 26))
    likely = stats.t.pdf(logarithms / apart, 4) * stats.norm.pdf(
        expected**power, expected ** np.exp(logarithms), 0.005
    )
    below = np.cumsum(likely) / likely.sum()
    low, half, high = (logarithms[np.searchsorted(below, each)] for each in (0.1, 0.5, 0.9))
    told = law.known(expected**power, *point)
    own, error = told.own_at(*point)
    assert own == pytest.approx(half, abs=0.01)
    of_pilot = (high - low) / 2 / stats.norm.ppf(0.9)
    assert error == pytest.approx(np.hypot(of_pilot, 0.2 * half), abs=0.01), (
        "an odd text is less like the law"
    )
    assert told.share(*point) == pytest.approx(expected ** np.exp(own))
    text = error * told.share(*point) * -np.log(told.share(*point))
    assert certain(told).error(*point) == pytest.approx(np.hypot(0.005, text), rel=1e-6)
    assert told.known(expected, *point) == law.known(expected, *point), "each pilot anew"


def test_what_a_pilot_tells_is_worth_less_the_further_away_it_is() -> None:
    """As of many texts whose own numbers are lines over ln N·D: the mean and the scatter of those with this number."""
    law, random = made_up(), np.random.default_rng(0)
    level, slope = OF_TEXTS * random.normal(0, (0.3, 0.1), (1_000_000, 2)).T
    for learned in (1e6, 4e6):
        pilot = (1e5, learned, 1e6)
        told = law.known(law.share(*pilot) ** 1.5, *pilot)
        own, error = told.own_at(*pilot)
        of_pilot = np.sqrt(error**2 - (0.2 * own) ** 2)
        here = level + slope * (work(pilot) - law.at)
        alike = np.abs(here - own) < 0.02
        for later in ((1e5, 1e5, 1e6), (1e6, 1e7, 1e6), (1e5, 1e9, 1e6)):
            there = (level + slope * (work(later) - law.at))[alike]
            kept = there.mean() / own
            assert told.own_at(*later)[0] == pytest.approx(max(0, kept) * own, abs=0.01)
            scatter = np.sqrt(there.std() ** 2 + max(0, kept) ** 2 * error**2)
            assert told.own_at(*later)[1] == pytest.approx(scatter, rel=0.02)
            assert of_pilot < told.own_at(*later)[1]


def test_a_pilot_that_learned_more_tells_more() -> None:
    law, later = made_up(), (1e6, 1e7, 1e6)
    short, long = (law.known(law.share(*point), *point) for point in ((1e5, 1e6, 1e6), (1e5, 4e6, 1e6)))
    assert long.error(*later) < short.error(*later) < law.error(*later)


@given(read=st.floats(3e5, 1e8), later=st.floats(1e5, 1e10))
def test_a_pilot_of_a_text_of_the_middle_never_makes_it_less_sure(read: float, later: float) -> None:
    law = shipped_law(mixed=False)
    told = law.known(law.share(2e5, read, 1e6), 2e5, read, 1e6)
    assert told.own_at(2e6, later, 1e6)[1] <= 1.001 * law.own_at(2e6, later, 1e6)[1]


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
    plain = as_plain(law)
    assert law_from(json.loads(json.dumps(plain))) == law


def test_the_shipped_law_says_what_experience_says() -> None:
    """Of text that does not repeat, more is better, and a large model has more of it; text seen too often is not."""
    law = shipped_law(mixed=False)
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


def test_the_shipped_law_beside_a_mixer_says_what_experience_says() -> None:
    """A network brings less there, more of it and more text are better, and a text may be seen often."""
    law, ngrams = shipped_law(mixed=True), shipped_law(mixed=False)
    small, large, text = 1e5, 2e6, 3e5
    for point in ((small, 3e6, text), (large, 3e6, text), (large, 3e7, text)):
        assert ngrams.share(*point) < law.share(*point) < 1
    assert law.share(large, 3e7, text) < law.share(large, 3e6, text) < law.share(small, 3e6, text)
    assert law.share(small, 3e7, text) < law.share(small, 3e6, text) < law.share(small, 3e5, text)
    assert 0.001 < law.error(1e6, 2e6, text) < 0.1


RUNS = {
    False: ("law.jsonl", "law_few.jsonl", "law_dial.jsonl", "law_kinds.jsonl"),
    True: ("law_mixing.jsonl",),
}


@pytest.mark.slow
@pytest.mark.parametrize("mixed", RUNS, ids=["n-grams", "mixing"])
def test_the_shipped_law_is_what_the_runs_give(tmp_path: Path, mixed: bool) -> None:
    """The fit, once more: numbers may trade off against each other, what they say may not."""
    results, out = ROOT / "benchmarks" / "results", tmp_path / "law.json"
    runs = [str(results / name) for name in RUNS[mixed]]
    script = [sys.executable, str(ROOT / "benchmarks" / "law_fit.py"), "--law", str(out), "--runs", *runs]
    script += ["--mixing"] * mixed
    done = subprocess.run(script, capture_output=True, encoding="utf-8", check=False)
    assert done.returncode == 0, done.stderr
    found, shipped = law_from(json.loads(out.read_bytes())), shipped_law(mixed=mixed)
    for size, read, length in product((2e5, 1e6, 4e6), (1e6, 1e7, 1e8), (3e4, 1e6, 9e6)):
        assert found.share(size, read, length) == pytest.approx(shipped.share(size, read, length), abs=2e-3)
        assert found.error(size, read, length) == pytest.approx(shipped.error(size, read, length), rel=0.1)
