"""Has a corpus written: as many calls in flight as the writers allow, each paid for before it is sent, every reply
checked.

    reserve the most it can cost → write the call down → send → check → write the outcome down → settle the cost

Every step before an arrow is durable before the next, so the process may die anywhere.

A story whose call hangs when nothing else is left to ask for is asked for once more; the first answer is taken.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from random import Random
from typing import Any

from octavo.errors import OctavoError
from octavo.synthesis.writing.calls import Backend, CallFailed, Reply, Request
from octavo.synthesis.writing.checks import Judge
from octavo.synthesis.writing.desk import Desk
from octavo.synthesis.writing.journal import BatchMemory, Journal
from octavo.synthesis.writing.money import Budget, Hours, Tokens
from octavo.synthesis.writing.pacing import FIRST, Pace, backoff
from octavo.synthesis.writing.progress import Progress
from octavo.synthesis.writing.prompts import Prompt, call_seed, seeds_of
from octavo.synthesis.writing.spec import WritingSpec
from octavo.synthesis.writing.store import SENT, WAITING, Call, Outcome, Store, story_id
from octavo.synthesis.writing.work import Draft, Work

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
