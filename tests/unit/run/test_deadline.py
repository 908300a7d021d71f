"""How many steps fit into the time that is left; the time here is made up."""

from __future__ import annotations

import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from octavo.auto.family import SIZES, recipe_of
from octavo.config import check
from octavo.errors import InputError
from octavo.run import deadline as clocks
from octavo.run.deadline import (
    APART,
    APART_HEARD,
    FORWARD,
    IN_FLOAT32,
    Clock,
    Pace,
    end_of,
    ending,
    heard_again,
    judged_at_the_end,
    with_more_minutes,
)
from octavo.run.folder import Progress
from octavo.util.terminal import Console


class Time:
    """Seconds that pass when told to."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def time(monkeypatch: pytest.MonkeyPatch) -> Time:
    made = Time()
    monkeypatch.setattr(clocks, "time", made)
    return made


def train(
    time: Time,
    pace: Pace,
    clock: Clock,
    *,
    seconds: float,
    stop: int = 10**6,
    slowed: int = 10**6,
    times: float = 2.0,
    foreseen: list[tuple[float, float]] | None = None,
) -> float:
    """Steps of so many seconds each, evaluations of a second after every tenth; `times` as slow from step `slowed`.
    `foreseen`: takes when it was, and what was then foreseen as the end."""
    progress = Progress()
    clock.begin(progress)
    for step in pace.steps(0):
        took = 5.0 if step == 0 else seconds * (times if step >= slowed else 1)  # the first one warms up
        time.now += took
        progress.step, progress.seconds = step + 1, progress.seconds + took
        if progress.step % 10 == 0:
            time.now += 1.0
        clock.keep(progress)
        if foreseen is not None:
            foreseen.append((time.now, clock.ends(progress.step)))
        if progress.step == stop:
            break
    return time.now - 1000


@pytest.mark.parametrize("planned", [20, 200, 5000])
def test_the_end_comes_in_time_whatever_was_planned(time: Time, planned: int) -> None:
    pace = Pace(planned)
    took = train(time, pace, Clock(pace, end=1300, finish=20), seconds=0.4)
    assert took == pytest.approx(280, rel=0.03)
    assert pace.place(pace.total) == pytest.approx(planned)


def test_what_is_done_between_steps_is_reckoned_with_from_the_beginning(time: Time) -> None:
    """Else the schedule would be that of a longer run, and be cut again and again."""
    pace = Pace(5000)
    train(time, pace, Clock(pace, end=1300, finish=20), seconds=0.4)
    totals = [total for since, total, _ in pace.changes if since > pace.total / 10]
    assert totals == pytest.approx([pace.total] * len(totals), rel=0.03)


@pytest.mark.parametrize("times", [2.0, 3.0])
@pytest.mark.parametrize("slowed", [100, 400, 500])
def test_a_machine_that_becomes_slower_ends_in_time_too(time: Time, slowed: int, times: float) -> None:
    pace = Pace(600)
    took = train(time, pace, Clock(pace, end=1300), seconds=0.4, slowed=slowed, times=times)
    assert took == pytest.approx(300, rel=0.03)


@pytest.mark.parametrize("slow", [2.5, 40.0])
def test_a_run_that_goes_on_where_steps_take_a_hundred_times_as_long_ends_in_time(
    time: Time, slow: float
) -> None:
    """The clock was once looked at after a fiftieth of the steps, however long they took."""
    pace, progress = Pace(2954), Progress(step=2954, seconds=44.0, elapsed=60.0)
    clock = Clock(pace, end=time.now + 30)
    clock.begin(progress)
    assert pace.total > 4000
    for step in pace.steps(2954):
        time.now += slow
        progress.step, progress.seconds = step + 1, progress.seconds + slow
        clock.keep(progress)
    assert time.now - 1000 <= 30 + 2 * slow
    assert pace.place(pace.total) == 2954


def test_no_more_steps_than_the_passes_allow(time: Time) -> None:
    pace = Pace(100)
    assert train(time, pace, Clock(pace, end=1300, most=150), seconds=0.4) < 100
    assert pace.total == 150


@pytest.mark.parametrize("most", [None, 300])
def test_the_time_left_keeps_its_word_from_the_first_tenth_on(time: Time, most: int | None) -> None:
    """Also where the passes end before the time does."""
    pace, foreseen = Pace(200), list[tuple[float, float]]()
    took = train(time, pace, Clock(pace, end=1300, finish=20, most=most), seconds=0.4, foreseen=foreseen)
    over = 1000 + took + 20
    assert over == pytest.approx(1300 if most is None else 1175, abs=3)
    for now, ends in foreseen:
        if now - 1000 > took / 10:
            assert ends - now == pytest.approx(over - now, rel=0.1)


def test_a_run_goes_on_with_all_of_the_time(time: Time) -> None:
    pace = Pace(100)
    clock = Clock(pace, end=time.now + 300)
    clock.begin(Progress(step=100, seconds=90.0, elapsed=100.0))
    assert pace.total == 400
    assert pace.place(100) == 25


def test_a_run_whose_time_is_over_goes_on_as_planned(time: Time) -> None:
    pace = Pace(100)
    Clock(pace, end=time.now - 5).begin(Progress(step=60, seconds=90.0, elapsed=100.0))
    assert pace.total == 100 and not pace.changes


def test_sessions_before_have_taken_their_part_of_the_minutes() -> None:
    console, tree = Console(quiet=True), recipe_of(SIZES[0], steps=1)
    console.started = 100.0
    tree["training"]["minutes"] = 2.0
    assert end_of(check(tree), console, 30.0) == 190.0


def test_more_minutes_are_beyond_those_that_a_run_has_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clocks, "seconds_of", lambda folder: 90.0)
    monkeypatch.setattr(clocks.RunFolder, "open", lambda out: out)
    assert with_more_minutes(tmp_path, 2.0) == ["training.minutes=3.5", "training.passes=null"]
    monkeypatch.setattr(clocks, "seconds_of", lambda folder: 12_341.5 * 60)
    assert with_more_minutes(tmp_path, 3.0)[0] == "training.minutes=12344.5"
    for minutes in (0.0, -1.0, math.nan, math.inf):
        with pytest.raises(InputError, match="minutes= must be above 0"):
            with_more_minutes(tmp_path, minutes)
    with pytest.raises(InputError, match="needs the folder of the run"):
        with_more_minutes(None, 2.0)


def test_a_token_of_the_test_split_takes_longer_where_it_is_judged_in_another_precision() -> None:
    def split(tokens: int, documents: int = 1) -> SimpleNamespace:
        return SimpleNamespace(tokens=np.zeros(tokens, np.int64), documents=documents)

    known = SimpleNamespace(end=7)
    tested: Any = SimpleNamespace(validation=split(1000), test=split(300), tokenizer=known)
    untested: Any = SimpleNamespace(validation=split(1000), test=None, tokenizer=known)
    several: Any = SimpleNamespace(validation=split(1000, 2), test=None, tokenizer=known)
    alone = judged_at_the_end(untested, "bfloat16")
    assert alone == judged_at_the_end(untested, "float32") == (1 + APART) * 1000
    assert judged_at_the_end(tested, "float32") == alone + 300
    assert judged_at_the_end(tested, "bfloat16") == alone + IN_FLOAT32 * 300 > alone + 300
    assert judged_at_the_end(several, "float32") == alone + 1000, "where documents end is asked by itself"
    heard = judged_at_the_end(untested, "float32", heard=0.5)
    assert heard == (1 + APART_HEARD + 0.5) * 1000
    assert judged_at_the_end(tested, "bfloat16", heard=0.5) == heard + (1 + 0.5) * IN_FLOAT32 * 300


def test_hearing_the_network_again_takes_its_share_of_judging() -> None:
    assert heard_again(0.0, 1.0) == 1.0, "nothing was trained yet"
    assert heard_again(2e-5, 2e-5) == FORWARD < heard_again(3e-5, 2e-5) < heard_again(1.0, 2e-5) == 1.0


def test_one_slow_look_does_not_end_the_training(time: Time) -> None:
    """A moment in which others use the machine: the next look knows better."""
    pace, progress = Pace(500), Progress()
    clock = Clock(pace, end=1300, finish=20)
    clock.begin(progress)
    clock.judged(5000.0)
    for step in pace.steps(0):
        time.now += 0.4
        progress.step, progress.seconds = step + 1, progress.seconds + 0.4
        if progress.step == 50:
            clock.judged(10.0)
        clock.keep(progress)
    assert time.now == pytest.approx(1270, abs=8)


def test_the_time_for_judging_is_that_of_most_recent_looks(time: Time) -> None:
    """The last look before the end was one of the slow ones once, and a tenth of the time was left over."""
    clock = Clock(Pace(500), end=1300, finish=20)
    kept = []
    for seconds in (10.0, 11.0, 300.0, 10.5, 20.0, 21.0, 22.0):
        clock.judged(seconds)
        kept.append(clock.evaluation)
    assert kept == [10.0, 10.0, 11.0, 10.5, 11.0, 20.0, 21.0], "a machine that becomes slower is noticed"


def test_time_that_is_over_ends_the_run_with_the_next_step(time: Time) -> None:
    pace = Pace(1000)
    train(time, pace, Clock(pace, end=1001), seconds=0.4)
    assert pace.total <= 30


def test_other_threads_start_the_watch_anew(time: Time) -> None:
    """Trying them out takes seconds once, not between all steps, and then steps are as they are."""
    pace, progress = Pace(214), Progress()
    clock = Clock(pace, end=time.now + 10.9)
    clock.begin(progress)
    for step in pace.steps(0):
        took = 0.5 if step < 10 else 0.02
        time.now += took
        progress.step, progress.seconds = step + 1, progress.seconds + took
        if progress.step == 10:
            time.now += 5.0
            clock.anew(progress, times=0.02 / 0.5)
        clock.keep(progress)
    assert 1010.8 < time.now <= 1011
    assert progress.step > 40


def test_threads_that_change_at_the_end_change_no_steps(time: Time) -> None:
    pace, progress = Pace(10), Progress()
    clock = Clock(pace, end=time.now + 100, most=10)
    clock.begin(progress)
    for step in pace.steps(0):
        time.now += 1.0
        progress.step, progress.seconds = step + 1, progress.seconds + 1.0
        clock.anew(progress, times=0.1)
        clock.keep(progress)
    assert progress.step == 10


def test_the_end_that_is_foreseen_has_the_time_for_judging_in_it(time: Time) -> None:
    """Where the passes end long before the time does."""
    pace, progress = Pace(100), Progress()
    clock = Clock(pace, end=time.now + 3000, finish=20, most=100)
    clock.begin(progress)
    clock.judged(70.0)
    for step in pace.steps(0):
        time.now += 1.0
        progress.step, progress.seconds = step + 1, progress.seconds + 1.0
        clock.keep(progress)
    over = time.now + 70 + 20
    assert clock.ends(progress.step) == pytest.approx(over) and over < 1300


def test_a_run_that_goes_on_in_too_little_time_is_not_cut_before_it_is_known_how_fast_it_is(
    time: Time,
) -> None:
    """By the seconds so far, which a first step may have made long, a tenth of its steps would fit."""
    pace, progress = Pace(1000), Progress(step=60, seconds=590.0, elapsed=600.0)
    clock = Clock(pace, end=time.now + 400)
    clock.begin(progress)
    assert pace.total == 1000 and not pace.changes
    for step in pace.steps(60):
        time.now += 0.4
        progress.step, progress.seconds = step + 1, progress.seconds + 0.4
        clock.keep(progress)
    assert pace.total == pytest.approx(1000, rel=0.1)


def test_the_end_of_a_run_takes_what_its_preparation_did_and_half_as_much_again() -> None:
    assert ending(40.0) - ending(0.0) == pytest.approx(60.0) and ending(0.0) > 0


def test_a_clock_that_is_looked_at_by_time_too_lets_the_schedule_come_to_its_end(time: Time) -> None:
    """Steps are soon 300 times as long: were it looked at by their number alone, the end would come in the middle."""
    pace, progress = Pace(3000), Progress()
    clock = Clock(pace, end=time.now + 600)
    clock.begin(progress)
    rates = []
    for step in pace.steps(0):
        took = 0.1 if step < 100 else 30.0
        time.now += took
        progress.step, progress.seconds = step + 1, progress.seconds + took
        clock.keep(progress)
        rates.append(1 - pace.place(step + 1) / 3000)
    assert time.now - 1000 <= 630
    assert rates[-4] < 0.25, "it falls, and does not drop"


def test_steps_that_are_hardly_longer_change_nothing(time: Time) -> None:
    pace, progress = Pace(748), Progress()
    clock = Clock(pace, end=time.now + 300)
    clock.begin(progress)
    for step in pace.steps(0):
        took = 0.4 * (1.004 if step % 40 < 20 else 0.996)
        time.now += took
        progress.step, progress.seconds = step + 1, progress.seconds + took
        clock.keep(progress)
    assert pace.total == 748 and not pace.changes


def test_other_threads_are_reckoned_with_the_steps_that_tell(time: Time) -> None:
    """Not with the first ones, which prepare what others use."""
    pace, progress = Pace(1000), Progress()
    clock = Clock(pace, end=time.now + 400)
    clock.begin(progress)
    for step in range(10):
        took = 20.0 if step == 0 else 0.5
        time.now += took
        progress.step, progress.seconds = step + 1, progress.seconds + took
        clock.keep(progress)
    left = 1400 - time.now
    clock.anew(progress, times=0.5)
    assert pace.total == pytest.approx(10 + left / 0.25, rel=0.02)
