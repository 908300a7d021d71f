"""A model behind an OpenAI-compatible address: DeepSeek, OpenAI, OpenRouter, vLLM, llama.cpp, Ollama and others.

The key is named, never written: the config holds the name of an environment variable. Its value is in this
process's memory and in the header of each call, and is cut out of everything that a server says before it goes any
further.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, Literal, TypeVar
from urllib.parse import urlsplit

from pydantic import Field, field_validator, model_validator

from octavo.config.parts import register
from octavo.errors import InputError
from octavo.synthesis.writing.calls import Backend, CallFailed, Reply, Request, WriterConfig
from octavo.synthesis.writing.money import Prices
from octavo.synthesis.writing.pacing import quota_wait, retry_after
from octavo.synthesis.writing.replies import LARGEST, malformed, read_json, read_stream

if TYPE_CHECKING:
    import httpx2

T = TypeVar("T")

_REFUSED = {400, 401, 402, 403, 404, 405, 413, 422}
_OURS = {
    *("model", "messages", "max_tokens", "max_completion_tokens"),
    *("stream", "stream_options", "n", "best_of", "seed", "temperature"),
}
_THROTTLED = {429, 503, 529}


class EndpointBackend(Backend):
    """Calls `/chat/completions` of one address with one key."""

    def __init__(
        self, config: EndpointWriter, key: str | None, transport: httpx2.AsyncBaseTransport | None
    ) -> None:
        import httpx2

        self.config, self._key = config, key
        self.model, self.prices, self.in_flight = config.model, config.paid, config.in_flight
        self._client = httpx2.AsyncClient(
            base_url=config.base_url.rstrip("/") + "/",
            headers={"Authorization": f"Bearer {key}"} if key else {},
            timeout=httpx2.Timeout(config.timeout, connect=min(10.0, config.timeout), pool=None),
            limits=httpx2.Limits(
                max_connections=config.in_flight, max_keepalive_connections=config.in_flight
            ),
            follow_redirects=False,  # a redirect must not carry the key elsewhere
            transport=transport,
        )

    async def write(self, request: Request) -> Reply:
        reply = await self._in_time(self._answer(request))
        return Reply(self.redact(reply.text), reply.finish, reply.tokens)

    async def _in_time(self, answer: Coroutine[Any, Any, T]) -> T:
        """What the server answers, every failure as a CallFailed."""
        import httpx2

        try:
            async with asyncio.timeout(self.config.timeout):
                return await answer
        except (TimeoutError, httpx2.TimeoutException) as error:
            billed = not isinstance(error, httpx2.ConnectTimeout)
            what = f"No whole answer within {self.config.timeout:g} seconds."
            raise CallFailed("timeout", what, billed=billed) from None
        except (httpx2.ConnectError, httpx2.ProxyError, httpx2.UnsupportedProtocol) as error:
            raise CallFailed("unreachable", self.redact(f"{self.config.base_url}: {error}")) from None
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
            if self.config.stream and "event-stream" in response.headers.get("content-type", ""):
                return await read_stream(response.aiter_lines())
            return read_json(await body_of(response))

    def body(self, request: Request) -> dict[str, Any]:
        """What is asked, as the server reads it."""
        body: dict[str, Any] = {
            "model": self.config.model,
            "messages": list(request.messages),
            self.config.limit_name: request.max_tokens,
            "temperature": request.temperature,
            "seed": request.seed,
            **self.config.extra,
        }
        if self.config.stream:
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
        """What a status means."""
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


@register("writer")
class EndpointWriter(WriterConfig):
    """A model behind an OpenAI-compatible address."""

    kind: Literal["endpoint"] = "endpoint"
    base_url: str
    """The address before `/chat/completions`, such as https://api.deepseek.com/v1."""
    model: str = Field(min_length=1)
    """The model's name there."""
    key_env: str | None = None
    """Name of the environment variable that holds the key; left out: no key is sent. Never the key itself."""
    prices: Prices | None = None
    """Dollars for a million tokens; a cap in dollars needs them."""
    in_flight: int = Field(64, ge=1, le=50_000)
    """Calls at the same time, at most; how many there are follows from the server's answers."""
    batch: bool = False
    """Send calls together through the batch endpoint (`/files`, `/batches`), where there is one: cheaper, within a
    day, and as many at once as in_flight says."""
    poll: float = Field(30.0, gt=0)
    """Seconds between two looks at a batch."""
    timeout: float = Field(120.0, gt=0)
    """Seconds for a whole answer."""
    stream: bool = False
    """Take answers in pieces; for servers and proxies that cut long silences."""
    limit_name: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    """What this server calls the limit on a reply; newer models of OpenAI want max_completion_tokens."""
    extra: dict[str, Any] = Field(default_factory=dict)
    """Further keys of each request, such as top_p."""

    @field_validator("base_url")
    @classmethod
    def _is_an_address(cls, value: str) -> str:
        parts = urlsplit(value)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError("an address begins with http:// or https://, such as http://localhost:11434/v1")
        if parts.username or parts.password or parts.query:
            raise ValueError(
                "an address holds no user, password or question mark; the key belongs into key_env"
            )
        return value

    @field_validator("extra")
    @classmethod
    def _leaves_ours_alone(cls, value: dict[str, Any]) -> dict[str, Any]:
        taken = sorted(_OURS & value.keys())
        if taken:
            raise ValueError(f"{', '.join(taken)}: these decide what a call can cost and how it is read")
        return value

    @field_validator("key_env")
    @classmethod
    def _is_a_name(cls, value: str | None) -> str | None:
        if value is not None and not re.fullmatch(r"[A-Z_][A-Z0-9_]{0,63}", value):
            raise ValueError(
                "give the NAME of an environment variable, such as DEEPSEEK_API_KEY, not the key itself"
            )
        return value

    @property
    def paid(self) -> Prices | None:
        """The prices by which it is paid."""
        return self.prices.in_batches() if self.prices and self.batch else self.prices

    @model_validator(mode="after")
    def _in_one_piece(self) -> EndpointWriter:
        if self.batch and self.stream:
            raise ValueError("a batch is not streamed; leave one of batch and stream out")
        return self

    def build(self, *, seed: int, transport: httpx2.AsyncBaseTransport | None = None) -> EndpointBackend:
        """Make the client; nothing is sent yet. Raises InputError where the key's variable is not set."""
        del seed  # each request carries its own
        key = os.environ.get(self.key_env, "").strip() if self.key_env else None
        if self.key_env and not key:
            raise InputError(
                f"The environment variable {self.key_env}, which should hold the key for {self.base_url}, is not set.",
                remedy=f"export {self.key_env}=…    (read from the environment, written nowhere)",
            )
        if key and (not key.isascii() or any(c.isspace() for c in key)):
            raise InputError(f"What {self.key_env} holds is no key: it has blanks or letters outside ASCII.")
        if self.batch:
            from octavo.synthesis.writing.backends.batch import BatchBackend

            return BatchBackend(self, key, transport)
        return EndpointBackend(self, key, transport)
