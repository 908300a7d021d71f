"""Records that are conversations: demonstrations for fine-tuning."""

from __future__ import annotations

from typing import ClassVar, Literal

from octavo.config.parts import register
from octavo.corpus.records.base import Form, TurnsConfig
from octavo.corpus.records.turns import Message, Turns


@register("record")
class ConversationRecord(TurnsConfig):
    """Each record a conversation that the assistant ends: `messages` (role and content), Alpaca's `instruction`,
    `input` and `output`, or `prompt` and `completion`."""

    kind: Literal["conversations"] = "conversations"
    form: ClassVar[Form] = "conversations"
    sample: ClassVar[str] = (
        '{"messages": [{"role": "user", "content": "Hi."}, {"role": "assistant", "content": "Hello!"}]}, '
        '{"instruction": "Say hi.", "input": "", "output": "Hello!"} or {"prompt": "Hi.", "completion": "Hello!"}'
    )

    def text(self, record: object, place: str, field: str) -> str:
        found = self.fields(record, place)
        if "messages" in found:
            messages = self.messages(found["messages"], place, "messages")
            if messages[-1].role != "assistant":
                raise self.refused(
                    place, "the conversation does not end with the assistant, whose words are learned"
                )
            return Turns(tuple(messages)).text()
        key = "completion" if "prompt" in found else "output"
        if not found.keys() & {"prompt", "instruction"}:
            listed = ", ".join(map(repr, found)) or "nothing"
            raise self.refused(place, f"it fits no form of a conversation; it has {listed}")
        prompt = self.prompt(found, place)
        if isinstance(found.get(key), list):
            both = [message.as_dict() for message in prompt] + found[key]
            return Turns(tuple(self.messages(both, place, key))).text()
        return Turns((*prompt, Message("assistant", self.text_field(found, key, place)))).text()
