"""What the page asks for, and where it is answered."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from pathlib import Path

from starlette.routing import Route, Router
from starlette.types import ASGIApp

from octavo.browser.acting import Acting
from octavo.browser.commands import Jobs
from octavo.browser.dropped import Texts
from octavo.browser.exports import Exports
from octavo.browser.guard import PageGuard, Tickets, parameter
from octavo.browser.judgements import Judgements
from octavo.browser.page import SECURE, page, policy
from octavo.browser.playing import Playing
from octavo.browser.runs import START, Cursor, Followed, lines_after
from octavo.browser.windows import Windows
from octavo.browser.work import Work
from octavo.serving.app import Paths, routes
from octavo.serving.call import Call, Endpoint
from octavo.serving.errors import Refusal, wrong
from octavo.serving.service import Service
from octavo.util.records import json_text

MOST_WINDOWS = 40
QUIET = 10.0
"""Seconds without news after which a window is told that the server is still there."""
SHUT_OFF = (
    "sandbox allow-scripts; default-src 'none'; script-src 'unsafe-inline' 'wasm-unsafe-eval'; "
    "style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'self'"
)
"""The Content-Security-Policy of pages that lie in run folders, wherever these came from: they reach nothing."""
MOST_TEXT = 2**20
"""Bytes of a sample or a log that are given, its end."""


class Looking:
    """What is only read: the page, the state, metrics, samples, logs, reports."""

    def __init__(self, service: Service, windows: Windows) -> None:
        self.service, self.windows = service, windows

    async def page(self, call: Call) -> None:
        """The page itself."""
        headers = {**SECURE, "content-security-policy": policy()}
        await call.content(page(), "text/html; charset=utf-8", headers=headers)

    async def events(self, call: Call) -> None:
        """Everything that the page lists, and from then on what changes, as server-sent events."""
        if self.windows.open >= MOST_WINDOWS:
            raise Refusal(429, f"{MOST_WINDOWS} windows are open; close one.")
        async with call.attended(24 * 3600):
            await call.begin_stream()
            silent = 0.0
            async with aclosing(self.windows.changes()) as changes:
                async for news in changes:
                    if self.service.stopping:
                        break
                    silent += 1.0
                    if news or silent >= QUIET:
                        await call.events([told(news)])
                        silent = 0.0
            await call.end_stream()

    async def metrics(self, call: Call) -> None:
        """New lines of a run's metrics.jsonl beyond a cursor, as they stand there."""
        run = await self._run(call)
        try:
            cursor = Cursor.of(given) if (given := parameter(call.scope, "after")) else START
        except ValueError:
            raise wrong("after is no cursor of this server's.", "after") from None
        lines, beyond, anew = await asyncio.to_thread(lines_after, run.folder.metrics, cursor)
        headers = {**SECURE, "x-cursor": str(beyond), "x-anew": "yes" if anew else "no"}
        await call.content(lines, "application/x-ndjson; charset=utf-8", headers=headers)

    async def sample(self, call: Call) -> None:
        """What a run wrote at a step."""
        run, step = await self._run(call), number(call, "step")
        await self._text(call, run.folder.samples / f"step-{step:06d}.txt")

    async def log(self, call: Call) -> None:
        """What a run said."""
        await self._text(call, (await self._run(call)).folder.log)

    async def report(self, call: Call) -> None:
        """A run's report, or the page of its explainer, shut off from this server."""
        name = {"report": "report/index.html", "explain": "explain.html"}.get(parameter(call.scope, "which"))
        if name is None:
            raise wrong("which is report or explain.", "which")
        try:
            found = await asyncio.to_thread(((await self._run(call)).path / name).read_bytes)
        except OSError:
            raise Refusal(404, "There is no such page yet.") from None
        await call.content(
            found, "text/html; charset=utf-8", headers={**SECURE, "content-security-policy": SHUT_OFF}
        )

    async def _run(self, call: Call) -> Followed:
        return await self.windows.run(parameter(call.scope, "run"))

    async def _text(self, call: Call, path: Path) -> None:
        def read() -> bytes:
            with path.open("rb") as file:
                file.seek(max(0, path.stat().st_size - MOST_TEXT))
                return file.read(MOST_TEXT)

        try:
            found = await asyncio.to_thread(read)
        except OSError:
            raise Refusal(404, "There is no such text.") from None
        await call.content(found, "text/plain; charset=utf-8", headers=SECURE)


def told(news: dict[str, str | None]) -> str:
    """Cards that are JSON already, as one document."""
    parts = (f"{json_text(name)}:{'null' if card is None else card}" for name, card in news.items())
    return "{" + ",".join(parts) + "}"


def number(call: Call, name: str) -> int:
    """A whole number of the address. Raises Refusal."""
    text = parameter(call.scope, name)
    if not (text.isascii() and text.isdecimal() and len(text) < 16):
        raise wrong(f"{name} is a whole number.", name)
    return int(text)


def application(service: Service, *, work: Work, token: str, tickets: Tickets) -> ASGIApp:
    """All of it behind the guard: the page, what it asks for, and the models, as `octavo serve` has them."""
    texts, jobs = Texts(work.texts), Jobs(work.jobs)
    windows = Windows(work, service.models, (texts, jobs, Exports(work.exports)))
    judgements = Judgements(work.preferences)
    looking, acting = Looking(service, windows), Acting(windows, texts, jobs, judgements)
    playing = Playing(service, windows, judgements)

    async def ticket(call: Call) -> None:
        await call.answer({"ticket": tickets.new()})

    reads: dict[str, Callable[[Call], Awaitable[None]]] = {
        "/": looking.page,
        "/api/ticket": ticket,
        "/api/events": looking.events,
        "/api/metrics": looking.metrics,
        "/api/sample": looking.sample,
        "/api/log": looking.log,
        "/api/page": looking.report,
        "/api/said": acting.log,
    }
    does: dict[str, Callable[[Call], Awaitable[None]]] = {
        "/api/text": acting.new_text,
        "/api/look": acting.look,
        "/api/foretell": acting.foretell,
        "/api/start": acting.start,
        "/api/stop": acting.stop,
        "/api/model": playing.model,
        "/api/write": playing.write,
        "/api/next": playing.next,
        "/api/translate": playing.translate,
        "/api/judge": playing.judge,
        "/api/judged": playing.judged,
    }
    own = [Route(path, Endpoint(path, one, service.done), methods=["GET"]) for path, one in reads.items()]
    own += [Route(path, Endpoint(path, one, service.done), methods=["POST"]) for path, one in does.items()]
    own.append(Route("/api/file", Endpoint("/api/file", acting.file, service.done), methods=["PUT"]))
    return PageGuard(
        Paths(Router([*own, *routes(service)], redirect_slashes=False)), token=token, tickets=tickets
    )
