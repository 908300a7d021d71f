"""The one thread that computes: it owns the models' schedulers, and tells an event loop what was written."""

from __future__ import annotations

import asyncio
import logging
import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from octavo.serving.scheduler import Job, Scheduler

LOG = logging.getLogger("octavo.serve")


class Failed(Exception):
    """The worker failed at a text; its log says how."""


class Piece(NamedTuple):
    """What a step let out of a text.

    Attributes:
        place: the text's among those of its request.
        tokens: that it has had since its prompt.
    """

    place: int
    text: str
    tokens: int


class Ticket:
    """The texts of one request, as the event loop sees them.

    Attributes:
        pieced: whether each piece is told when it is written, not the ends alone.
    """

    def __init__(self, jobs: Sequence[Job], *, pieced: bool) -> None:
        self.jobs, self.pieced = list(jobs), pieced
        self.left, self.error = len(self.jobs), False
        self.begun = time.monotonic()
        self.tokens: dict[Job, tuple[float, float]] = {}  # when the first and the last of each were written
        self._places = {job: place for place, job in enumerate(self.jobs)}
        self._pieces: deque[Piece] = deque()
        self._told = asyncio.Event()

    @property
    def ended(self) -> bool:
        """Whether nothing more will come."""
        return self.error or not self.left

    def add(self, job: Job, piece: str) -> None:
        """Tokens were written (in the worker's thread)."""
        now = time.monotonic()
        self.tokens[job] = self.tokens[job][0] if job in self.tokens else now, now
        if self.pieced:
            self._pieces.append(Piece(self._places[job], piece, len(job.stream.sample.ids)))
        if not job.stream.open:
            self.left -= 1

    def wake(self) -> None:
        """There is something to read (in the loop's thread)."""
        self._told.set()

    async def pieces(self) -> list[Piece]:
        """What was written since the last call, at least something; nothing once all have ended. Raises Failed."""
        while True:
            if self.error:
                raise Failed
            found = [self._pieces.popleft() for _ in range(len(self._pieces))]
            if found or self.ended:
                return found
            self._told.clear()
            if not self._pieces and not self.ended:
                await self._told.wait()

    async def end(self) -> None:
        """All have ended. Raises Failed."""
        while not self.ended:
            self._told.clear()
            if not self.ended:
                await self._told.wait()
        if self.error:
            raise Failed


class Worker:
    """Steps the schedulers that have work, each in turn. What it is asked meanwhile happens between two steps."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._inbox: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._tickets: dict[Scheduler, dict[Job, Ticket]] = {}
        self._thread = threading.Thread(target=self._run, name="octavo-worker", daemon=True)
        self._thread.start()

    def submit(self, scheduler: Scheduler, ticket: Ticket) -> None:
        """Let the texts of a request be written."""

        def begin() -> None:
            tickets = self._tickets.setdefault(scheduler, {})
            for job in ticket.jobs:
                scheduler.submit(job)
                tickets[job] = ticket

        self._inbox.put(begin)

    def cancel(self, scheduler: Scheduler, ticket: Ticket) -> None:
        """Nothing is computed for a request any more, from the next step on."""

        def end() -> None:
            for job in ticket.jobs:
                scheduler.cancel(job)
                self._tickets.get(scheduler, {}).pop(job, None)

        self._inbox.put(end)

    async def call(self, function: Callable[[], Any]) -> Any:
        """What a function returns that is called between two steps. Raises what it raises."""
        future = self._loop.create_future()

        def told(set_it: Callable[[Any], None], what: Any) -> None:
            if not future.done():
                set_it(what)

        def compute() -> None:
            try:
                found = function()
            except Exception as error:
                self._loop.call_soon_threadsafe(told, future.set_exception, error)
            else:
                self._loop.call_soon_threadsafe(told, future.set_result, found)

        self._inbox.put(compute)
        return await future

    def stop(self) -> None:
        """End the thread after its step."""
        self._inbox.put(None)
        self._thread.join()

    def _run(self) -> None:
        while self._obeyed():
            woken: set[Ticket] = set()
            for scheduler, tickets in list(self._tickets.items()):
                try:
                    for job, piece in scheduler.step():
                        ticket, ended = tickets[job], not job.stream.open
                        if not (ticket.pieced or ended):  # which is often so, and faster
                            continue
                        ticket.add(job, piece)
                        if ended:
                            del tickets[job]
                        if ticket.pieced or ticket.ended:
                            woken.add(ticket)
                except Exception:
                    LOG.exception("A step failed; the texts under way are given up.")
                    woken |= self._give_up(scheduler)
                if not len(scheduler):
                    self._tickets.pop(scheduler, None)
            if woken:
                self._tell(woken)

    def _obeyed(self) -> bool:
        """Do what was asked, and wait for it where there is nothing else to do. False at the end."""
        wait = not self._tickets
        while True:
            try:
                deed = self._inbox.get(block=wait)
            except queue.Empty:
                return True
            if deed is None:
                return False
            try:
                deed()
            except Exception:
                LOG.exception("The worker could not do what it was asked.")
            wait = not self._tickets

    def _give_up(self, scheduler: Scheduler) -> set[Ticket]:
        tickets = self._tickets.pop(scheduler)
        for job, ticket in tickets.items():
            scheduler.cancel(job)
            ticket.error = True
        return set(tickets.values())

    def _tell(self, tickets: set[Ticket]) -> None:
        def wake() -> None:
            for ticket in tickets:
                ticket.wake()

        try:
            self._loop.call_soon_threadsafe(wake)
        except RuntimeError:  # the loop is closed
            self._inbox.put(None)
