"""A process that performs one run of a study after another: jobs come in as JSON lines, news goes out as JSON lines.

    python -m octavo.studies.worker

When its standard input ends, whether the study wants it to stop or was killed, the run that it is at saves its state,
and the process ends. Several runs share a process because starting one takes longer than a small run's evaluation.
"""

from __future__ import annotations

import json
import os
import queue
import signal
import sys
import threading
import time
from contextlib import suppress
from typing import Any, TextIO

NEWS_SECONDS = 0.25  # between two messages about steps


class Voice:
    """Messages to the study. They are dropped if nobody listens."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream
        self.last = 0.0

    def tell(self, **message: Any) -> None:
        with suppress(BrokenPipeError, ValueError):
            print(json.dumps(message), file=self.stream, flush=True)

    def step(self, step: int) -> None:
        """A finished step; not every one is worth a message."""
        now = time.monotonic()
        if now - self.last >= NEWS_SECONDS:
            self.last = now
            self.tell(event="step", step=step)


def main() -> None:
    """Serve until standard input ends."""
    voice = Voice(os.fdopen(os.dup(1), "w", encoding="utf-8"))
    os.dup2(2, 1)  # whatever a library prints is no message
    jobs: queue.SimpleQueue[dict[str, Any] | None] = queue.SimpleQueue()
    busy = threading.Event()

    def listen() -> None:
        for line in sys.stdin:
            jobs.put(json.loads(line))
        jobs.put(None)
        if busy.is_set():
            os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=listen, daemon=True).start()
    from octavo.config.parts import load_told_parts
    from octavo.errors import Interrupted
    from octavo.studies.job import Job, perform
    from octavo.util.records import plain

    load_told_parts()

    while (job := jobs.get()) is not None:
        busy.set()
        try:
            outcome = perform(Job(**job), voice.step)
        except Interrupted as note:
            voice.tell(event="stopped", note=note.what)
            return
        busy.clear()
        voice.tell(event="done", outcome=plain(outcome))


if __name__ == "__main__":
    main()
