"""A local OpenAI-compatible server that misbehaves on request, counts what it bills, and remembers every call.

Standard library only, one process, HTTP/1.1 with connections kept open. Tests and benchmarks share it:

    with FakeEndpoint(faults={"429": 0.05, "cut": 0.1}) as server:
        … server.url, server.ledger() …

    python benchmarks/fake_endpoint.py --port 8123      # by hand, for trying the guide to corpora

Faults, each a share of the calls: 429 (with Retry-After as a number or a date), 429_past (its date is over), 503, 500,
timeout (no answer), cut (the connection ends within the answer), wrong_json, empty, html, length (cut by max_tokens),
bad_story (a story that does not pass). The draw depends on the seed and the call's number alone.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import json
import math
import random
import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence
from email.utils import formatdate
from types import TracebackType
from typing import Any

from fake_batches import FakeBatches
from fake_http import answer, send, stream, whole
from octavo.synthetic.storyteller import Storyteller

Story = Callable[[int, str], str]
"""The answer to call `n` with a prompt."""

PRICES = {"input": 0.28, "cached_input": 0.028, "output": 0.42}


class FakeEndpoint:
    """The server, in a thread of its own.

    Args:
        seconds: how long a good answer takes.
        faults: shares by name.
        retry_after: the wait that a 429 asks for, drawn between these.
        dates: the share of those that is asked for as a date, in whole seconds.
        most: calls at the same time; more are answered 429.
        key: the key that calls have to bear; None: any or none.
        story: what is answered.
        zipped: whether answers in one piece are compressed.
        usage: what is said about tokens in the place of the truth, chosen for each call; None: the truth.
    """

    def __init__(
        self,
        *,
        seconds: float = 0.0,
        faults: dict[str, float] | None = None,
        retry_after: tuple[float, float] = (0.2, 1.0),
        dates: float = 0.3,
        most: int = 10**6,
        key: str | None = None,
        story: Story | None = None,
        zipped: bool = False,
        usage: Sequence[Any] | None = None,
        seed: int = 0,
        port: int = 0,
    ) -> None:
        self.seconds, self.faults, self.retry_after = seconds, faults or {}, retry_after
        self.dates, self.most, self.key, self.seed, self._port = dates, most, key, seed, port
        self.zipped, self.usage = zipped, usage
        teller = Storyteller(seed)
        self.story: Story = story or (lambda number, _: teller.story(number).text)
        self.calls: list[dict[str, Any]] = []
        self.early: list[float] = []  # seconds by which calls came before their own Retry-After
        self.billed = 0  # picodollars
        self.in_flight = self.peak = 0
        self.batches = FakeBatches(self)
        self._not_before: dict[str, float] = {}
        self._said = ""  # the last Authorization header: a careless server repeats it
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._serve, daemon=True)

    def __enter__(self) -> FakeEndpoint:
        self._thread.start()
        if not self._ready.wait(10):
            raise RuntimeError("the fake endpoint did not start")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)

    @property
    def url(self) -> str:
        """The base URL for a spec."""
        return f"http://127.0.0.1:{self.port}/v1"

    def _serve(self) -> None:
        asyncio.set_event_loop(self._loop)
        server = self._loop.run_until_complete(
            asyncio.start_server(self._connection, "127.0.0.1", self._port, backlog=1024)
        )
        self.port = server.sockets[0].getsockname()[1]
        self._ready.set()
        self._loop.run_forever()
        server.close()
        for task in asyncio.all_tasks(self._loop):
            task.cancel()
        self._loop.run_until_complete(asyncio.sleep(0))
        self._loop.close()

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while await self._one(reader, writer):
                await writer.drain()
        except (
            asyncio.IncompleteReadError,
            ConnectionError,
            asyncio.LimitOverrunError,
            asyncio.CancelledError,
        ):
            pass  # the caller left, or the server ends
        finally:
            writer.close()

    async def _one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """One call; whether the connection stays open."""
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        first, *lines = head.split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        body = await reader.readexactly(int(headers.get("content-length", "0")))
        if self.key is not None and headers.get("authorization") != f"Bearer {self.key}":
            said = headers.get("authorization", "")
            answer(
                writer,
                401,
                {"error": {"message": f"Incorrect API key provided: {said}", "code": "invalid_api_key"}},
            )
            return True
        method, path, _ = first.split(" ", 2)
        if path.startswith(("/v1/files", "/v1/batches")):
            return self.batches.one(f"{method} {path}", headers, body, writer)
        if f"{method} {path}" != "POST /v1/chat/completions":
            answer(writer, 404, {"error": {"message": "There is nothing here."}})
            return True
        self._said = headers.get("authorization", "")
        self.in_flight += 1
        self.peak = max(self.peak, self.in_flight)
        try:
            name = headers.get("x-client-request-id", "")
            gone = reader.at_eof
            return await self._chat(json.loads(body), name, writer, gone)
        finally:
            self.in_flight -= 1

    async def _chat(
        self, request: dict[str, Any], name: str, writer: asyncio.StreamWriter, gone: Callable[[], bool]
    ) -> bool:
        number, now = len(self.calls), time.time()
        said = json.dumps(request["messages"])
        own = (
            name.rpartition(".")[0] or hashlib.sha256(said.encode()).hexdigest()
        )  # the story, whatever the try
        until = self._not_before.pop(own, 0.0)
        if now < until:
            self.early.append(until - now)
        draw = random.Random(f"{self.seed}/{number}")
        fault = self.fault(draw.random())
        call = {"number": number, "fault": fault, "at": now, "id": name, "request": request, "text": None}
        self.calls.append(call)
        if fault == "429" or self.in_flight > self.most:
            await asyncio.sleep(0)  # so that the end of a caller who died is seen
            self._throttle(writer, "" if gone() else own, draw)
            return True
        if fault == "429_past":
            past = formatdate(now - 60, usegmt=True)
            answer(writer, 429, {"error": {"message": "slow down"}}, **{"Retry-After": past})
            return True
        if fault == "503":
            answer(writer, 503, {"error": {"message": "overloaded"}})
            return True
        if fault == "500":
            answer(writer, 500, {"error": {"message": f"internal; you said {self._said}"}})
            return True
        usage = self.bill(request, self.story(number, said))
        usage = draw.choice(self.usage) if self.usage else usage
        if fault == "timeout":
            await asyncio.sleep(3600)
        await asyncio.sleep(self.seconds * draw.uniform(0.9, 1.1))
        return self._say(request, writer, fault, usage, number, said, draw)

    def fault(self, share: float) -> str:
        """The fault at this place between 0 and 1, or none."""
        for name, part in self.faults.items():
            share -= part
            if share < 0:
                return name
        return ""

    def _throttle(self, writer: asyncio.StreamWriter, own: str, draw: random.Random) -> None:
        wait = round(draw.uniform(*self.retry_after), 3)
        now = time.time()
        if draw.random() < self.dates:
            date = math.ceil(now + wait)
            header, until = formatdate(date, usegmt=True), float(date)
        else:
            header, until = str(wait), now + wait
        if own:
            self._not_before[own] = until  # nobody was told on a connection that is closed
        answer(writer, 429, {"error": {"message": "slow down"}}, **{"Retry-After": header})

    def bill(self, request: dict[str, Any], text: str, share: float = 1.0) -> dict[str, Any]:
        """Tokens and their price: four letters a token; the prompt is billed however the answer ends. `share`: of
        the full price."""
        said = json.dumps(request["messages"])
        prompt, reply = len(said) // 4, min(len(text) // 4 + 1, request.get("max_tokens", 10**6))
        cached = prompt // 2
        exact = (
            (prompt - cached) * PRICES["input"] + cached * PRICES["cached_input"] + reply * PRICES["output"]
        )
        self.billed += math.ceil(exact * share * 10**6 - 1e-6)
        return {
            "prompt_tokens": prompt,
            "completion_tokens": reply,
            "prompt_tokens_details": {"cached_tokens": cached},
        }

    def _say(
        self,
        request: dict[str, Any],
        writer: asyncio.StreamWriter,
        fault: str,
        usage: dict[str, Any],
        number: int,
        said: str,
        draw: random.Random,
    ) -> bool:
        text = self.story(number, said)
        if fault == "bad_story":
            text = f"Sorry, {self._said}, here be Pelican and zeppelin! {text}"
        self.calls[number]["text"] = text
        finish = "length" if fault == "length" else "stop"
        if fault == "length":
            text = text[: len(text) // 2]
        if fault == "html":
            send(
                writer, 200, f"<!DOCTYPE html><html>Bad gateway for {self._said}</html>".encode(), "text/html"
            )
        elif fault == "wrong_json":
            wrong = [
                b'{"choices": [',
                b'{"choices": []}',
                b"[1, 2]",
                b'{"choices": [{"message": {"content": 7}}]}',
                b"null",
            ]
            send(writer, 200, draw.choice(wrong), "application/json")
        elif fault == "empty":
            empty = draw.random() < 0.5
            reply = b"" if empty else json.dumps(whole("", "stop", usage)).encode()
            send(writer, 200, reply, "application/json")
        elif request.get("stream"):
            return stream(writer, text, finish, usage, cut=fault == "cut", draw=draw)
        elif fault == "cut":
            body = json.dumps(whole(text, finish, usage)).encode()
            send(writer, 200, body, "application/json", keep=len(body) // 2)
            return False
        else:
            answer(writer, 200, whole(text, finish, usage), zipped=self.zipped)
        return True

    def ledger(self) -> dict[str, Any]:
        """What the server saw: calls, faults, bill in picodollars, calls before their Retry-After."""
        faults: dict[str, int] = {}
        for call in self.calls:
            faults[call["fault"] or "good"] = faults.get(call["fault"] or "good", 0) + 1
        return {
            "calls": len(self.calls),
            "faults": dict(sorted(faults.items())),
            "billed": self.billed,
            "early": len(self.early),
            "peak": self.peak,
        }

    def summary(self) -> str:
        """The ledger in a sentence."""
        found = self.ledger()
        faults = ", ".join(f"{count:,} {name}" for name, count in found["faults"].items())
        return (
            f"{found['calls']:,} calls ({faults or 'none'}), {found['peak']} at the same time,"
            f" ${found['billed'] / 10**12:.4f} billed, {found['early']} before their Retry-After"
        )


def main() -> int:
    """Serve until interrupted, for trying things by hand."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--port", type=int, default=8123)
    parser.add_argument("--seconds", type=float, default=0.5)
    parser.add_argument("--bad", type=float, default=0.2, help="share of stories that do not pass")
    options = parser.parse_args()
    with FakeEndpoint(
        seconds=options.seconds, faults={"bad_story": options.bad, "429": 0.02}, port=options.port
    ) as server:
        ended = threading.Event()
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: ended.set())
        print(f"serving at {server.url}; Ctrl-C ends it", flush=True)
        ended.wait()
        print(server.summary(), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
