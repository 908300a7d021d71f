"""One request: its body within bounds, its answer whole or in pieces, and a client that may be gone at any time."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from types import MappingProxyType
from typing import Any, TypeVar
from urllib.parse import parse_qs

from pydantic import BaseModel, ValidationError
from starlette.types import Message, Receive, Scope, Send

from octavo.serving.engine_thread import Failed
from octavo.serving.errors import INTERNAL, Refusal, wrong
from octavo.serving.guard import refuse
from octavo.util.records import json_text

LOG = logging.getLogger("octavo.serve")
MOST_BODY = 2**20
DISCARDED = 16 * 2**20
"""Bytes of a body that is too long which are read before it is refused, so that the client hears why."""
BODY_SECONDS = 30.0
SEND_SECONDS = 30.0
"""A client that takes no byte for so long is cut off."""
JSON = ("application/json", "")
A = TypeVar("A", bound=BaseModel)


class Gone(Exception):
    """The client is not there any more."""


class Call:
    """A request and the way back."""

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.scope, self._receive, self._send = scope, receive, send
        self.headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        self.begun = time.monotonic()
        self.started = self.ended = False
        self.status = 0
        self.size = 0  # bytes of the body

    def query(self, name: str) -> str | None:
        """What stands behind the path's question mark under a name."""
        return parse_qs(self.scope["query_string"].decode("latin-1")).get(name, [None])[0]

    async def asked(self, kind: type[A]) -> A:
        """The body. Raises Refusal."""
        media = self.headers.get("content-type", "").partition(";")[0].strip().lower()
        if media not in JSON:
            raise Refusal(415, "The body must be JSON: Content-Type: application/json.")
        body = await self._body()
        self.size = len(body)
        try:
            return kind.model_validate_json(body)
        except ValidationError as error:
            first = error.errors(include_url=False, include_context=False, include_input=False)[0]
            place = ".".join(str(one)[:40] for one in first["loc"][:6])
            message = first["msg"].removeprefix("Value error, ")[:300]
            raise wrong(
                f"{place}: {message}" if place else message, place.partition(".")[0] or None
            ) from None

    async def _body(self) -> bytes:
        length = self.headers.get("content-length", "")
        parts, size, more = [], 0, True
        try:
            async with asyncio.timeout(BODY_SECONDS):
                while more and size <= DISCARDED:
                    message = await self._receive()
                    if message["type"] != "http.request":
                        raise Gone
                    size += len(message.get("body", b""))
                    if size <= MOST_BODY:
                        parts.append(message.get("body", b""))
                    more = message.get("more_body", False)
        except TimeoutError:
            raise Refusal(408, "The body did not come in time.", headers={"Connection": "close"}) from None
        if size > MOST_BODY:
            told = f"{int(length):,}" if length.isdecimal() and len(length) < 16 else "too many"
            raise Refusal(
                413,
                f"The body has {told} bytes; at most {MOST_BODY:,} are read.",
                headers={"Connection": "close"},
            )
        return b"".join(parts)

    async def pieces(self) -> AsyncIterator[bytes]:
        """The body as it comes, however long it is. Raises Gone, and Refusal where nothing comes for too long."""
        more = True
        while more:
            try:
                async with asyncio.timeout(BODY_SECONDS):
                    message = await self._receive()
            except TimeoutError:
                raise Refusal(
                    408, "The body did not come in time.", headers={"Connection": "close"}
                ) from None
            if message["type"] != "http.request":
                raise Gone
            more = message.get("more_body", False)
            yield message.get("body", b"")

    @asynccontextmanager
    async def attended(self, seconds: float) -> AsyncIterator[None]:
        """Within the context a client that leaves ends it: Gone. So does a deadline: Refusal."""
        task, gone = asyncio.current_task(), False
        assert task is not None

        async def watch() -> None:
            nonlocal gone
            while (await self._receive())["type"] != "http.disconnect":
                pass
            if not self.ended:
                gone = True
                task.cancel()

        watcher = asyncio.create_task(watch())
        try:
            async with asyncio.timeout(seconds):
                yield
        except asyncio.CancelledError:
            if gone:
                task.uncancel()
                raise Gone from None
            raise
        except TimeoutError:
            raise Refusal(
                504, f"This took longer than the {seconds:g} seconds that a request may take."
            ) from None
        finally:
            watcher.cancel()

    async def answer(self, data: Any, *, status: int = 200) -> None:
        """One JSON document."""
        body = json_text(data, ensure_ascii=False).encode("utf-8", "replace")
        await self.content(body, "application/json", status=status)

    async def content(
        self, body: bytes, media: str, *, status: int = 200, headers: Mapping[str, str] = MappingProxyType({})
    ) -> None:
        """A whole answer."""
        start = self._start(status, {"content-type": media, "content-length": str(len(body)), **headers})
        self.ended = True
        await self._out(start, {"type": "http.response.body", "body": body})

    async def begin_stream(self) -> None:
        """Server-sent events follow."""
        await self._out(
            self._start(
                200,
                {
                    "content-type": "text/event-stream; charset=utf-8",
                    "cache-control": "no-store",
                    "x-accel-buffering": "no",
                },
            )
        )

    async def event(self, data: Any) -> None:
        """An event of a stream."""
        await self.events([json_text(data, ensure_ascii=False)])

    async def events(self, texts: list[str]) -> None:
        """Several at once."""
        body = "".join(f"data: {text}\n\n" for text in texts).encode("utf-8", "replace")
        await self._out({"type": "http.response.body", "body": body, "more_body": True})

    async def end_stream(self) -> None:
        """The last event."""
        self.ended = True
        await self._out({"type": "http.response.body", "body": b"data: [DONE]\n\n"})

    async def refuse(self, refusal: Refusal) -> None:
        """The error, as an answer or, where that has begun, as its last event."""
        if self.started:
            await self.event(refusal.body())
            await self.end_stream()
            return
        self.status, self.started = refusal.status, True
        await refuse(self._send, refusal)

    def _start(self, status: int, headers: dict[str, str]) -> Message:
        self.status, self.started = status, True
        told = [(name.encode(), value.encode()) for name, value in headers.items()]
        return {"type": "http.response.start", "status": status, "headers": told}

    async def _out(self, *messages: Message) -> None:
        try:
            async with asyncio.timeout(SEND_SECONDS):
                for message in messages:
                    await self._send(message)
        except (TimeoutError, OSError):
            raise Gone from None


class Endpoint:
    """A function of a call as a place where requests go; whatever goes wrong in it is an error object.

    Args:
        done: hears of each call at its end: the path, and the status.
    """

    def __init__(
        self, path: str, function: Callable[[Call], Awaitable[None]], done: Callable[[str, int], None]
    ) -> None:
        self.path, self.function, self.done = path, function, done

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        call = Call(scope, receive, send)
        try:
            try:
                await self.function(call)
            except Refusal as refusal:
                await call.refuse(refusal)
            except (Failed, Exception) as error:
                if isinstance(error, Gone):
                    raise
                if not isinstance(error, Failed):  # which has said it
                    LOG.exception("%s failed", scope["path"])
                await call.refuse(Refusal(500, INTERNAL))
        except Gone:
            call.status = 499
        finally:
            self.done(self.path, call.status)
