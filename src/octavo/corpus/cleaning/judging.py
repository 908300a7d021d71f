"""Steps that keep or drop a document as it is: by its length and by its language."""

from __future__ import annotations

import math
from typing import Any, Literal, Self

from pydantic import Field, field_validator, model_validator

from octavo.config.parts import MOST, register
from octavo.corpus.cleaning.base import Dropped, Step, StepConfig
from octavo.corpus.languages import SAMPLE, identifier
from octavo.corpus.words import WORDS
from octavo.errors import ConfigError


class _Length(Step):
    def __init__(self, *, words: tuple[int, float], characters: tuple[int, float]) -> None:
        super().__init__()
        self._words, self._characters = words, characters

    def clean(self, text: str, number: int) -> str:
        self._judge(len(text), self._characters, "characters")
        if self._words != (0, math.inf):
            self._judge(sum(1 for _ in WORDS.finditer(text)), self._words, "words")
        return text

    def _judge(self, count: int, limits: tuple[int, float], unit: str) -> None:
        least, most = limits
        if count < least:
            raise Dropped("too short", f"{count:,} {unit}, at least {least:,} are asked for")
        if count > most:
            raise Dropped("too long", f"{count:,} {unit}, at most {most:,} are asked for")


@register("cleaning")
class Length(StepConfig):
    """Documents that are too short or too long are dropped."""

    kind: Literal["length"] = "length"
    min_words: int = Field(0, ge=0, le=MOST)
    """Fewest words."""
    max_words: int | None = Field(None, ge=1, le=MOST)
    """Most words; empty: no limit."""
    min_characters: int = Field(0, ge=0, le=MOST)
    """Fewest characters."""
    max_characters: int | None = Field(None, ge=1, le=MOST)
    """Most characters; empty: no limit."""

    @model_validator(mode="after")
    def _possible(self) -> Self:
        for least, most, unit in (
            (self.min_words, self.max_words, "words"),
            (self.min_characters, self.max_characters, "characters"),
        ):
            if most is not None and least > most:
                raise ValueError(f"min_{unit} ({least}) is more than max_{unit} ({most})")
        return self

    def build(self) -> Step:
        return _Length(
            words=(self.min_words, self.max_words or math.inf),
            characters=(self.min_characters, self.max_characters or math.inf),
        )


class _Language(Step):
    def __init__(self, identifier: Any, keep: tuple[str, ...], certainty: float) -> None:
        super().__init__()
        self._identifier, self._keep, self._certainty = identifier, keep, certainty

    def clean(self, text: str, number: int) -> str:
        language, probability = self._identifier.classify(text[:SAMPLE])
        if language not in self._keep:
            raise Dropped("another language", f"{language}, with a probability of {probability:.2f}")
        if probability < self._certainty:
            raise Dropped("language not certain", f"{language}, with a probability of {probability:.2f}")
        self.found[str(language)] += 1
        return text


@register("cleaning")
class Language(StepConfig):
    """Documents in other languages are dropped, as py3langid judges by their first 3,000 characters (extra: data).
    Very short texts are judged badly: put `length` before this, or name the candidates."""

    kind: Literal["language"] = "language"
    keep: tuple[str, ...] = Field(("en",), min_length=1)
    """Codes of the languages that stay (ISO 639-1): en, de, es, …"""
    among: tuple[str, ...] = ()
    """Languages that the texts can be in, which makes the judgement better; empty: all 97 that it knows."""
    certainty: float = Field(0.0, ge=0, le=1)
    """Least probability of the language."""

    @field_validator("keep", "among", mode="before")
    @classmethod
    def _one(cls, value: Any) -> Any:
        return (value,) if isinstance(value, str) else value

    def build(self) -> Step:
        found = identifier()
        known = set(found.labels)
        wrong = sorted({*self.keep, *self.among} - known)
        if wrong:
            raise ConfigError(
                f"There is no language {', '.join(wrong)} here; known are {', '.join(sorted(known))}."
            )
        if self.among:
            found.set_languages(sorted({*self.keep, *self.among}))
        return _Language(found, self.keep, self.certainty)
