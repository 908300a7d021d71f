"""The batch endpoint of an OpenAI-compatible server: many requests in one file, answered within a day, cheaper.

Requests that are asked at the same time are collected, uploaded as JSON lines, and fetched when the server is done.
A batch bears a token of ours, which is on the disk before the server hears of it. So a later process finds it, by the
server's name for it or by the token among the server's batches, and nothing is asked twice.
Source: https://platform.openai.com/docs/guides/batch
"""

from __future__ import annotations

import asyncio
import json
import time
import uuid
from collections.abc import Iterator, Sequence
from random import Random
from typing import TYPE_CHECKING, Any

from octavo.errors import InputError
from octavo.llm_corpus.calls import Batch, CallFailed, Memory, Reply, Request
from octavo.llm_corpus.client import EndpointBackend, Service, body_of
from octavo.llm_corpus.pacing import backoff, quota_wait
from octavo.llm_corpus.replies import LARGEST, malformed, read_answer, read_json_object
from octavo.util.records import json_text

if TYPE_CHECKING:
    import httpx2

COLLECT = 0.25
"""Seconds without a new request after which a batch is closed."""

REQUESTS, BYTES = 50_000, 100 << 20
"""What goes into a batch, at most; OpenAI takes so many requests, and twice the bytes."""

TRIES = 6
"""Attempts to hand a batch over before its requests count as failed."""

_ENDED = {"completed", "failed", "expired", "cancelled"}
Answer = Reply | CallFailed


