"""Many runs side by side in processes of this machine. A process that dies is replaced, its run tried once more.

The processes watch their standard input: when it ends, because the study wants to stop or because it was killed, each
saves the state of its run and leaves. So no process outlives its study for long, and nothing is lost.
"""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

import octavo
from octavo.errors import Interrupted
from octavo.studies.job import Job, failed, settled, write_outcome
from octavo.studies.stored import Outcome
from octavo.util.interruption import is_interruption
from octavo.util.processes import TOLD, stop_requests
from octavo.util.records import json_text
from octavo.util.terminal import Console

TRIES = 2
LEAVING = 120.0  # seconds that a process has to save its run
Done = Callable[[Job, Outcome], None]


class Worker:
    """A process that does runs, and its current run. Its messages go into a queue that all share."""

    def __init__(
        self,
        number: int,
        *,
        threads: int,
        cores: Sequence[int],
        log: Path,
        news: queue.SimpleQueue[tuple[Worker, dict[str, Any] | None]],
    ) -> None:
        self.number = number
        self.job: Job | None = None
        self.step = 0
        self.kind: dict[str, Any] = {"threads": threads, "cores": cores, "log": log, "news": news}
        with log.open("ab") as file:
            self.process = subprocess.Popen(
                [sys.executable, "-P", "-m", "octavo.studies.worker"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=file,
                env=environment(threads),
                start_new_session=True,  # Ctrl-C is for the study, which then lets every run save
            )
        if cores and hasattr(os, "sched_setaffinity"):
            with suppress(OSError):  # gone already, or not allowed to: slower, not wrong
                os.sched_setaffinity(self.process.pid, cores)
        threading.Thread(
            target=self._listen, args=(self._pipe(self.process.stdout), news), daemon=True
        ).start()

    @staticmethod
    def _pipe(stream: IO[bytes] | None) -> IO[bytes]:
        assert stream is not None
        return stream

    def _listen(
        self, stream: IO[bytes], news: queue.SimpleQueue[tuple[Worker, dict[str, Any] | None]]
    ) -> None:
        for line in stream:
            try:
                news.put((self, json.loads(line)))
            except ValueError:  # the process was killed in the middle of a line
                break
        news.put((self, None))

    def start(self, job: Job) -> None:
        """Send a run to the process."""
        self.job, self.step = job, 0
        with suppress(OSError):  # where it is dead, the end of its output says so too
            stream = self._pipe(self.process.stdin)
            stream.write(json_text(job).encode() + b"\n")
            stream.flush()

    def leave(self) -> None:
        """Let it save its run and end."""
        with suppress(OSError):
            self._pipe(self.process.stdin).close()

    def end(self, seconds: float = LEAVING) -> None:
        """Wait until it has left; a process that does not leave is killed."""
        try:
            self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def successor(self) -> Worker:
        """A new process in its place."""
        return Worker(self.number, **self.kind)


def environment(threads: int) -> dict[str, str]:
    """A run's process: so many threads from the start, and this very Octavo."""
    count = str(threads)
    names = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")
    home = str(Path(octavo.__file__).parents[1])
    path = os.pathsep.join(filter(None, [home, os.environ.get("PYTHONPATH")]))
    return {**os.environ, **TOLD, **dict.fromkeys(names, count), "PYTHONPATH": path, "PYTHONUNBUFFERED": "1"}


def available_cores() -> list[int]:
    """The cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))


def shares(cores: Sequence[int], count: int, threads: int) -> list[list[int]]:
    """Cores for each of `count` processes. None is pinned where they do not fill the machine: then the system knows
    better which cores are free."""
    if count * threads != len(cores):
        return [[] for _ in range(count)]
    return [list(cores[n * threads : (n + 1) * threads]) for n in range(count)]


class Pool:
    """The local way to perform all runs of a study."""

    def __init__(self, count: int, *, threads: int, logs: Path) -> None:
        self.count, self.threads, self.logs = count, threads, logs

    def perform(self, jobs: Sequence[Job], console: Console, on_done: Done) -> None:
        """Perform all jobs, a rival's before those that are compared with it.

        Raises Interrupted when asked to stop; every run is saved by then.
        """
        self.logs.mkdir(parents=True, exist_ok=True)
        bench = Bench(jobs, console, on_done)
        news: queue.SimpleQueue[tuple[Worker, dict[str, Any] | None]] = queue.SimpleQueue()
        workers: list[Worker] = []
        with stop_requests() as stop, console.working("runs", bench.all_steps):
            try:
                for number, cores in enumerate(
                    shares(available_cores(), min(self.count, len(jobs)), self.threads)
                ):
                    log = self.logs / f"worker-{number + 1}.log"
                    workers.append(Worker(number, threads=self.threads, cores=cores, log=log, news=news))
                self._loop(bench, workers, news, stop)
            finally:
                for worker in workers:
                    worker.leave()
                for worker in workers:
                    worker.end(0.0 if is_interruption(sys.exc_info()[1]) else LEAVING)
        if stop and not bench.finished:
            raise Interrupted(
                f"Stopped by {stop.name} with {bench.done} of {bench.total} runs done; everything is saved.",
                remedy="the same command continues",
            )

    def _loop(self, bench: Bench, workers: list[Worker], news: queue.SimpleQueue[Any], stop: Any) -> None:
        while not bench.finished and not stop:
            for worker in workers:
                if worker.job is None and (job := bench.next()) is not None:
                    worker.start(job)
            try:
                worker, message = news.get(timeout=0.2)
            except queue.Empty:
                continue
            if message is None:
                if worker in workers:  # it died, or was killed
                    bench.lost(worker.job, worker.process.wait())
                    workers[workers.index(worker)] = worker.successor()
            elif message["event"] == "step":
                worker.step = message["step"]
            elif message["event"] == "done":
                job, worker.job, worker.step = worker.job, None, 0
                if job is not None:
                    bench.ended(job, Outcome(**message["outcome"]))
            bench.show([(one.job, one.step) for one in workers if one.job is not None])


class Bench:
    """Which runs wait, which are done, and how far each is."""

    def __init__(self, jobs: Sequence[Job], console: Console, on_done: Done) -> None:
        self.waiting, self.console, self.on_done = list(jobs), console, on_done
        self.total = len(jobs)
        self.all_steps = sum(job.steps for job in jobs)
        self.done_steps, self.done = 0, 0
        self.tries: Counter[str] = Counter()
        self.pending = {job.folder for job in jobs}

    @property
    def finished(self) -> bool:
        """Whether every run has ended."""
        return self.done == self.total

    def next(self) -> Job | None:
        """The next run that may begin: one whose rival, if it has one, has ended."""
        for place, job in enumerate(self.waiting):
            if job.rival is None or job.rival not in self.pending:
                return self.waiting.pop(place)
        return None

    def ended(self, job: Job, outcome: Outcome) -> None:
        """A run has ended, well or not."""
        self.done += 1
        self.done_steps += job.steps
        self.pending.discard(job.folder)
        what = outcome.status if outcome.status != "failed" else f"failed: {outcome.reason}"
        if outcome.status == "done":
            bits, unit = outcome.bits_per_byte, outcome.unit
            what = f"{outcome.val_loss:.4f} {unit}" if unit else f"{bits:.4f} bits/byte"
        self.console.say(f"{self.done}/{self.total}  {job.change}, seed {job.seed}: {what}")
        self.on_done(job, outcome)

    def lost(self, job: Job | None, code: int) -> None:
        """The process of a run died without a message: try once more, then record it as failed."""
        if job is None:
            return
        self.tries[job.folder] += 1
        how = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with code {code}"
        outcome = settled(job)  # it may have died after its last act
        if outcome is not None:
            self.ended(job, outcome)
        elif self.tries[job.folder] < TRIES:
            self.console.say(f"{job.change}, seed {job.seed}: its process {how}; it continues in a new one")
            self.waiting.insert(0, job)
        else:
            hint = " Most likely there was not enough memory." if code == -9 else ""
            reason = f"Its process {how}, twice.{hint}"
            self.ended(job, write_outcome(job, failed(job, reason)))

    def show(self, running: list[tuple[Job, int]]) -> None:
        steps = self.done_steps + sum(min(step, job.steps) for job, step in running)
        self.console.advance(steps, f"{self.done}/{self.total} runs done")
