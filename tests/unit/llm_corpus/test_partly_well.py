"""Writing through an endpoint that is only partly well: slow calls, refusals that pass, replies without measure."""

from __future__ import annotations

import asyncio
import json
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from octavo.llm_corpus import pacing, writer
from octavo.llm_corpus import writer as desk
from octavo.llm_corpus.calls import Backend, CallFailed, Reply, Request
from octavo.llm_corpus.money import PICO, Prices, Tokens
from octavo.llm_corpus.progress import Progress
from octavo.llm_corpus.session import WritingJob
from octavo.llm_corpus.spec import WritingSpec
from octavo.llm_corpus.writer import WritersGone
from octavo.synthetic.storyteller import Storyteller

Make = Callable[..., WritingSpec]
GUARD = 20 / 3600  # hours after which a test that would wait for ever ends


class Scripted(Backend):
    """Does with its nth call what a script says: answer, hang until enough others were answered, or fail."""

    model = "scripted"
    prices = Prices(input=1, output=1)

    def __init__(self, script: Callable[[int], str], *, in_flight: int = 4, until: int = 10**9) -> None:
        self.script, self.in_flight, self.until = script, in_flight, until
        self.asked: list[str] = []
        self.good, self.hanging = 0, 0
        self.enough: asyncio.Event | None = None
        self._numbers: Iterator[int] = count()

    async def write(self, request: Request) -> Reply:
        self.enough = self.enough or asyncio.Event()
        self.asked.append(request.id)
        act = self.script(next(self._numbers))
        await asyncio.sleep(0.001)
        if act == "hang":
            self.hanging += 1
            try:
                await asyncio.wait_for(self.enough.wait(), 20)
            except TimeoutError:
                raise CallFailed("timeout", "its own limit", billed=True) from None
            finally:
                self.hanging -= 1
        elif act != "good":
            raise CallFailed("refused", act)
        self.good += 1
        if self.good >= self.until:
            self.enough.set()
        return Reply(Storyteller(3).story(request.seed).text, "stop", Tokens(900, 0, 90))


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pacing, "SLOW_LEAST", 0.05)
    monkeypatch.setattr(desk, "backoff", lambda *_: 0.001)
    monkeypatch.setattr(writer, "backoff", lambda *_: 0.001)


def test_calls_that_hang_give_their_places_on_and_are_still_heard(tmp_path: Path, spec_for: Make) -> None:
    backend = Scripted(lambda n: "hang" if 20 <= n < 28 else "good", until=50)
    job = WritingJob(spec_for("https://x/v1"), tmp_path, stories=68, max_usd=1, max_hours=GUARD)
    result = job.run(backends={"w0": backend})
    assert result["ended"] == "stories" and result["stories"] == 68
    assert len(backend.asked) == 68 == len(set(backend.asked))  # none of them was asked twice


def calls_of(job: WritingJob) -> list[tuple[int, int, str, int, int]]:
    """Number, attempt, outcome, cost and reservation of each call."""
    with closing(sqlite3.connect(job.store)) as con:
        return con.execute(
            "SELECT number, attempt, outcome, cost, reserved FROM calls ORDER BY number, attempt"
        ).fetchall()


def test_the_end_does_not_wait_for_calls_that_hang(tmp_path: Path, spec_for: Make) -> None:
    """Some hang in the middle and some among the last; one whose second call hangs too is asked a third time."""
    hang = {20, 33, 57, 58, 59, 60}
    backend = Scripted(lambda n: "hang" if n in hang else "good")
    job = WritingJob(spec_for("https://x/v1"), tmp_path, stories=60, max_usd=1, max_hours=GUARD)
    result = job.run(backends={"w0": backend})
    assert result["ended"] == "stories" and result["stories"] == 60
    assert result["session"]["failures"] == {"overtaken": len(hang)} and backend.hanging == 0
    calls = calls_of(job)
    assert len(backend.asked) == len(calls) == 60 + len(hang)
    assert sorted(n for n, _, outcome, _, _ in calls if outcome == "accepted") == list(range(60))
    lost = [(cost, reserved) for _, _, outcome, cost, reserved in calls if outcome == "overtaken"]
    assert all(cost == reserved > 0 for cost, reserved in lost)  # the server may have written it
    assert result["spent_usd"] * PICO == pytest.approx(sum(cost for *_, cost, _ in calls))