class BatchBackend(EndpointBackend):
    """Calls `/files` and `/batches` of one address with one key."""

    lasting = True

    def __init__(self, service: Service, transport: httpx2.AsyncBaseTransport | None = None) -> None:
        super().__init__(service, transport)
        self._memory: Memory | None = None
        self._rest = 0.0  # monotonic: the server asked for no call before
        self._waiting: list[tuple[Request, asyncio.Future[Reply]]] = []
        self._expected: dict[str, asyncio.Future[Reply]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._random = Random()  # jitter alone

    def take_up(self, memory: Memory, batches: Sequence[Batch], rest: float) -> None:
        self._memory, self._rest = memory, time.monotonic() + rest
        for batch in batches:
            futures = {name: asyncio.get_running_loop().create_future() for name in batch.ids}
            self._expected |= futures
            self._go(self._carry(batch, futures, None))

    async def write(self, request: Request) -> Reply:
        future = self._expected.pop(request.id, None)
        if future is None:
            future = asyncio.get_running_loop().create_future()
            self._waiting.append((request, future))
            if len(self._waiting) == 1:
                self._go(self._collect())
        return await self._cut(request, future)

    def _go(self, work: Any) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _collect(self) -> None:
        """Wait until no more requests come, and send them off."""
        seen = 0
        while len(self._waiting) > seen:
            seen = len(self._waiting)
            await asyncio.sleep(COLLECT)
        waiting, self._waiting = self._waiting, []
        futures = {request.id: future for request, future in waiting}
        for lines in self._portions([request for request, _ in waiting]):
            batch = Batch(uuid.uuid4().hex, None, tuple(lines))
            self._go(self._carry(batch, {name: futures[name] for name in lines}, b"".join(lines.values())))

    def _portions(self, requests: Sequence[Request]) -> Iterator[dict[str, bytes]]:
        lines: dict[str, bytes] = {}
        size = 0
        for request in requests:
            line = {
                "custom_id": request.id,
                "method": "POST",
                "url": "/v1/chat/completions",
                "body": self.body(request),
            }
            text = json_text(line).encode() + b"\n"
            if lines and (len(lines) == REQUESTS or size + len(text) > BYTES):
                yield lines
                lines, size = {}, 0
            lines[request.id] = text
            size += len(text)
        yield lines

    async def _carry(
        self, batch: Batch, futures: dict[str, asyncio.Future[Reply]], lines: bytes | None
    ) -> None:
        """One batch from its upload, or from where an earlier process left it, to its replies."""
        try:
            remote = batch.remote or (await self._send(batch, lines) if lines else await self._find(batch))
            answers: dict[str, Reply | Exception] = {}
            try:
                answers |= await self._answers(remote, list(futures))
            except CallFailed as failure:
                raise CallFailed(
                    "cut", f"The batch {remote} is lost: {failure}", wait=0.0, billed=True
                ) from None
        except Exception as error:  # each of its requests has to hear of it, whatever it is
            answers = dict.fromkeys(futures, error)
        # good news first: they tell that the server is alive
        for name in sorted(futures, key=lambda name: not isinstance(answers[name], Reply)):
            answer = answers[name]
            if futures[name].done():
                continue
            if isinstance(answer, Reply):
                futures[name].set_result(answer)
            else:
                futures[name].set_exception(answer)

    async def _send(self, batch: Batch, lines: bytes) -> str:
        """Hand a batch over; returns the server's name for it. Raises CallFailed if it did not take it."""
        assert self._memory is not None
        form = {
            "data": {"purpose": "batch"},
            "files": {"file": (f"{batch.token}.jsonl", lines, "application/jsonl")},
        }
        file = _name(await self._patiently("POST", "files", TRIES, **form))
        await self._memory.asked(batch)
        body = {
            "input_file_id": file,
            "endpoint": "/v1/chat/completions",
            "completion_window": "24h",
            "metadata": {"octavo": batch.token},
        }
        remote = await self._made(body, batch.token)
        await self._memory.known(Batch(batch.token, remote, batch.ids))
        return remote

    async def _made(self, body: dict[str, Any], token: str) -> str:
        """Make a batch, exactly once; returns the server's name for it."""
        doubt = False  # whether it may have been taken without our hearing of it
        failures = 0
        while True:
            try:
                return _name(await self._once("POST", "batches", json=body))
            except CallFailed as failure:
                if failure.kind == "refused":
                    raise
                failures += 1
                doubt = doubt or failure.kind not in ("throttled", "unreachable")
                await self._pause(failures, failure.wait)
                found = await self._look_up(token) if doubt else None
                if found is not None:
                    return found
                if failures == TRIES:
                    raise CallFailed(failure.kind, f"No batch was taken: {failure}", billed=doubt) from None

    async def _find(self, batch: Batch) -> str:
        """A batch of a process that died before it knew its name."""
        assert self._memory is not None
        remote = await self._look_up(batch.token)
        if remote is None:
            raise CallFailed("cut", "Nobody knows whether this batch was ever made.", billed=True)
        await self._memory.known(Batch(batch.token, remote, batch.ids))
        return remote

    async def _look_up(self, token: str) -> str | None:
        params = {"limit": "100"}
        while True:
            page = await self._patiently("GET", "batches", params=params)
            rows = [row for row in page.get("data") or [] if isinstance(row, dict)]
            for row in rows:
                if isinstance(row.get("metadata"), dict) and row["metadata"].get("octavo") == token:
                    return _name(row)
            if not rows or not page.get("has_more"):
                return None
            params["after"] = _name(rows[-1])

    async def _answers(self, remote: str, names: Sequence[str]) -> dict[str, Answer]:
        """Wait for a batch; returns what became of each request."""
        while True:
            state = await self._patiently("GET", f"batches/{remote}")
            status = state.get("status")
            if status in _ENDED:
                break
            done = state.get("request_counts")
            done = done.get("completed", 0) if isinstance(done, dict) else 0
            self.note = f"batch {remote}: {status}, {done:,} of {len(names):,}"
            await asyncio.sleep(self.service.poll)
        self.note = ""
        if status == "failed":
            missing = CallFailed("refused", self.redact(f"The batch was refused: {_errors(state)}"))
        else:
            missing = CallFailed("cut", f"The batch is {status}, without this answer.", wait=0.0, billed=True)
        answers: dict[str, Answer] = {}
        for key in ("output_file_id", "error_file_id"):
            if isinstance(state.get(key), str):
                most = LARGEST + len(names) * (64 << 10)
                body = await self._patiently("GET", f"files/{state[key]}/content", most=most)
                for line in body["lines"]:
                    self._read(line, answers)
        return {name: answers.get(name, missing) for name in names}

    def _read(self, line: bytes, answers: dict[str, Answer]) -> None:
        """One line of a result; what cannot be read is as if it were not there."""
        try:
            data = json.loads(line)
            name, response, error = data["custom_id"], data.get("response"), data.get("error")
        except (ValueError, RecursionError, TypeError, KeyError, AttributeError):
            return
        if not isinstance(name, str) or name in answers:
            return
        try:
            if isinstance(response, dict) and response.get("status_code") == 200:
                body = response.get("body")
                answers[name] = read_answer(body if isinstance(body, dict) else {})
            elif isinstance(response, dict) and isinstance(response.get("status_code"), int):
                answers[name] = self.failed(response["status_code"], json_text(response.get("body")))
            else:
                code = str(error.get("code"))[:100] if isinstance(error, dict) else "no reason given"
                kind = "timeout" if "expired" in code else "server"
                answers[name] = CallFailed(kind, self.redact(f"Not answered: {code}"))
        except CallFailed as failure:
            answers[name] = failure

    async def _patiently(
        self, method: str, path: str, tries: int | None = None, **more: Any
    ) -> dict[str, Any]:
        """Ask until there is an answer; with `tries`, so often. A batch that the server has is paid, so it is asked
        for as long as it takes. Raises CallFailed, and InputError where the key is no longer good for a batch."""
        failures = 0
        while True:
            try:
                return await self._once(method, path, **more)
            except CallFailed as failure:
                failures += 1
                if failure.kind == "refused" and method == "GET":
                    if "HTTP 404" in str(failure):
                        raise
                    raise InputError(
                        f"The server does not hand out a batch that it has: {failure}",
                        remedy="put that right; the same command then continues",
                    ) from None
                if failure.kind == "refused" or failures == (TRIES if failure.kind == "malformed" else tries):
                    raise CallFailed(failure.kind, str(failure), wait=failure.wait) from None
                self.note = f"waiting for the server: {failure}"
                await self._pause(failures, failure.wait)

    async def _once(self, method: str, path: str, *, most: int = LARGEST, **more: Any) -> dict[str, Any]:
        """One call; a file's lines are under `lines`. Raises CallFailed."""
        while (rest := self._rest - time.monotonic()) > 0:
            await asyncio.sleep(rest)

        async def answer() -> dict[str, Any]:
            async with self._client.stream(method, path, **more) as response:
                self.quota = quota_wait(response.headers)
                body = await body_of(response, most)
                if response.status_code != 200:
                    raise self.failure(response, body)
                return {"lines": body.splitlines()} if path.endswith("/content") else read_json_object(body)

        return await self._in_time(answer())

    async def _pause(self, failures: int, wait: float | None) -> None:
        if wait is not None:
            assert self._memory is not None
            self._rest = max(self._rest, time.monotonic() + wait)
            await self._memory.stay_away(wait)
        await asyncio.sleep(max(wait or 0.0, backoff(failures, min(1.0, self.service.poll), self._random)))

    async def close(self) -> None:
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await super().close()


def _name(data: dict[str, Any]) -> str:
    name = data.get("id")
    if not isinstance(name, str) or not name or "/" in name:
        raise malformed("The server gave no name for what it took.")
    return name


def _errors(state: dict[str, Any]) -> str:
    errors = state.get("errors")
    rows = errors.get("data") if isinstance(errors, dict) else None
    said = [str(row.get("message")) for row in rows or [] if isinstance(row, dict)]
    return "; ".join(said)[:300] or "no reason given"
