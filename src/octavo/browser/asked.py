"""What the page may ask for; bounded before anything is done."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, RootModel, model_validator

from octavo.serving.schemas import Ids, Sampled

MOST_STOPS = 40
Id = Annotated[str, Field(min_length=1, max_length=1000)]
Minutes = Annotated[float, Field(ge=-1e6, le=1e6, allow_inf_nan=False)]
"""What octavo train says of too few or too many is better than what could be said here."""


class Wish(BaseModel):
    """Base: no conversions, nothing that is not known."""

    model_config = ConfigDict(strict=True, extra="forbid")


class NewText(Wish):
    """A text is about to come."""

    name: str = Field(min_length=1, max_length=500)


class OfText(Wish):
    """What a text holds."""

    text: Id


class Foretell(Wish):
    """What minutes would bring."""

    text: Id
    minutes: list[Minutes] = Field(min_length=1, max_length=MOST_STOPS)


class Train(Wish):
    """A new run."""

    kind: Literal["train"]
    text: Id
    minutes: Minutes
    name: str = Field("", max_length=200)


class Demo(Wish):
    """A run on stories that Octavo makes itself."""

    kind: Literal["demo"]


class More(Wish):
    """A run goes on; with minutes it gets so many more."""

    kind: Literal["more"]
    run: Id
    minutes: Minutes | None = None


class Explain(Wish):
    """The page of a run's explainer."""

    kind: Literal["explain"]
    run: Id


class Export(Wish):
    """A run for other programs."""

    kind: Literal["export"]
    run: Id
    to: Literal["hf", "gguf", "onnx", "torch"]
    network_only: bool = False


class Tune(Wish):
    """A run that learns from what was judged."""

    kind: Literal["tune"]
    run: Id


class Start(RootModel[Annotated[Train | Demo | More | Explain | Export | Tune, Field(discriminator="kind")]]):
    """A command."""


class Stop(Wish):
    """A command shall save and end."""

    job: str = Field(min_length=1, max_length=20)


class OfModel(Wish):
    """RUN or RUN@STEP."""

    model: Id


class Write(Sampled):
    """A text; how tokens are chosen as `octavo serve` has it."""

    prompt: Annotated[str, Field(max_length=2**19)] | Ids
    tokens: int = Field(200, ge=0, le=4000)
    best: int = Field(12, ge=0, le=40)
    """Of the tokens that might have come, so many are told."""


class Next(Sampled):
    """What comes next."""

    prompt: Annotated[str, Field(max_length=2**19)] | Ids


class Translate(Wish):
    """A sentence."""

    model: Id
    source: str = Field(max_length=4000)


Said = Annotated[str, Field(max_length=2**17)]


class Turn(Wish):
    """Of a conversation."""

    role: Literal["system", "user", "assistant"]
    content: Said


class Judged(Wish):
    """A choice between two texts, or a thumb for one; `good` without a value takes a thumb back."""

    kind: Literal["choice", "thumb"]
    model: Id
    prompt: Said | Annotated[list[Turn], Field(max_length=200)]
    chosen: Said | None = None
    rejected: Said | None = None
    answer: Said | None = None
    good: bool | None = None
    other: Id | None = None
    """The model of the rejected text, where it is another one."""

    @model_validator(mode="after")
    def _whole(self) -> Self:
        wanted = (self.chosen, self.rejected) if self.kind == "choice" else (self.answer,)
        if None in wanted:
            raise ValueError("a choice has chosen and rejected, a thumb an answer")
        return self
