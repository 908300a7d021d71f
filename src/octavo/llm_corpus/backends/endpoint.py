"""A model behind an OpenAI-compatible address: DeepSeek, OpenAI, OpenRouter, vLLM, llama.cpp, Ollama and others.

The key is named, never written: the config holds the name of an environment variable.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import urlsplit

from pydantic import Field, field_validator, model_validator

from octavo.config.parts import register
from octavo.corpus.fetch.addresses import in_clear_text
from octavo.errors import InputError
from octavo.llm_corpus.batches import BatchBackend
from octavo.llm_corpus.calls import WriterConfig
from octavo.llm_corpus.client import EndpointBackend, Service
from octavo.llm_corpus.money import Prices

if TYPE_CHECKING:
    import httpx2

_OURS = {
    *("model", "messages", "max_tokens", "max_completion_tokens"),
    *("stream", "stream_options", "n", "best_of", "seed", "temperature"),
}


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
    clear_text: bool = False
    """Send the key over http:// to another machine, although everyone on the way can read it."""
    prices: Prices | None = None
    """Dollars for a million tokens; a cap in dollars needs them."""
    in_flight: int = Field(64, ge=1, le=50_000)
    """Calls at the same time, at most; how many there are follows from the server's answers."""
    batch: bool = False
    """Send calls together through the batch endpoint (`/files`, `/batches`), if there is one: cheaper, within a
    day, and as many at once as in_flight says."""
    poll: float = Field(30.0, gt=0)
    """Seconds between two looks at a batch."""
    timeout: float = Field(120.0, gt=0)
    """Seconds for a whole answer, at most; less where others are answered much faster."""
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

    @model_validator(mode="after")
    def _keeps_its_key(self) -> EndpointWriter:
        if self.key_env and not self.clear_text and in_clear_text(self.base_url):
            raise ValueError(
                f"the key in {self.key_env} would go to {urlsplit(self.base_url).netloc} without encryption, for"
                " everyone on the way to read; use https://, or allow it with clear_text: true"
            )
        return self

    def build(self, *, seed: int, transport: httpx2.AsyncBaseTransport | None = None) -> EndpointBackend:
        """Make the client; nothing is sent yet. Raises InputError if the key's variable is not set."""
        del seed  # each request carries its own
        key = os.environ.get(self.key_env, "").strip() if self.key_env else None
        if self.key_env and not key:
            raise InputError(
                f"The environment variable {self.key_env}, which should hold the key for {self.base_url}, is not set.",
                remedy=f"export {self.key_env}=…    (read from the environment, written nowhere)",
            )
        if key and (not key.isascii() or any(c.isspace() for c in key)):
            raise InputError(f"What {self.key_env} holds is no key: it has blanks or letters outside ASCII.")
        service = Service(
            base_url=self.base_url,
            model=self.model,
            key=key,
            prices=self.paid,
            in_flight=self.in_flight,
            timeout=self.timeout,
            poll=self.poll,
            stream=self.stream,
            limit_name=self.limit_name,
            extra=self.extra,
        )
        return (BatchBackend if self.batch else EndpointBackend)(service, transport)