def test_the_slower_call_is_taken_if_it_answers_first(tmp_path: Path, spec_for: Make) -> None:
    backend = Scripted(lambda n: "hang" if n in (20, 40) else "good")
    answer = backend.write

    async def write(request: Request) -> Reply:
        if not request.id.endswith(".0") and backend.enough is not None:  # asked for again
            backend.enough.set()
            await asyncio.sleep(20)
        return await answer(request)

    backend.write = write  # type: ignore[method-assign]
    job = WritingJob(spec_for("https://x/v1"), tmp_path, stories=40, max_usd=1, max_hours=GUARD)
    result = job.run(backends={"w0": backend})
    assert result["ended"] == "stories" and result["stories"] == 40
    outcomes = [(attempt, outcome) for _, attempt, outcome, _, _ in calls_of(job)]
    assert outcomes.count((0, "accepted")) == 40 and (1, "overtaken") in outcomes


def test_asking_again_stays_under_the_cap(tmp_path: Path, spec_for: Make) -> None:
    """The cap holds each story's call, and nearly no second one for the four that hang."""
    job = WritingJob(spec_for("https://x/v1"), tmp_path, stories=30, max_usd=1, max_hours=GUARD)
    backend = Scripted(lambda n: "hang" if n >= 26 else "good", until=10**9)
    one = Prices(input=1, output=1).cost(Tokens(900, 0, 90))
    most = Prices(input=1, output=1).most(
        Request(job.prompt.first(0), job.spec.max_tokens, 1.0, 0).most_tokens()
    )
    job.cap = 26 * one + round(5.5 * most)
    spent: list[int] = []
    asked_all: list[float] = []

    def stop() -> bool:
        """A while after the one call that fits has gone out."""
        if len(backend.asked) >= 31:
            asked_all.append(time.monotonic())
        return bool(asked_all) and time.monotonic() - asked_all[0] > 0.5

    def look(progress: Progress) -> None:
        spent.append(progress.budget.spent + progress.budget.reserved)
        if stop() and backend.enough:
            backend.enough.set()

    result = job.run(backends={"w0": backend}, tell=look, stop=stop)
    assert len(backend.asked) == 31 and result["stories"] == 30
    assert max(spent) <= job.cap and result["spent_usd"] * PICO <= job.cap


def test_a_second_call_rests_as_the_server_asked(tmp_path: Path, spec_for: Make) -> None:
    """Also where another writer could be asked at once."""
    times: list[float] = []

    class Refusing(Scripted):
        async def write(self, request: Request) -> Reply:
            if not request.id.endswith(".0"):
                times.append(time.monotonic())
                if len(times) == 1:
                    raise CallFailed("throttled", "HTTP 429", wait=0.4)
            return await super().write(request)

    spec = spec_for("https://x/v1", "https://y/v1")
    job = WritingJob(spec, tmp_path, stories=60, max_usd=1, max_hours=GUARD)
    hanging = Refusing(lambda n: "hang" if n == 20 else "good")
    assert job.run(backends={"w0": hanging, "w1": Refusing(lambda _: "good")})["stories"] == 60
    assert len(times) == 2 and times[1] - times[0] >= 0.4


def test_a_call_without_an_answer_is_let_go_and_counts_in_full(
    tmp_path: Path, spec_for: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pacing, "PATIENCE_LEAST", 0.1)
    monkeypatch.setattr(writer, "AT_ONCE", 1)  # none is asked for again before
    backend = Scripted(lambda n: "hang" if n in (0, 30, 31) else "good")
    job = WritingJob(spec_for("https://x/v1"), tmp_path, stories=60, max_usd=1, max_hours=GUARD)
    result = job.run(backends={"w0": backend})
    assert result["ended"] == "stories" and result["session"]["failures"] == {"timeout": 3}
    with sqlite3.connect(job.store) as con:
        lost = con.execute("SELECT cost, reserved FROM calls WHERE outcome = 'timeout'").fetchall()
    assert len(lost) == 3 and all(cost == reserved > 0 for cost, reserved in lost)


def test_calls_that_hang_stay_under_the_cap(tmp_path: Path, spec_for: Make) -> None:
    backend = Scripted(lambda n: "hang" if 20 <= n < 26 else "good", in_flight=2, until=60)
    job = WritingJob(spec_for("https://x/v1"), tmp_path, stories=10**4, max_usd=0.15, max_hours=GUARD)
    seen: list[tuple[int, int]] = []

    def look(progress: Progress) -> None:
        budget = progress.budget
        assert budget.spent + budget.reserved <= 0.15 * PICO
        seen.append((backend.hanging, budget.reserved))

    result = job.run(backends={"w0": backend}, tell=look)
    assert result["ended"] == "budget" and result["spent_usd"] <= 0.15
    assert max(hanging for hanging, _ in seen) == 6 > backend.in_flight  # more than have a place
    with sqlite3.connect(job.store) as con:
        (least,) = con.execute("SELECT min(reserved) FROM calls").fetchone()
    assert all(reserved >= hanging * least for hanging, reserved in seen)


