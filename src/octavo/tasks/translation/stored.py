"""What a model of pairs writes, as evaluation.json has it."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, model_validator

from octavo.tasks.text.stored import TextEvaluation
from octavo.util.records import Count, Number, Record


class Example(Record):
    """A held-out pair, and what the model writes for its source."""

    source: str
    target: str
    written: str


class Alignment(Record):
    """How often an alignment of words errs, by where it is from."""

    pairs: Count
    layer: Count
    error_rates: dict[str, Number]


class Attention(Record):
    """Where each token of a target looks in its source."""

    layer: Count
    source: list[str]
    target: list[str]
    weights: list[list[Number]]

    @model_validator(mode="after")
    def _a_cell_for_each(self) -> Attention:
        assert list(map(len, self.weights)) == [len(self.source)] * len(self.target), "a weight each"
        return self


class Scored(Record):
    """A figure of translations, and by what it was computed."""

    score: Number
    signature: str


class Way(Record):
    """A way to search for translations, and how good they are."""

    beams: Count
    length_penalty: Number
    bleu: Scored
    chrf: Scored


class Scores(Record):
    """How good translations of held-out pairs are, the best way to search first."""

    pairs: Count
    ways: Annotated[list[Way], Field(min_length=1)]


class Known(Record):
    """How many held-out pairs have a source that was learned from too."""

    sources: Count
    pairs: Count


class Translations(Record):
    """What a model of pairs writes."""

    examples: list[Example]
    known: Known | None = None
    scores: Scores | None = None
    alignment: Alignment | None = None
    attention: Attention | None = None


class TranslationEvaluation(TextEvaluation):
    """evaluation.json of a model of pairs."""

    translations: Translations | None = None


class Look(Record):
    """What a look at the test split says of pairs."""

    scores: Scores | None = None
    known: Known | None = None
