"""All threads or one: by far, or not at all; watched, answered once, and taken back."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from octavo.training.device import AGAIN, CLEARLY, IN_A_ROW, MANY, ROUNDS, SELDOM, Crew, Pace, faster


class Machine:
    """Seconds of a pass, by threads, for as long as they hold."""

    def __init__(self, **seconds: float) -> None:
        self.asked: list[int] = []
        self.become(**seconds)

    def become(self, one: float, all: float) -> None:
        self.seconds = {1: one, 4: all}

    def __call__(self, threads: int) -> float:
        self.asked.append(threads)
        return self.seconds[threads]


@pytest.mark.parametrize(
    ("ratio", "expected"), [(0.3, 4), (1.0, 4), (CLEARLY - 0.01, 4), (CLEARLY, 1), (60.0, 1)]
)
def test_one_thread_has_to_win_by_far(ratio: float, expected: int) -> None:
    machine = Machine(one=1.0, all=ratio)
    assert faster(4, machine) == (expected, ratio)
    assert machine.asked == [4, 1] * (ROUNDS if expected == 1 else 1), (
        "where all are not slow, once is enough"
    )


def test_a_moments_disturbance_does_not_decide() -> None:
    seconds = iter([9.0, 1.0, 0.5])  # of all threads

    def timing(threads: int) -> float:
        return next(seconds) if threads == 4 else 1.0

    assert faster(4, timing) == (4, 1.0)


def test_a_few_slow_steps_are_no_reason() -> None:
    pace = Pace()
    for seconds in [1.0] * 10 + [50.0] * (IN_A_ROW - 1) + [1.0] * 5 + [4.9] * 20:
        assert not pace.step(seconds)


def test_slow_steps_in_a_row_are() -> None:
    pace = Pace()
    assert not any(pace.step(seconds) for seconds in [0.1] * 10)
    assert [pace.step(MANY * 0.1 + 0.01) for _ in range(IN_A_ROW)] == [False] * (IN_A_ROW - 1) + [True]
    assert pace.usual == 0.1


def test_short_steps_must_add_up() -> None:
    pace = Pace()
    assert not any(pace.step(seconds) for seconds in [0.001] * 10 + [0.01] * 99)
    assert pace.step(0.01)


def run(crew: Crew, seconds: Callable[[int], float], steps: range) -> list[str]:
    return [said for step in steps if (said := crew.after_step(step, seconds(crew.threads)))]


def test_one_thread_while_others_use_the_machine_and_all_when_they_have_gone() -> None:
    machine = Machine(one=0.1, all=0.05)
    crew = Crew(4, [], machine, first=4)
    assert run(crew, lambda threads: machine.seconds[threads], range(1, 100)) == []
    assert machine.asked == [], "nothing is timed while all is well"
    machine.become(one=0.1, all=3.0)
    (said,) = run(crew, lambda threads: machine.seconds[threads], range(100, 200))
    assert (
        "after step 102: a step takes 60 times as long as before" in said and "1 thread instead of 4" in said
    )
    assert crew.changes == [[103, 1]] and crew.threads == 1
    machine.become(one=0.1, all=0.05)
    (said,) = run(crew, lambda threads: machine.seconds[threads], range(200, 2000))
    assert "continuing with 4 threads" in said
    assert [threads for _, threads in crew.changes] == [1, 4] and crew.threads == 4


def test_slow_for_another_reason_changes_nothing_and_is_asked_once() -> None:
    machine = Machine(one=8.0, all=5.0)
    crew = Crew(4, [], machine, first=4)
    run(crew, lambda threads: 0.1, range(1, 50))
    assert run(crew, lambda threads: 5.0, range(50, 500)) == []
    assert crew.changes == [] and machine.asked == [4, 1]


def test_all_threads_are_tried_ever_more_seldom() -> None:
    machine = Machine(one=1.0, all=9.0)
    crew = Crew(4, [[5, 1]], machine, first=4)
    times = []
    for step in range(10_000):
        before = len(machine.asked)
        assert crew.after_step(step, 1.0) == ""
        if len(machine.asked) > before:
            times.append(step + 1)
    waits = [later - earlier for earlier, later in zip([0, *times], times, strict=False)]
    assert waits[:3] == [AGAIN, 2 * AGAIN, 4 * AGAIN] and waits[-1] == SELDOM


def test_a_run_that_goes_on_has_the_threads_that_it_had() -> None:
    machine = Machine(one=1, all=1)
    assert Crew(4, [], machine, first=1).threads == 1
    assert Crew(4, [[10, 1]], machine, first=4).threads == 1
    assert Crew(4, [[10, 1], [20, 4]], machine, first=1).threads == 4
