"""Has a corpus written: as many calls in flight as the writers allow, each paid for before it is sent, every reply
checked.

    reserve the most it can cost → write the call down → send → check → write the outcome down → settle the cost

Every step before an arrow is durable before the next, so the process may die anywhere.

A story whose call hangs when nothing else is left to ask for is asked for once more; the first answer is taken.
"""

from __future__ import annotations

import asyncio
import heapq
import time
from collections.abc import Callable, Coroutine, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from random import Random
from typing import Any

from octavo.errors import OctavoError
from octavo.llm_corpus.calls import Backend, Batch, CallFailed, Message, Reply, Request
from octavo.llm_corpus.checks import Judge
from octavo.llm_corpus.money import Budget, Hours, Tokens
from octavo.llm_corpus.pacing import FIRST, Pace, backoff
from octavo.llm_corpus.progress import Progress
from octavo.llm_corpus.prompts import Prompt, call_seed, seeds_of
from octavo.llm_corpus.spec import WritingSpec
from octavo.llm_corpus.store import SENT, WAITING, Call, Outcome, Store, story_id

# One writer at work: how it is doing, and when it gets no more calls.

NEVER_REACHED = 5
"""Failures of a writer that never answered, one after another, after which it is given up."""

REFUSED = 5
"""Refusals of a writer that has answered before, one after another, after which it is given up."""


@dataclass
class Desk:
    """A writer with its pace. `first_wait`: seconds of the first rest after a failure; `give_up_after`: seconds
    without one good answer."""

    name: str
    backend: Backend
    pace: Pace
    first_wait: float
    give_up_after: float
    closed: str = ""  # why it gets no more calls
    good: int = 0
    failed_in_row: int = 0  # calls that were out together fail as one
    last_failed: float = 0.0
    last_good: float = field(default_factory=time.monotonic)
    random: Random = field(default_factory=Random)  # jitter alone
    waits: dict[str, asyncio.Timeout] = field(default_factory=dict)  # by the name of the call
    overtaken: set[str] = field(
        default_factory=set
    )  # calls that are not waited for because another was faster

    def hanging(self) -> list[str]:
        """Calls that left the window and have not been answered, the first one first."""
        return [call for call in self.pace.late if call in self.waits]

    async def ask(self, request: Request) -> Reply:
        """The writer's answer. Raises CallFailed, also when none will come any more."""
        limit = self.waits[request.id] = asyncio.timeout(None)
        try:
            async with limit:
                return await self.backend.write(request)
        except TimeoutError:
            if not limit.expired():
                raise
            if request.id in self.overtaken:
                raise CallFailed(
                    "overtaken", "Another call for this story was faster.", billed=True
                ) from None
            raise CallFailed("timeout", "No answer; its fellows were much faster.", billed=True) from None
        finally:
            self.waits.pop(request.id, None)

    def let_go(self, now: float) -> None:
        """Wait no longer for calls that take far longer than their fellows."""
        for call in self.pace.overdue(now):
            self._end(call)

    def overtake(self, calls: Iterable[str]) -> None:
        """Wait no longer for calls whose story is there."""
        for call in calls:
            if self._end(call):
                self.overtaken.add(call)

    def _end(self, call: str) -> bool:
        limit = self.waits.pop(call, None)
        if limit is not None:
            limit.reschedule(0.0)
        return limit is not None

    def answered(self, sent: float, now: float) -> None:
        """A good answer to a call that was sent at a time."""
        self.good += 1
        self.failed_in_row = 0
        self.last_good = now
        self.pace.good(sent, now)
        self.pace.stay_away(now + self.backend.quota)

    def failed(self, failure: CallFailed, call: str, sent: float, now: float) -> None:
        """A call that was sent at a time has failed."""
        if failure.kind == "overtaken":  # which says nothing about the writer
            return
        if sent >= self.last_failed:
            self.failed_in_row, self.last_failed = self.failed_in_row + 1, now
        if failure.kind == "throttled":
            self.pace.complaint(sent, now, failure.wait or 0.0)
        elif failure.kind == "timeout":
            self.pace.given_up(call, sent, now)
        elif failure.kind == "refused" and self.failed_in_row > 1:  # not the whim of one machine of many
            self.pace.stay_away(now + backoff(self.failed_in_row, self.first_wait, self.random))
        if failure.wait is not None:
            self.pace.stay_away(now + failure.wait)
        self.closed = self.closed or self._why_closed(failure, now)

    def _why_closed(self, failure: CallFailed, now: float) -> str:
        if failure.kind == "refused" and (not self.good or self.failed_in_row >= REFUSED):
            return str(failure)
        if not self.good and self.failed_in_row >= NEVER_REACHED and failure.wait is None:
            return str(failure)
        silent = now - max(self.last_good, self.pace.not_before)
        if self.failed_in_row >= NEVER_REACHED and silent > self.give_up_after:
            return f"no good answer for {silent:.0f} seconds; the last was: {failure}"
        return ""


