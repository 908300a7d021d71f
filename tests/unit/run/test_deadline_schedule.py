"""Where a step stands in a schedule whose number of steps changes on the way."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from octavo.run.deadline import Pace
from octavo.training.schedules import linear


def test_without_changes_a_step_is_itself() -> None:
    pace = Pace(10)
    assert [pace.place(step) for step in range(10)] == list(range(10))
    assert list(pace.steps(3)) == [3, 4, 5, 6, 7, 8, 9]


def test_what_is_left_is_spread_over_the_steps_that_are_left() -> None:
    pace = Pace(100)
    pace.change(50, 150)
    assert [pace.place(step) for step in (49, 50, 100, 150)] == [49, 50, 75, 100]
    pace.change(100, 110)
    assert [pace.place(step) for step in (100, 105, 110)] == [75, 87.5, 100]
    assert pace.place(60) == 55, "the past stays"
    assert pace.total == 110


def test_steps_see_a_change_that_comes_while_they_are_counted() -> None:
    pace, seen = Pace(4), []
    for step in pace.steps(0):
        seen.append(step)
        if step == 2:
            pace.change(3, 6)
    assert seen == [0, 1, 2, 3, 4, 5]


def test_a_run_that_is_prolonged_stands_where_it_would_have_stood() -> None:
    pace = Pace(100)
    pace.prolong(100, 400)
    assert pace.place(100) == 25 and pace.place(400) == 100
    assert linear(pace.place(100), steps=100, floor=0) == pytest.approx(0.75, abs=0.01)
    behind = Pace(100)
    behind.prolong(20, 110)
    assert behind.place(20) == pytest.approx(100 * 20 / 110)
    behind.prolong(20, 25)
    assert behind.place(20) == pytest.approx(100 * 20 / 110), "never forward"


@given(
    planned=st.integers(1, 500),
    changes=st.lists(st.tuples(st.integers(1, 50), st.integers(1, 300)), max_size=6),
)
def test_the_place_only_grows_and_ends_at_the_end(planned: int, changes: list[tuple[int, int]]) -> None:
    pace, step = Pace(planned), 0
    for further, left in changes:
        step += further
        if step < pace.total:
            pace.change(step, step + left)
    places = [pace.place(each) for each in range(pace.total + 1)]
    assert places == sorted(places)
    assert places[-1] == pytest.approx(planned, abs=1e-3 * planned)
    assert list(pace.steps(0)) == list(range(pace.total))
