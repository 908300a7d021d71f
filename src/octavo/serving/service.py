"""What all endpoints share: the models, the thread that computes, and how much is taken at most."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from octavo.serving.answers import Spelling
from octavo.serving.call import Call
from octavo.serving.engine_thread import Ticket, Worker
from octavo.serving.errors import Refusal, wrong
from octavo.serving.metrics import Metrics
from octavo.serving.models import Models, Served
from octavo.serving.scheduler import Job
from octavo.serving.schemas import Asked

STOPPING = "The server is stopping."
ASIDES = 8
"""Translations and forecasts that wait for their thread, at most."""


@dataclass(frozen=True)
class Limits:
    """What a server takes at most.

    Attributes:
        queue: texts of a model that wait for a slot.
        seconds: that a request takes.
    """

    queue: int = 256
    seconds: float = 600.0


class Service:
    """Used from one event loop."""

    def __init__(self, models: Models, worker: Worker, limits: Limits) -> None:
        self.models, self.worker, self.limits = models, worker, limits
        self.metrics = Metrics()
        self.stopping = False
        self._end: float | None = None  # by the loop's clock
        self._under_way: set[asyncio.Timeout] = set()
        self._aside, self._set_aside = ThreadPoolExecutor(1, "octavo-aside"), 0
        self._text_seconds = 1.0  # that a text takes, lately

    @asynccontextmanager
    async def attending(self, call: Call, asked: Asked) -> AsyncIterator[Served]:
        """The model that a request asks for, while its client is there and the deadline is not over."""
        async with (
            call.attended(self.limits.seconds),
            self._until_the_end(),
            self.models.using(asked.model) as served,
        ):
            yield served

    @asynccontextmanager
    async def _until_the_end(self) -> AsyncIterator[None]:
        """What is under way when the server's time is over ends with a Refusal."""
        try:
            async with asyncio.timeout_at(self._end) as deadline:
                self._under_way.add(deadline)
                try:
                    yield
                finally:
                    self._under_way.discard(deadline)
        except TimeoutError:
            raise Refusal(503, STOPPING, headers={"Connection": "close"}) from None

    def end_in(self, seconds: float) -> None:
        """Take no new texts, and let what is under way end in so many seconds."""
        self.stopping = True
        self._end = asyncio.get_running_loop().time() + seconds
        for deadline in self._under_way:
            deadline.reschedule(self._end)

    @asynccontextmanager
    async def writing(self, served: Served, jobs: list[Job], *, pieced: bool) -> AsyncIterator[Ticket]:
        """Texts under way; what is left of them at the end of the context is given up. Raises Refusal where too many
        wait."""
        assert served.scheduler is not None
        self._refuse_full(served, served.scheduler.decoder.slots, len(jobs))
        ticket, begun = Ticket(jobs, pieced=pieced), time.monotonic()
        served.load += len(jobs)
        self.worker.submit(served.scheduler, ticket)
        try:
            yield ticket
            seconds = time.monotonic() - begun
            self._text_seconds += 0.1 * (seconds - self._text_seconds)
            self.metrics.seconds["text"].add(seconds)
        finally:
            served.load -= len(jobs)
            if not ticket.ended:
                self.metrics.cancelled += len(jobs)
                self.worker.cancel(served.scheduler, ticket)

    def _refuse_full(self, served: Served, slots: int, new: int) -> None:
        if self.stopping:
            raise Refusal(503, STOPPING, headers={"Connection": "close"})
        if served.load + new <= slots + self.limits.queue:
            return
        waiting = max(0, served.load - slots) + new
        seconds = min(600, max(1, round(self._text_seconds * waiting / slots)))
        raise Refusal(
            429,
            f"{served.load} texts are under way or wait, and at most {self.limits.queue} may wait; try again later.",
            headers={"Retry-After": str(seconds)},
        )

    async def set_aside(self, function: Callable[[], Any]) -> Any:
        """What a function returns, in a thread of its own, one after the other. Raises Refusal where too many wait."""
        if self._set_aside >= ASIDES:
            raise Refusal(429, "Too many requests wait; try again later.", headers={"Retry-After": "5"})
        self._set_aside += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._aside, function)
        finally:
            self._set_aside -= 1

    def done(self, path: str, status: int) -> None:
        """A call has ended."""
        self.metrics.requests[path, status] += 1

    def close(self) -> None:
        """End the threads."""
        self.worker.stop()
        self.models.close()
        self._aside.shutdown(wait=False, cancel_futures=True)


def refuse_no_text(served: Served) -> None:
    """Raise Refusal for a model that goes on from no text."""
    if served.scheduler is None:
        raise wrong(f"This model goes on from no text: its task is {served.task}.", "model")


def head(served: Served, asked: Asked, prefix: str, kind: str) -> dict[str, Any]:
    """What every answer begins with."""
    return {
        "id": f"{prefix}-{secrets.token_hex(12)}",
        "object": kind,
        "created": int(time.time()),
        "model": asked.model or served.name,
        "system_fingerprint": served.fingerprint,
    }


def spelling_of(served: Served) -> Spelling:
    """The texts of a model's tokens, kept with it."""
    if "spelling" not in served.kept:
        served.kept["spelling"] = Spelling(served.run.tokenizer)
    return served.kept["spelling"]
