"""Runs side by side: order, lost processes, being stopped."""

from __future__ import annotations

import io
import os
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from octavo.errors import Interrupted
from octavo.studies.job import Job, outcome_of
from octavo.studies.plan import jobs_of, plan_study
from octavo.studies.resolve import load_study
from octavo.studies.runner import Bench, Pool, available_cores, environment, shares
from octavo.studies.stored import Outcome
from octavo.util.terminal import Console
from unit.studies.conftest import study_tree


def job(folder: Path, number: int, rival: str | None = None) -> Job:
    return Job("a", "a", number, str(folder / str(number)), {}, steps=10, rival=rival)


def planned(text: Path, out: Path, **changed: Any) -> list[Job]:
    study, _ = plan_study(load_study(study_tree(**changed), text), Console(quiet=True))
    return jobs_of(study, out)


def bench(jobs: list[Job]) -> Bench:
    return Bench(jobs, Console(quiet=True), lambda job, outcome: None)


def test_a_run_waits_for_its_rival(tmp_path: Path) -> None:
    first, second = job(tmp_path, 1), job(tmp_path, 2, rival=str(tmp_path / "1"))
    both = bench([second, first])
    assert both.next() == first and both.next() is None
    both.ended(first, Outcome(judge="last", status="failed", reason="x", settled=True))
    assert both.next() == second and not both.finished


def test_a_rival_that_was_done_before_is_not_waited_for(tmp_path: Path) -> None:
    alone = job(tmp_path, 2, rival=str(tmp_path / "1"))
    assert bench([alone]).next() == alone


def test_a_lost_run_is_tried_once_more_and_then_a_row(tmp_path: Path) -> None:
    one = job(tmp_path, 1)
    jobs = bench([one])
    assert jobs.next() == one
    jobs.lost(one, -9)
    assert not jobs.finished and jobs.next() == one
    jobs.lost(one, -9)
    assert jobs.finished
    outcome = outcome_of(Path(one.folder))
    assert outcome is not None and outcome.status == "failed" and not outcome.settled
    assert "SIGKILL, twice" in outcome.reason and "memory" in outcome.reason


def test_cores_are_shared_only_where_they_are_all_taken() -> None:
    assert shares([0, 1, 4, 5], 2, 2) == [[0, 1], [4, 5]]
    assert shares([0, 1, 4, 5], 3, 1) == [[], [], []]
    assert available_cores()


def test_a_process_has_its_threads_from_the_start() -> None:
    found = environment(3)
    assert found["OMP_NUM_THREADS"] == found["MKL_NUM_THREADS"] == "3"
    assert (Path(found["PYTHONPATH"].split(os.pathsep)[0]) / "octavo").is_dir()


def perform_while(
    jobs: list[Job], logs: Path, act: Callable[[Pool], None], console: Console | None = None
) -> None:
    """Perform jobs; meanwhile, beside them, act."""
    pool = Pool(1, threads=1, logs=logs)
    thread = threading.Thread(target=act, args=(pool,), daemon=True)
    thread.start()
    pool.perform(jobs, console or Console(quiet=True), lambda job, outcome: None)
    thread.join()


def rows_in(folder: Path) -> None:
    """Wait until a run trains."""
    end = time.monotonic() + 100
    while not (folder / "metrics.jsonl").is_file():
        assert time.monotonic() < end
        time.sleep(0.01)


def children(process: int) -> list[int]:
    listed = Path(f"/proc/{process}/task").glob("*/children")
    return [int(word) for file in listed for word in file.read_text().split()]


@pytest.mark.slow
def test_a_killed_process_is_replaced_and_its_run_goes_on(text: Path, tmp_path: Path) -> None:
    jobs = planned(text, tmp_path, budget={"steps": 1500})[:1]
    said = io.StringIO()

    def kill(pool: Pool) -> None:
        rows_in(Path(jobs[0].folder))
        (worker,) = [number for number in children(os.getpid()) if is_worker(number)]
        os.kill(worker, signal.SIGKILL)

    perform_while(jobs, tmp_path / "logs", kill, Console(stream=said))
    outcome = outcome_of(Path(jobs[0].folder))
    assert outcome is not None and outcome.status == "done" and outcome.step == 1500
    assert "was killed by SIGKILL; it continues in a new one" in said.getvalue()


def is_worker(number: int) -> bool:
    return b"octavo.studies.worker" in Path(f"/proc/{number}/cmdline").read_bytes()


@pytest.mark.slow
def test_a_stop_saves_every_run(text: Path, tmp_path: Path) -> None:
    jobs = planned(text, tmp_path, budget={"steps": 200_000})[:1]

    def stop(pool: Pool) -> None:
        rows_in(Path(jobs[0].folder))
        os.kill(os.getpid(), signal.SIGTERM)

    with pytest.raises(Interrupted, match="0 of 1 runs done"):
        perform_while(jobs, tmp_path / "logs", stop)
    saved = list((Path(jobs[0].folder) / "checkpoints").glob("step-*/MANIFEST.json"))
    assert saved and outcome_of(Path(jobs[0].folder)) is None
    assert not [number for number in children(os.getpid()) if is_worker(number)]
