"""What every form of a record is, and what is read in all of them."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar, Literal

from octavo.config.parts import PartConfig, SplitBy
from octavo.corpus.records.turns import ROLES, Message
from octavo.errors import CorpusError

Form = Literal["text", "conversations", "preferences", "prompts"]
"""What documents are, and so which batches and objectives take them."""

LONGEST = 200_000
"""Characters of a record that is a conversation: far more than any context here, and little enough to be read whole."""


class LeftOut(CorpusError):
    """A record that is whole but of no use, such as a preference between equals: it is said and passed over."""


class RecordConfig(PartConfig):
    """Base of every form's config.

    Attributes:
        form: what its documents are.
        sample: a record as it should be, for messages.
    """

    form: ClassVar[Form]
    sample: ClassVar[str] = ""
    whole: ClassVar[bool] = False
    """Whether a record is a document as it is, so that no option says what a document is."""

    @abstractmethod
    def text(self, record: object, place: str, field: str) -> str:
        """The document in a record, read at `place`; `field` is the reader's option. Raises CorpusError; LeftOut
        for one to pass over."""

    def refused(self, place: str, why: str) -> CorpusError:
        """The error for a record that does not fit."""
        return CorpusError(f"{place}: {why}.", remedy=f"For example {self.sample}")

    def fields(self, record: object, place: str) -> dict[str, Any]:
        """The record as a mapping. Raises CorpusError."""
        if not isinstance(record, dict):
            raise self.refused(place, f"it is not a JSON object but {type(record).__name__}")
        return record

    def text_field(self, record: dict[str, Any], key: str, place: str, *, empty: bool = False) -> str:
        """A text in a record. Raises CorpusError where it is none, or has nothing but white space."""
        value = record.get(key)
        if not isinstance(value, str):
            found = f"holds no text but {type(value).__name__}" if key in record else "is missing"
            raise self.refused(place, f"the field '{key}' {found}")
        if not (value.strip() or empty):
            raise self.refused(place, f"the field '{key}' is empty")
        if len(value) > LONGEST:
            raise self.refused(
                place, f"the field '{key}' has {len(value):,} characters; {LONGEST:,} are the most"
            )
        return sound(value, place)


class TurnsConfig(RecordConfig):
    """Base of the configs of forms whose documents are no texts, but turns of a conversation."""

    whole: ClassVar[bool] = True
    splits: ClassVar[tuple[SplitBy, ...]] = ("documents", "prompts")

    def refuse(self, recipe: Any) -> str | None:
        return refuse_as_text(self.form, recipe)

    def messages(self, found: object, place: str, key: str) -> list[Message]:
        """A list of turns. Raises CorpusError where they do not take turns, or one says nothing."""
        if not isinstance(found, list) or not found:
            raise self.refused(place, f"'{key}' must be a list of messages")
        messages: list[Message] = []
        for number, one in enumerate(found, start=1):
            here = f"{place}, message {number}"
            role = self.fields(one, here).get("role")
            if role not in ROLES:
                raise self.refused(here, f"its role is {role!r}; there are {', '.join(ROLES)}")
            before = messages[-1].role if messages else None
            if role == "system" and messages:
                raise self.refused(here, "a system message stands first or nowhere")
            if role == "assistant" and before in (None, "system"):
                raise self.refused(here, "the conversation begins with the assistant; a user speaks first")
            if role == before:
                raise self.refused(here, f"two messages of the {role} follow each other")
            messages.append(Message(role, self.text_field(one, "content", here)))
        if sum(len(message.content) for message in messages) > LONGEST:
            raise self.refused(place, f"it has more than {LONGEST:,} characters")
        return messages

    def prompt(self, record: dict[str, Any], place: str) -> list[Message]:
        """What comes before an answer: `prompt` (a text or messages), `messages` that end with the user, or Alpaca's
        `instruction` and `input`. Raises CorpusError."""
        for key in ("prompt", "messages"):
            if isinstance(record.get(key), list):
                messages = self.messages(record[key], place, key)
                if messages[-1].role != "user":
                    raise self.refused(
                        place, f"'{key}' ends with the {messages[-1].role}; the user asks last"
                    )
                return messages
        if "prompt" in record:
            return [Message("user", self.text_field(record, "prompt", place))]
        if "instruction" in record:
            asked = self.text_field(record, "instruction", place)
            more = self.text_field(record, "input", place, empty=True) if record.get("input") else ""
            return [Message("user", f"{asked}\n\n{more}" if more.strip() else asked)]
        raise self.refused(place, f"it has no prompt, but {', '.join(map(repr, record)) or 'nothing'}")


def refuse_as_text(form: str, recipe: Any) -> str | None:
    """What of a recipe is for texts alone, where documents are of another form."""
    if recipe.model.held_out:
        return f"model.counts is for text, and the corpus holds {form}; model.counts=none"
    return f"cleaning is for texts; {form} are taken as they are" if recipe.cleaning else None


def sound(text: str, place: str) -> str:
    """The text with one kind of line break. Raises CorpusError: it holds half a character."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise CorpusError(
            f"{place}: the text holds half a character (U+{ord(text[error.start]):04X} alone).",
            remedy="Take that record out, or write the character in full.",
        ) from error
    return text.replace("\r\n", "\n").replace("\r", "\n")
