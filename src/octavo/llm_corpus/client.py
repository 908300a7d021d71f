"""The client of an OpenAI-compatible address.

The key is in this process's memory and in the header of each call, and is cut out of everything that a server says
before it goes any further.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Coroutine, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from octavo.corpus.fetch.addresses import in_clear_text
from octavo.llm_corpus.calls import Backend, CallFailed, Reply, Request
from octavo.llm_corpus.money import Prices
from octavo.llm_corpus.pacing import quota_wait, retry_after
from octavo.llm_corpus.replies import LARGEST, lines_of, malformed, read_json, read_stream

if TYPE_CHECKING:
    import httpx2

T = TypeVar("T")

_REFUSED = {400, 401, 402, 403, 404, 405, 413, 422}
_THROTTLED = {429, 503, 529}


@dataclass(frozen=True)
class Service:
    """Where a model answers, and how it wants to be asked; see the options of `EndpointWriter`. `key`: what each call
    bears; None for nothing."""

    base_url: str
    model: str
    key: str | None = field(repr=False)
    prices: Prices | None
    in_flight: int
    timeout: float
    poll: float
    stream: bool
    limit_name: str
    extra: Mapping[str, Any]


class EndpointBackend(Backend):
    """Calls `/chat/completions` of one address with one key. `transport`: what to speak HTTP through, for tests."""

    def __init__(self, service: Service, transport: httpx2.AsyncBaseTransport | None = None) -> None:
        import httpx2

        self.service, self._key = service, service.key
        self.model, self.prices, self.in_flight = service.model, service.prices, service.in_flight
        local = service.base_url.startswith("http:") and not in_clear_text(service.base_url)
        self._client = httpx2.AsyncClient(
            base_url=service.base_url.rstrip("/") + "/",
            headers={"Authorization": f"Bearer {self._key}"} if self._key else {},
            timeout=httpx2.Timeout(service.timeout, connect=min(10.0, service.timeout), pool=None),
            limits=httpx2.Limits(max_connections=None, max_keepalive_connections=service.in_flight),
            follow_redirects=False,  # a redirect must not carry the key elsewhere
            trust_env=not local,  # nor a proxy see it: what is meant for this machine stays here
            transport=transport,
        )

    async def write(self, request: Request) -> Reply:
        return await self._cut(request, self._in_time(self._answer(request)))

    async def _cut(self, request: Request, answer: Awaitable[Reply]) -> Reply:
        """An answer without the key, within what was asked for."""
        try:
            reply = await answer
        except CallFailed as failure:
            failure.tokens = request.believed(failure.tokens)
            raise
        return request.cut(Reply(self.redact(reply.text), reply.finish, reply.tokens))

    async def _in_time(self, answer: Coroutine[Any, Any, T]) -> T:
        """What the server answers, every failure as a CallFailed."""
        import httpx2

        try:
            async with asyncio.timeout(self.service.timeout):
                return await answer
        except (TimeoutError, httpx2.TimeoutException) as error:
            billed = not isinstance(error, httpx2.ConnectTimeout)
            what = f"No whole answer within {self.service.timeout:g} seconds."
            raise CallFailed("timeout", what, billed=billed) from None
        except (httpx2.ConnectError, httpx2.ProxyError, httpx2.UnsupportedProtocol) as error:
            raise CallFailed("unreachable", self.redact(f"{self.service.base_url}: {error}")) from None
        except httpx2.TransportError:
            raise CallFailed("cut", "The connection broke during the answer.", billed=True) from None
        except (httpx2.HTTPError, httpx2.StreamError, UnicodeDecodeError):
            raise malformed("The answer cannot be decoded.") from None

    async def _answer(self, request: Request) -> Reply:
        name = {"X-Client-Request-Id": request.id} if request.id else {}
        body = self.body(request)
        async with self._client.stream("POST", "chat/completions", json=body, headers=name) as response:
            self.quota = quota_wait(response.headers)
            if response.status_code != 200:
                raise self.failure(response, await body_of(response))
            if self.service.stream and "event-stream" in response.headers.get("content-type", ""):
                return await read_stream(lines_of(response.aiter_bytes()), request.most_bytes)
            return read_json(await body_of(response))

    def body(self, request: Request) -> dict[str, Any]:
        """What is asked, as the server reads it."""
        body: dict[str, Any] = {
            "model": self.service.model,
            "messages": list(request.messages),
            self.service.limit_name: request.max_tokens,
            "temperature": request.temperature,
            "seed": request.seed,
            **self.service.extra,
        }
        if self.service.stream:
            body |= {"stream": True, "stream_options": {"include_usage": True}}
        return body

    def failure(self, response: httpx2.Response, body: bytes) -> CallFailed:
        """What an answer means that is none."""
        failed = self.failed(response.status_code, body.decode(errors="replace"))
        if failed.kind != "refused":
            failed.wait = retry_after(response.headers)
            if failed.wait is None and failed.kind == "throttled":
                failed.wait = self.quota or None
        return failed

    def failed(self, status: int, body: str) -> CallFailed:
        """The failure that an HTTP status stands for."""
        said = self.redact(body[:2000])
        spent = "insufficient_quota" in said or "insufficient balance" in said.lower()
        if status in _REFUSED or spent or 300 <= status < 400:
            return CallFailed("refused", f"HTTP {status}: {_gist(said)}")
        return CallFailed("throttled" if status in _THROTTLED else "server", f"HTTP {status}")

    def redact(self, text: str) -> str:
        """The text without the key."""
        return text.replace(self._key, "[key]") if self._key else text

    async def close(self) -> None:
        await self._client.aclose()


async def body_of(response: httpx2.Response, most: int = LARGEST) -> bytes:
    """The body, unless it is too large."""
    body = bytearray()
    async for piece in response.aiter_bytes():
        body += piece
        if len(body) > most:
            raise malformed("The answer is too large for a story.")
    return bytes(body)


def _gist(said: str) -> str:
    """What a server's error says, without the JSON around it."""
    match = re.search(r'"message"\s*:\s*"((?:[^"\\]|\\.)*)"', said)
    return " ".join((match[1] if match else said).split())[:300] or "no reason given"
