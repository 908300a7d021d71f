"""What one call to a writer is: the request, the reply, and what can go wrong on the way."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from octavo.config.parts import PartConfig
from octavo.synthesis.writing.money import Prices, Tokens

Message = dict[str, str]
"""`role` (system, user or assistant) and `content`."""

Failure = Literal["throttled", "server", "unreachable", "timeout", "cut", "malformed", "refused"]
"""Too many calls; an error of the server; no connection; no answer in time; an answer that broke off; one that is
no answer; and a refusal that will not change: a wrong key, an unknown model, no money."""


@dataclass(frozen=True)
class Request:
    """One call: what is said, and what makes it repeatable. `seed` differs for each try of each story."""

    messages: Sequence[Message]
    max_tokens: int
    temperature: float
    seed: int

    def most_tokens(self) -> Tokens:
        """A bound that no tokenizer over bytes exceeds: one token a byte, and some for each message's frame."""
        said = sum(len(message["content"].encode()) + 16 for message in self.messages)
        return Tokens(prompt=said + 16, cached=0, reply=self.max_tokens)


@dataclass(frozen=True)
class Reply:
    """A whole answer. `tokens` is None where the writer did not count them; `finish` is why it ended."""

    text: str
    finish: str
    tokens: Tokens | None


class CallFailed(Exception):
    """A call without a usable answer.

    Attributes:
        kind: which failure.
        wait: seconds that the writer told us to stay away, if it did.
        tokens: what it says it used; None where nobody knows.
        billed: whether it may cost money although it failed.
    """

    def __init__(
        self,
        kind: Failure,
        what: str,
        *,
        wait: float | None = None,
        tokens: Tokens | None = None,
        billed: bool = False,
    ) -> None:
        super().__init__(what)
        self.kind, self.wait, self.tokens, self.billed = kind, wait, tokens, billed


class Backend(ABC):
    """Whoever writes: a model behind an address, the storyteller, one of your own models.

    Attributes:
        model: its name, as the store keeps it.
        prices: what it takes; None where that is not known.
        in_flight: calls at the same time, at most.
        quota: seconds until it can be called again, by its last answer's rate-limit headers; 0 for at once.
    """

    model: str
    prices: Prices | None
    in_flight: int
    quota: float = 0.0

    @abstractmethod
    async def write(self, request: Request) -> Reply:
        """Answer one request, or raise CallFailed."""

    async def close(self) -> None:
        """Let go of connections."""
        return


class WriterConfig(PartConfig):
    """Base of every writer's config."""

    @abstractmethod
    def build(self, *, seed: int) -> Backend:
        """Make the writer; `seed` is the spec's. Raises InputError where it cannot work, such as without its key."""
