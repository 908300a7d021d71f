"""A conversation as a document: its messages, and of a preference the two answers, as one line of JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any, Literal, get_args

from octavo.util.records import json_text

Role = Literal["system", "user", "assistant"]
ROLES: tuple[Role, ...] = get_args(Role)


@dataclass(frozen=True)
class Message:
    """One turn."""

    role: Role
    content: str

    def as_dict(self) -> dict[str, str]:
        """As JSON files have it."""
        return {"role": self.role, "content": self.content}


@dataclass(frozen=True)
class Turns:
    """A conversation, the prompt of one, or a prompt with an answer that was chosen and one that was rejected.

    Attributes:
        messages: of a prompt the last one is the user's.
        chosen, rejected: both or neither.
    """

    messages: tuple[Message, ...]
    chosen: str | None = None
    rejected: str | None = None

    def text(self) -> str:
        """As a document's text: one line, the same for the same conversation."""
        plain: dict[str, Any] = {"messages": [message.as_dict() for message in self.messages]}
        if self.chosen is not None:
            plain |= {"chosen": self.chosen, "rejected": self.rejected}
        return json_text(plain, ensure_ascii=False)

    @classmethod
    def of(cls, text: str) -> Turns:
        plain = json.loads(text)
        return cls(messages_of(plain["messages"]), plain.get("chosen"), plain.get("rejected"))

    @property
    def conversations(self) -> Sequence[tuple[Message, ...]]:
        """Itself, or the prompt with either answer, the chosen one first."""
        if self.chosen is None or self.rejected is None:
            return (self.messages,)
        return tuple((*self.messages, Message("assistant", one)) for one in (self.chosen, self.rejected))

    @property
    def prompt(self) -> tuple[Message, ...]:
        """What comes before the first answer."""
        return tuple(takewhile(lambda message: message.role != "assistant", self.messages))

    @property
    def asks(self) -> bool:
        """Whether it is a prompt alone."""
        return self.chosen is None and self.messages[-1].role == "user"


def messages_of(plain: Sequence[dict[str, Any]]) -> tuple[Message, ...]:
    """Messages from plain data that was checked."""
    return tuple(Message(one["role"], one["content"]) for one in plain)
