"""Conversations as ids: the chat template, which a tokenizer has by its special tokens.

Each turn is the special token of its role, the turn's text, and the token that ends it. Texts are encoded each by
itself and never give a special token, so nobody can write a role into a text, and the ids alone say what the
assistant wrote.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from octavo.corpus.records.turns import Message, Role
from octavo.errors import InputError, TokenizerError
from octavo.tokenizers.base import CHAT_END, LONGEST_NAMED, Tokenizer, printable

OPENINGS: dict[Role, str] = {"system": "<|system|>", "user": "<|user|>", "assistant": "<|assistant|>"}
CHAT_TOKENS = (*OPENINGS.values(), CHAT_END)
"""The special tokens of the template, as `tokenizer.special` names them."""


def jinja(before: str = "") -> str:
    """The same for Hugging Face's `apply_chat_template` and for llama.cpp; `before`: what a file has before the name of
    each special token."""
    mark = before.replace("\\", "\\\\")
    return (
        "{% for message in messages %}"
        f"{{{{ '{mark}<|' + message['role'] + '|>' + message['content'] + '{mark}{CHAT_END}' }}}}"
        "{% endfor %}"
        f"{{% if add_generation_prompt %}}{{{{ '{mark}{OPENINGS['assistant']}' }}}}{{% endif %}}"
    )


@dataclass(frozen=True)
class Rendered:
    """A conversation as ids (N,), int32, and whether each is to be learned (N,): what the assistant writes and the
    token that ends its turn.
    """

    ids: np.ndarray
    learned: np.ndarray


def has_chat(tokenizer: Tokenizer) -> bool:
    """Whether a tokenizer has the template's tokens."""
    return all(name in tokenizer.special for name in CHAT_TOKENS)


class ChatTemplate:
    """The template of a tokenizer. Raises TokenizerError where it has not its special tokens."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        lacking = [name for name in CHAT_TOKENS if name not in tokenizer.special]
        if lacking:
            raise TokenizerError(
                f"The tokenizer has no chat template: it lacks {', '.join(lacking)}.",
                remedy="octavo tune sft RUN --text chats.jsonl    adds them and teaches them",
            )
        self.tokenizer = tokenizer
        self.openings = {role: tokenizer.special[name] for role, name in OPENINGS.items()}
        self.end = tokenizer.special[CHAT_END]
        self.roles = {id: role for role, id in self.openings.items()}

    def render(self, messages: Sequence[Message], *, answering: bool = False) -> Rendered:
        """A conversation as ids; `answering`: with the token after which the assistant writes.

        Raises TokenizerError for a text that the ids would not give back, UnknownTextError for what the vocabulary
        lacks.
        """
        parts: list[np.ndarray] = []
        learned: list[np.ndarray] = []
        for message in messages:
            turn = np.concatenate(([self.openings[message.role]], self.encode(message.content), [self.end]))
            mine = np.full(len(turn), message.role == "assistant")
            mine[0] = False
            parts.append(turn)
            learned.append(mine)
        if answering:
            parts.append(np.array([self.openings["assistant"]]))
            learned.append(np.zeros(1, bool))
        nothing = [np.zeros(0, np.int32)]
        return Rendered(
            np.concatenate(parts or nothing).astype(np.int32), np.concatenate(learned or nothing).astype(bool)
        )

    def encode(self, text: str) -> np.ndarray:
        """Ids of a turn's text. Raises TokenizerError where another text would come back."""
        ids = self.tokenizer.encode(text)
        back = self.tokenizer.decode(ids)
        if back != text:
            at = next((at for at, (a, b) in enumerate(zip(text, back, strict=False)) if a != b), len(back))
            raise TokenizerError(
                f"The tokenizer does not keep this text: “{_near(text, at)}” would come back as "
                f"“{_near(back, at)}”.",
                remedy="write the text as the tokenizer spells it, or start from a run whose tokenizer keeps all texts",
            )
        return ids

    def parse(self, ids: Iterable[int]) -> list[Message]:
        """The conversation that ids say; a last turn may be without its end. Raises InputError for ids that say
        none."""
        messages: list[Message] = []
        role: Role | None = None
        held: list[int] = []
        for id in map(int, ids):
            if role is None and id in self.roles:
                role = self.roles[id]
            elif role is not None and id == self.end:
                messages.append(Message(role, self.tokenizer.decode(held)))
                role, held = None, []
            elif role is not None and id not in self.roles:
                held.append(id)
            else:
                raise InputError(
                    f"These ids are no conversation: “{self.tokenizer.token_text(id)}” stands in the wrong place."
                )
        if role is not None:
            messages.append(Message(role, self.tokenizer.decode(held)))
        return messages

    def learned(self, ids: np.ndarray) -> np.ndarray:
        """Which ids (N,) of conversations one after another are learned, told from the ids alone."""
        return learned_of(np.asarray(ids), tuple(self.openings.values()), self.openings["assistant"])


def learned_of(ids: np.ndarray, openings: Sequence[int], assistant: int) -> np.ndarray:
    """Which ids (N,) stand in a turn that the assistant's token opened; the opening tokens themselves are in none."""
    opens = np.isin(ids, openings)
    last = np.maximum.accumulate(np.where(opens, np.arange(len(ids)), -1))
    return (last >= 0) & ~opens & (ids[np.maximum(last, 0)] == assistant)


def _near(text: str, at: int) -> str:
    start = max(0, at - 20)
    cut = printable(text[start : start + LONGEST_NAMED // 2])
    return ("…" if start else "") + cut + ("…" if start + LONGEST_NAMED // 2 < len(text) else "")
