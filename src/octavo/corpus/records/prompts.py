"""Records that are prompts alone: what a model is asked, and answers by itself."""

from __future__ import annotations

from typing import ClassVar, Literal

from octavo.config.parts import register
from octavo.corpus.records.base import Form, TurnsConfig
from octavo.corpus.records.turns import Turns


@register("record")
class PromptRecord(TurnsConfig):
    """Each record a `prompt` (a text, or messages that end with the user), or Alpaca's `instruction` and `input`;
    answers that stand beside it are not read."""

    kind: Literal["prompts"] = "prompts"
    form: ClassVar[Form] = "prompts"
    sample: ClassVar[str] = '{"prompt": "Hi."}'

    def text(self, record: object, place: str, field: str) -> str:
        return Turns(tuple(self.prompt(self.fields(record, place), place))).text()