# Many records, one wait for the disk: what arrives while a transaction is under way goes into the next one.


class Journal:
    """Hands actions to the store in groups; an action's answer comes when its group is on the disk."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._waiting: list[tuple[Callable[[], Any], asyncio.Future[Any]]] = []
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="journal")
        self._flushing: asyncio.Task[None] | None = None

    async def do(self, action: Callable[[], Any]) -> Any:
        """Run an action on the store; returns its result once that is durable. Raises StorageError."""
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._waiting.append((action, future))
        if self._flushing is None:
            self._flushing = asyncio.create_task(self._flush())
        return await future

    async def _flush(self) -> None:
        loop = asyncio.get_running_loop()
        while self._waiting:
            group, self._waiting = self._waiting, []
            try:
                results = await loop.run_in_executor(self._thread, self._store.apply, [a for a, _ in group])
            except Exception as error:
                for _, future in group:
                    if not future.done():
                        future.set_exception(error)
                continue
            for (_, future), result in zip(group, results, strict=True):
                if not future.done():
                    future.set_result(result)
        self._flushing = None

    async def close(self) -> None:
        """Wait for what is under way."""
        if self._flushing is not None:
            await self._flushing
        self._thread.shutdown()


class BatchMemory:
    """A writer's batches in the store."""

    def __init__(self, journal: Journal, store: Store, writer: str) -> None:
        self._journal, self._store, self._writer = journal, store, writer

    async def asked(self, batch: Batch) -> None:
        """From now on the server may have it."""
        await self._journal.do(lambda: self._store.asked(batch))

    async def known(self, batch: Batch) -> None:
        """The server has it, under this name."""
        await self._journal.do(lambda: self._store.known(batch))

    async def stay_away(self, seconds: float) -> None:
        """The server asked for rest."""
        until = time.time() + seconds
        await self._journal.do(lambda: self._store.gate(self._writer, until, seconds))


# Stories on their way: which numbers are open, which may go out now, and what was said about each so far.


@dataclass
class Draft:
    """A story that is not there yet. `attempt` counts calls of all sessions, `tries` replies of this one that did
    not pass, `failures` calls in a row without a reply, `refusals` those of them that were refused; `due` is the
    earliest time of the next call; `calls` names those under way; `closed`: the story is there, or given up."""

    number: int
    attempt: int = 0
    tries: int = 0
    failures: int = 0
    refusals: int = 0
    due: float = 0.0
    messages: list[Message] = field(default_factory=list)
    calls: set[str] = field(default_factory=set)
    closed: bool = False


class Work:
    """Hands out drafts so that there are never more than are still wanted.

    Args:
        missing: stories that are still wanted.
        opened: numbers that were begun, with their next attempt and the time from which they may go out.
        next_number: the first number that was never begun.
    """

    def __init__(self, missing: int, opened: Iterable[tuple[int, int, float]], next_number: int) -> None:
        self.missing, self._next = missing, next_number
        self._waiting = [(due, number, Draft(number, attempt, due=due)) for number, attempt, due in opened]
        heapq.heapify(self._waiting)
        self.out = 0

    def take(self, now: float) -> Draft | None:
        """A draft that may go out now, or None."""
        if self.out >= self.missing:
            return None
        if self._waiting and self._waiting[0][0] <= now:
            self.out += 1
            return heapq.heappop(self._waiting)[2]
        if self.out + len(self._waiting) >= self.missing:
            return None
        self.out += 1
        self._next += 1
        return Draft(self._next - 1)

    def next_time(self) -> float:
        """When a draft that waits will be due."""
        return self._waiting[0][0] if self._waiting and self.out < self.missing else float("inf")

    def back(self, draft: Draft, due: float) -> None:
        """It goes out again, not before a time."""
        self.out -= 1
        draft.due = due
        heapq.heappush(self._waiting, (due, draft.number, draft))

    def done(self, *, story: bool) -> None:
        """A number is closed, with a story or without."""
        self.out -= 1
        self.missing -= story


