"""Records that are preferences: a prompt, the answer that was chosen, and the one that was rejected."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from octavo.config.parts import register
from octavo.corpus.records.base import Form, LeftOut, TurnsConfig
from octavo.corpus.records.turns import Message, Turns


@register("record")
class PreferenceRecord(TurnsConfig):
    """Each record a prompt (`prompt`, or `instruction` and `input`) with two answers, `chosen` and `rejected`. These
    are texts, or lists of messages that end with the answer and, without a `prompt`, begin with it. Texts need no
    prompt: then one is preferred to the other as it stands."""

    kind: Literal["preferences"] = "preferences"
    form: ClassVar[Form] = "preferences"
    sample: ClassVar[str] = '{"prompt": "Hi.", "chosen": "Hello!", "rejected": "What?"}'

    def text(self, record: object, place: str, field: str) -> str:
        found = self.fields(record, place)
        if lacking := [key for key in ("chosen", "rejected") if key not in found]:
            listed = ", ".join(map(repr, found)) or "nothing"
            raise self.refused(
                place, f"it is no preference: it lacks {' and '.join(lacking)}, and has {listed}"
            )
        if isinstance(found["chosen"], list) and not found.keys() & {"prompt", "messages", "instruction"}:
            return self._implicit(found, place)
        prompt = [] if self._alone(found) else self.prompt(found, place)
        return self._pair(
            prompt, self._answer(found, "chosen", place), self._answer(found, "rejected", place), place
        )

    def _alone(self, found: dict[str, Any]) -> bool:
        """Whether the two sides are texts that nobody asked for."""
        return found.get("prompt", "") == "" and not found.keys() & {"messages", "instruction"}

    def _answer(self, found: dict[str, Any], key: str, place: str) -> str:
        value = found[key]
        if isinstance(value, list):
            if len(value) != 1 or self.fields(value[0], place).get("role") != "assistant":
                raise self.refused(place, f"'{key}' is no text and no single message of the assistant")
            return self.text_field(value[0], "content", place, empty=True)
        return self.text_field(found, key, place, empty=True)

    def _implicit(self, found: dict[str, Any], place: str) -> str:
        """Both sides as whole conversations, which differ in the last message alone."""
        sides = [self.messages(found[key], place, key) for key in ("chosen", "rejected")]
        chosen, rejected = sides
        if chosen[:-1] != rejected[:-1]:
            raise self.refused(
                place, "'chosen' and 'rejected' differ before their last message, so they answer other things"
            )
        if any(side[-1].role != "assistant" for side in sides):
            raise self.refused(place, "'chosen' and 'rejected' do not end with the assistant")
        return self._pair(chosen[:-1], chosen[-1].content, rejected[-1].content, place)

    def _pair(self, prompt: list[Message], chosen: str, rejected: str, place: str) -> str:
        if chosen == rejected:
            raise LeftOut(f"{place}: its two answers are equal, so nothing is preferred.")
        return Turns(tuple(prompt), chosen, rejected).text()
