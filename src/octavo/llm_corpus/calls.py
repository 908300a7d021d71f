"""What one call to a writer is: the request, the reply, and what can go wrong on the way."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from octavo.config.parts import PartConfig
from octavo.llm_corpus.money import Prices, Tokens

LONGEST_TOKEN = 16
"""Bytes of a reply for each of its tokens, at most: four times what tokens have in English."""

ABSURD = 20
"""So many times the tokens that a call can take are a mistake of whoever counted them. Less is believed: some servers
put their own words before a prompt, and do not count what a model thinks as a part of its reply."""

Message = dict[str, str]
"""`role` (system, user or assistant) and `content`."""

Failure = Literal["throttled", "server", "unreachable", "timeout", "cut", "malformed", "refused", "overtaken"]
"""Too many calls; an error of the server; no connection; no answer in time; an answer that broke off; one that is
no answer; a refusal that will not change: a wrong key, an unknown model, no money; and a call that is no longer waited
for because another one for the same story was faster."""


@dataclass(frozen=True)
class Request:
    """One call: what is said, and what makes it repeatable. `seed` differs for each try of each story; `id` names
    the story and the try, and is never given twice."""

    messages: Sequence[Message]
    max_tokens: int
    temperature: float
    seed: int
    id: str = ""

    def most_tokens(self) -> Tokens:
        """A bound that no tokenizer over bytes exceeds: one token a byte, and some for each message's frame."""
        said = sum(len(message["content"].encode()) + 16 for message in self.messages)
        return Tokens(prompt=said + 16, cached=0, reply=self.max_tokens)

    @property
    def most_bytes(self) -> int:
        """A reply that has more did not keep to the limit on its tokens."""
        return LONGEST_TOKEN * self.max_tokens + 256

    def cut(self, reply: Reply) -> Reply:
        """A reply without what goes beyond any limit on it; such a one was cut off. What a server counted for it is
        left out where it cannot be true."""
        text, finish = reply.text, reply.finish
        data = text[: self.most_bytes + 1].encode()
        if len(data) > self.most_bytes:
            text, finish = data[: self.most_bytes].decode(errors="ignore"), "length"
        return Reply(text, finish, self.believed(reply.tokens, text))

    def believed(self, tokens: Tokens | None, text: str = "") -> Tokens | None:
        """Tokens that a server counted; None if no such call takes so many, or none at all."""
        most = self.most_tokens()
        if tokens is None or not tokens.prompt or (text and not tokens.reply):
            return None
        absurd = tokens.prompt > ABSURD * most.prompt or tokens.reply > ABSURD * most.reply
        return None if absurd else tokens


@dataclass(frozen=True)
class Reply:
    """A whole answer. `tokens` is None if the writer did not count them; `finish` is why it ended."""

    text: str
    finish: str
    tokens: Tokens | None


class CallFailed(Exception):
    """A call without a usable answer.

    Attributes:
        kind: which failure.
        wait: seconds that the writer told us to stay away, if it did.
        tokens: what it says it used; None if nobody knows.
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


@dataclass(frozen=True)
class Batch:
    """Requests that were sent together. `remote` is the server's name for it; None if the process died before it
    was known."""

    token: str
    remote: str | None
    ids: tuple[str, ...]


class Memory(Protocol):
    """What a writer of batches has written down, so that a later process can take it up."""

    async def asked(self, batch: Batch) -> None:
        """From now on the server may have it."""

    async def known(self, batch: Batch) -> None:
        """The server has it, under this name."""

    async def stay_away(self, seconds: float) -> None:
        """The server asked for rest."""


class Backend(ABC):
    """Whoever writes: a model behind an address, the storyteller, one of your own models.

    Attributes:
        model: its name, as the store keeps it.
        prices: what it takes; None if that is not known.
        in_flight: calls at the same time, at most.
        quota: seconds until it can be called again, by its last answer's rate-limit headers; 0 for at once.
        lasting: whether its replies can be fetched by a later process too, so that nobody has to wait for them.
        note: what it is at, for the live line.
    """

    model: str
    prices: Prices | None
    in_flight: int
    quota: float = 0.0
    lasting: bool = False
    note: str = ""

    @abstractmethod
    async def write(self, request: Request) -> Reply:
        """Answer one request, or raise CallFailed."""

    def take_up(self, memory: Memory, batches: Sequence[Batch], rest: float) -> None:
        """Continue batches of earlier processes, after `rest` seconds; `write` is called for each of their
        requests. A writer whose replies do not last has none."""
        return

    async def close(self) -> None:
        """Close connections to the server."""
        return


class WriterConfig(PartConfig):
    """Base of every writer's config."""

    @abstractmethod
    def build(self, *, seed: int) -> Backend:
        """Make the writer; `seed` is the spec's. Raises InputError if it cannot work, such as without its key."""