LOST_WAIT = 2.0
"""Seconds that a writer is left alone after a process died during a call to it, if it never asked for more."""

REFUSALS = 3
"""Refusals of one story by a writer that answers others, after which it is given up."""

AT_ONCE = 3
"""Calls for one story at the same time, at most: each after all earlier ones have become slow."""

TICK = 0.25
"""Seconds between two looks at the clock, at the user, and at the hours."""


class WritersGone(OctavoError):
    """No writer is left that answers."""


class Writing:
    """One session of writing into a store.

    Args:
        spec, prompt, judge, store: what is asked, how, by which measure, and where it goes.
        backends: the writers by name.
        stories: wanted in all.
        cap: picodollars for all calls of all sessions; None for no cap.
        deadline: no call after this monotonic time.
        off_peak: calls at these hours only.
    """

    def __init__(
        self,
        *,
        spec: WritingSpec,
        prompt: Prompt,
        judge: Judge,
        store: Store,
        backends: dict[str, Backend],
        stories: int,
        cap: int | None,
        deadline: float = float("inf"),
        off_peak: Hours | None = None,
    ) -> None:
        self.spec, self.prompt, self.judge, self.store = spec, prompt, judge, store
        self.deadline, self.off_peak = deadline, off_peak
        lasting = [name for name, backend in backends.items() if backend.lasting]
        gates = store.recover(time.time(), LOST_WAIT, lasting)
        self.budget = Budget(cap, store.spent())
        now, today = time.monotonic(), time.time()
        self.desks = [
            Desk(
                name,
                backend,
                Pace(
                    backend.in_flight,
                    first=backend.in_flight if backend.lasting else FIRST,
                    not_before=now + max(0.0, gates.get(name, 0.0) - today),
                    judged=not backend.lasting,
                ),
                spec.backoff,
                spec.give_up_after,
            )
            for name, backend in backends.items()
        ]
        accepted = store.accepted()
        begun, fresh = store.open_numbers()
        opened = [(number, attempt, now + max(0.0, due - today)) for number, attempt, due in begun]
        self.work = Work(max(0, stories - accepted), opened, fresh)
        priced = any(b.prices is not None and (b.prices.input or b.prices.output) for b in backends.values())
        self.progress = Progress(stories, accepted, self.budget, priced)
        self._random = Random()  # jitter alone: nothing that is written depends on it
        self._changed = asyncio.Event()
        self._calls: dict[asyncio.Task[None], Desk] = {}
        self._drafts: dict[str, Draft] = {}  # by the names of the calls under way
        self._journal = Journal(store)
        self._broke = False

    async def run(self, tell: Callable[[Progress], None], stop: Callable[[], bool]) -> str:
        """Write until the stories are there; returns why it ended: stories, budget, hours or stopped.

        Raises WritersGone, and StorageError; calls in flight are waited for in either case, for they are paid, but
        not batches: the next session takes them up.
        """
        try:
            for desk in self.desks:
                if desk.backend.lasting:
                    self._take_up(desk)
            reason = await self._until_done(tell, stop)
            self.progress.note = "waiting for the last replies"
            await self._drain(tell)
            return "stories" if not self.work.missing else reason
        finally:
            for call in self._calls:
                call.cancel()
            await asyncio.gather(*self._calls, return_exceptions=True)
            await self._journal.close()
            for desk in self.desks:
                await desk.backend.close()

    def _take_up(self, desk: Desk) -> None:
        """Wait again for the batches of earlier sessions."""
        found = self.store.under_way(desk.name)
        rest = max(0.0, desk.pace.not_before - time.monotonic())
        memory = BatchMemory(self._journal, self.store, desk.name)
        desk.backend.take_up(memory, [batch for batch, _ in found], rest)
        for row, call in (one for _, calls in found for one in calls):
            draft = Draft(call.number, call.attempt, messages=self.prompt.first(call.number))
            request = self._request(draft)
            draft.attempt += 1
            self.work.out += 1
            self.budget.take_up(call.reserved)
            begin = time.monotonic() - (time.time() - call.sent)
            sent = Sent(row, call, begin)
            self._begin(desk, draft, request.id, self._call(desk, draft, request, call.reserved, sent))

    def _begin(self, desk: Desk, draft: Draft, name: str, call: Coroutine[Any, Any, None]) -> None:
        desk.pace.begin(name)
        draft.calls.add(name)
        self._drafts[name] = draft
        self.progress.in_flight += 1
        task = asyncio.create_task(call)
        task.add_done_callback(lambda _: self._changed.set())
        self._calls[task] = desk

    async def _until_done(self, tell: Callable[[Progress], None], stop: Callable[[], bool]) -> str:
        while self.work.missing:
            now = time.monotonic()
            if stop():
                return "stopped"
            if now >= self.deadline:
                return "hours"
            if all(desk.closed for desk in self.desks):
                await self._drain(tell)
                raise WritersGone(
                    "No writer answers.\n  · " + "\n  · ".join(f"{d.name}: {d.closed}" for d in self.desks)
                )
            hours_away = self.off_peak.wait(time.time()) if self.off_peak else 0.0
            note = next((desk.backend.note for desk in self.desks if desk.backend.note), "")
            self.progress.note = f"the cheap hours begin in {hours_away / 3600:.1f} h" if hours_away else note
            wake = min(now + hours_away, now + TICK) if hours_away else self._send_all(now)
            if self._broke and not self._calls:
                return "budget"
            tell(self.progress)
            await self._wait(wake - now)
        return "stories"

    async def _drain(self, tell: Callable[[Progress], None]) -> None:
        for desk in self.desks:
            desk.pace.close()
        while any(not desk.backend.lasting for desk in self._calls.values()):
            tell(self.progress)
            await self._wait(TICK)

    async def _wait(self, seconds: float) -> None:
        self._changed.clear()
        for desk in self.desks:
            desk.let_go(time.monotonic())
        done = [call for call in self._calls if call.done()]
        for call in done:
            del self._calls[call]
            call.result()  # an error of ours or of the disk ends the session
        if done:
            return
        try:
            await asyncio.wait_for(self._changed.wait(), max(0.001, min(seconds, TICK)))
        except TimeoutError:
            return

    def _send_all(self, now: float) -> float:
        """Send what can be sent now; returns when there may be more to send."""
        wake = now + TICK
        self._broke = False
        for desk in self.desks:
            while not desk.closed and not self._broke and desk.pace.free(now):
                fresh = self.work.take(now)
                draft = fresh or self._hanging(desk, now)
                if draft is None:
                    break
                if not draft.messages:
                    draft.messages = self.prompt.first(draft.number)
                request = self._request(draft)
                reserved = desk.backend.prices.most(request.most_tokens()) if desk.backend.prices else 0
                if not self.budget.reserve(reserved):
                    if fresh:
                        self._broke = True
                        self.work.back(draft, draft.due)
                    break
                self._begin(desk, draft, request.id, self._call(desk, draft, request, reserved))
            wake = min(wake, max(desk.pace.next_time(now), now))
        return max(now + 0.005, min(wake, max(self.work.next_time(), now)))

    def _hanging(self, desk: Desk, now: float) -> Draft | None:
        """A draft that waits for slow calls alone, so that a writer can be asked for it again."""
        if desk.backend.lasting:
            return None
        hanging = {call for other in self.desks for call in other.hanging()}
        drafts = (self._drafts[call] for call in hanging)
        return min(
            (d for d in drafts if d.calls <= hanging and len(d.calls) < AT_ONCE and d.due <= now),
            key=lambda draft: (len(draft.calls), draft.number),
            default=None,
        )

    def _close(self, draft: Draft, *, story: bool) -> None:
        draft.closed = True
        self.work.done(story=story)
        for desk in self.desks:
            desk.overtake(draft.calls)

    def _request(self, draft: Draft) -> Request:
        seed = call_seed(self.spec, draft.number, draft.attempt)
        name = f"{story_id(draft.number)}.{draft.attempt}"
        return Request(draft.messages, self.spec.max_tokens, self.spec.temperature, seed, name)

    async def _call(
        self, desk: Desk, draft: Draft, request: Request, reserved: int, sent: Sent | None = None
    ) -> None:
        """One call from its reservation to its settlement. What breaks off in between keeps the reservation. `sent`:
        it went out in an earlier session."""
        cost = reserved
        try:
            if sent is None:
                sent = await self._written_down(desk, draft, request, reserved)
            desk.pace.sent(request.id, sent.begin)
            try:
                reply = await desk.ask(request)
            except CallFailed as failure:
                cost = await self._failed(desk, draft, request, failure, sent)
            else:
                cost = await self._answered(desk, draft, request, reply, sent)
        finally:
            self.budget.settle(reserved, cost)
            desk.pace.end(request.id)
            del self._drafts[request.id]
            self.progress.in_flight -= 1

    async def _written_down(self, desk: Desk, draft: Draft, request: Request, reserved: int) -> Sent:
        call = Call(
            number=draft.number,
            attempt=draft.attempt,
            writer=desk.name,
            model=desk.backend.model,
            prompt=self.prompt.name,
            prompt_hash=self.prompt.hash,
            seed=request.seed,
            sent=time.time(),
            reserved=reserved,
            outcome=WAITING if desk.backend.lasting else SENT,
        )
        row = await self._journal.do(lambda: self.store.send(call))
        draft.attempt += 1
        return Sent(row, call, time.monotonic())

    async def _failed(
        self, desk: Desk, draft: Draft, request: Request, failure: CallFailed, sent: Sent
    ) -> int:
        now = time.monotonic()
        desk.failed(failure, request.id, sent.begin, now)
        draft.failures += 1
        draft.refusals += failure.kind == "refused"
        self.progress.failures[failure.kind] += 1
        cost = sent.cost(desk, failure.tokens) if failure.billed or failure.tokens else 0
        outcome = Outcome(
            call=sent.row,
            number=draft.number,
            seconds=now - sent.begin,
            cost=cost,
            tokens=_counted(failure.tokens),
            outcome=failure.kind,
            problems=(str(failure),),
            give_up=bool(desk.good) and draft.refusals >= REFUSALS,
            gate=(desk.name, time.time() + failure.wait, failure.wait) if failure.wait else None,
        )
        await self._journal.do(lambda: self.store.settle(outcome))
        draft.calls.discard(request.id)
        if draft.closed:
            return cost
        if outcome.give_up:
            self._close(draft, story=False)
            return cost
        pause = backoff(draft.failures, self.spec.backoff, self._random)
        draft.due = now + max(pause, failure.wait or 0.0)  # with another writer, too
        if not draft.calls:
            self.work.back(draft, draft.due)
        return cost

    async def _answered(self, desk: Desk, draft: Draft, request: Request, reply: Reply, sent: Sent) -> int:
        now = time.monotonic()
        draft.failures = draft.refusals = 0
        desk.answered(sent.begin, now)
        quota = desk.backend.quota
        self.progress.replies += 1
        candidate, problems = self.judge.judge(reply, seeds_of(self.spec, draft.number))
        cost = sent.cost(desk, reply.tokens)
        outcome = Outcome(
            call=sent.row,
            number=draft.number,
            seconds=now - sent.begin,
            cost=cost,
            tokens=_counted(reply.tokens),
            reply=reply.text,
            problems=problems,
            candidate=candidate,
            give_up=draft.tries + 1 >= self.spec.rules.tries,
            gate=(desk.name, time.time() + quota, 0.0) if quota else None,
        )
        problems = await self._journal.do(lambda: self.store.settle(outcome))
        draft.calls.discard(request.id)
        if draft.closed:
            return cost
        if not problems:
            self._close(draft, story=True)
            self.progress.story()
        elif outcome.give_up:
            self._close(draft, story=False)
        else:
            draft.tries += 1
            draft.messages = self.prompt.again(self.prompt.first(draft.number), reply.text, problems)
            if not draft.calls:
                self.work.back(draft, now)
        return cost


@dataclass(frozen=True)
class Sent:
    """A call under way: its row in the store, what was written there, and when it went out (monotonic)."""

    row: int
    call: Call
    begin: float

    def cost(self, desk: Desk, tokens: Tokens | None) -> int:
        """What it cost; all that was reserved where nobody counted its tokens. Never more than was reserved is
        expected, but what a server says it used is believed."""
        if desk.backend.prices is None:
            return 0
        if tokens is None:
            return self.call.reserved
        return desk.backend.prices.at(tokens, self.call.sent, time.time())


def _counted(tokens: Tokens | None) -> tuple[int, int, int] | None:
    return None if tokens is None else (tokens.prompt, tokens.cached, tokens.reply)