def test_single_refusals_after_good_answers_are_tried_again(tmp_path: Path, spec_for: Make) -> None:
    backend = Scripted(lambda n: "HTTP 403" if n % 10 == 9 else "good", in_flight=1)
    result = WritingJob(spec_for("https://x/v1"), tmp_path, stories=60, max_usd=1).run(
        backends={"w0": backend}
    )
    assert result["ended"] == "stories" and result["session"]["failures"] == {"refused": 6}


def test_refusals_in_a_row_end_it(tmp_path: Path, spec_for: Make) -> None:
    backend = Scripted(lambda n: "HTTP 403: gone" if n >= 30 else "good", in_flight=1)
    with pytest.raises(WritersGone, match="HTTP 403: gone"):
        WritingJob(spec_for("https://x/v1"), tmp_path, stories=60, max_usd=1).run(backends={"w0": backend})
    assert len(backend.asked) == 30 + desk.REFUSED
    first = Scripted(lambda _: "HTTP 401", in_flight=1)
    with pytest.raises(WritersGone):  # that never answered
        WritingJob(spec_for("https://x/v1"), tmp_path, stories=60, max_usd=1).run(backends={"w0": first})
    assert len(first.asked) == 1


def test_a_story_that_is_always_refused_is_given_up(tmp_path: Path, spec_for: Make) -> None:
    backend = Scripted(
        lambda n: "good" if backend.asked[-1].startswith("story-000012.") is False else "HTTP 400"
    )
    result = WritingJob(spec_for("https://x/v1"), tmp_path, stories=30, max_usd=1).run(
        backends={"w0": backend}
    )
    assert result["ended"] == "stories" and result["report"]["given_up"] == 1
    assert sum(name.startswith("story-000012.") for name in backend.asked) == 3


@pytest.mark.parametrize("how", [{}, {"stream": True}, {"batch": True, "poll": 0.02}])
def test_a_reply_without_end_is_cut_where_it_is_read(
    tmp_path: Path, fake: Any, spec_for: Make, key: str, how: dict[str, Any]
) -> None:
    good = [story.text for story in Storyteller(4).stories(8)]

    def story(number: int, _: str) -> str:
        return "cat sit. " * (20_000 if "stream" in how else 340_000) if number == 0 else good[number]

    with fake(key=key, story=story) as server:
        spec = spec_for(server.url, writer={"in_flight": 1, **how})
        job = WritingJob(spec, tmp_path, stories=3, max_usd=0.02)
        result = job.run()
        longest = max(len(json.dumps(call["request"])) for call in server.calls)
    assert result["ended"] == "stories"
    with sqlite3.connect(job.store) as con:
        stored = con.execute("SELECT max(length(reply)) FROM calls").fetchone()[0]
        reserved = con.execute("SELECT max(reserved) FROM calls").fetchone()[0]
    assert 1000 < stored <= 16 * 400 + 256 and longest < 40_000 and reserved < 0.005 * PICO


ABSURD = [
    {"prompt_tokens": 10**30, "completion_tokens": 10**30},
    {"prompt_tokens": 0, "completion_tokens": 0},
    {"prompt_tokens": 700, "completion_tokens": 0},
    {"prompt_tokens": -1, "completion_tokens": 5},
    {"prompt_tokens": 1e400, "completion_tokens": float("nan")},
    {},
    None,
    "many",
]


@pytest.mark.parametrize("stream", [False, True])
def test_counts_that_cannot_be_true_are_not_believed(
    tmp_path: Path, fake: Any, spec_for: Make, key: str, stream: bool
) -> None:
    with fake(key=key, usage=ABSURD, zipped=True) as server:
        job = WritingJob(spec_for(server.url, writer={"stream": stream}), tmp_path, stories=40, max_usd=2)
        result = job.run()
        billed = server.billed
    assert result["ended"] == "stories" and billed <= result["spent_usd"] * PICO
    with sqlite3.connect(job.store) as con:
        assert con.execute("SELECT count(*) FROM calls WHERE cost != reserved").fetchone() == (0,)


def test_half_a_character_is_no_end(tmp_path: Path, fake: Any, spec_for: Make, key: str) -> None:
    good = [story.text for story in Storyteller(4).stories(8)]
    with fake(key=key, story=lambda n, _: "cat \ud83d sit." if n == 0 else good[n]) as server:
        result = WritingJob(
            spec_for(server.url, writer={"in_flight": 1}), tmp_path, stories=3, max_usd=1
        ).run()
    assert result["ended"] == "stories"
