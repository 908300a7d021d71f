"""A machine that others use from the start: seen by the share of the cores, and timed for longer than a moment."""

from __future__ import annotations

import itertools
import types

import pytest

from octavo.training import device as crew
from octavo.training.device import AGAIN, CLEARLY, FIRST, MOST, SUSTAINED, WatchfulCrew, sustained


class Machine:
    """Time goes on by a second a step; the run's threads get `share` of theirs, and a pass takes `seconds[threads]`."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, share: float) -> None:
        self.now = self.worked = 0.0
        self.share, self.seconds = share, {2: 5.0, 1: 1.0}
        self.timed: list[int] = []
        clock = types.SimpleNamespace(monotonic=lambda: self.now, process_time=lambda: self.worked)
        monkeypatch.setattr(crew, "time", clock)
        self.changes: list[list[int]] = []
        self.crew = WatchfulCrew(2, self.changes, self.timing, first=2)

    def timing(self, threads: int) -> float:
        self.timed.append(threads)
        return self.seconds[threads]

    def steps(self, first: int, last: int) -> list[str]:
        """What is said after each of them."""
        said = []
        for step in range(first, last + 1):
            self.now += 1.0
            self.worked += 2 * self.share
            said.append(self.crew.after_step(step, 1.0))
        return [sentence for sentence in said if sentence]


def test_one_thread_where_others_take_the_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(monkeypatch, share=0.5)
    (said,) = machine.steps(1, 10)
    assert machine.changes == [[int(FIRST) + 1, 1]] and machine.crew.threads == 1
    assert "2 threads take 5 times as long as one" in said and f"after step {FIRST:.0f}" in said
    assert machine.crew.times == pytest.approx(1 / 5)


def test_on_a_machine_of_its_own_nothing_is_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(monkeypatch, share=0.95)
    assert machine.steps(1, 60) == [] and machine.timed == [] and machine.changes == []


def test_looks_in_vain_become_rare(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that mostly computes in one thread has a small share of the cores everywhere."""
    machine = Machine(monkeypatch, share=0.5)
    machine.seconds = {2: CLEARLY - 0.01, 1: 1.0}
    assert machine.steps(1, 100) == [] and machine.changes == []
    assert machine.timed == [2, 1, 2, 1] * 5  # after 3, 9, 21, 45 and 93 seconds


def test_where_all_threads_are_faster_a_moment_is_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(monkeypatch, share=0.5)
    machine.seconds = {2: 0.5, 1: 0.6}
    assert machine.steps(1, 10) == [] and machine.changes == []
    assert machine.timed == [2, 1] * 2  # after 3 and 9 seconds


def test_others_that_come_later_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(monkeypatch, share=0.95)
    machine.steps(1, 30)
    machine.share = 0.5
    assert len(machine.steps(31, 40)) == 1
    ((step, threads),) = machine.changes
    assert threads == 1 and 31 <= step - 1 <= 31 + FIRST


def test_cores_that_only_seemed_free_are_left_for_longer_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(monkeypatch, share=0.5)
    machine.steps(1, 4)
    assert machine.changes == [[4, 1]]

    def lucky(threads: int) -> float:
        """All threads look fast while one computes, and are not."""
        return 1.0 if threads == 1 else 0.5 if machine.crew.threads == 1 else 5.0

    monkeypatch.setattr(machine.crew, "_pass", lucky)
    machine.steps(5, 400)
    back = [step for step, threads in machine.changes if threads == 2]
    waits = [after - before for before, after in itertools.pairwise(back)]
    assert waits and all(after > before for before, after in itertools.pairwise(waits))
    assert waits[0] >= AGAIN


def test_a_moment_decides_nothing() -> None:
    passes = iter([0.01, *[0.1] * 50])
    taken = sustained(lambda threads: next(passes), 2, SUSTAINED)
    assert taken > 0.07
    assert next(passes, None) is not None, "and a while is enough"


def test_a_timing_of_nothing_ends() -> None:
    calls = itertools.count()
    assert sustained(lambda threads: next(calls) * 0.0, 1, SUSTAINED) == 0.0 and next(calls) == MOST
    assert SUSTAINED > 0
