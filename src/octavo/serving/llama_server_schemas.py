"""What llama.cpp's own interface takes and gives, as far as there is such a thing here."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, RootModel, model_validator

from octavo.serving.schemas import (
    MOST_BEST,
    MOST_BIASES,
    MOST_CHOICES,
    MOST_MESSAGES,
    MOST_PROMPTS,
    MOST_TOKENS,
    PROMPTS,
    Answer,
    Asked,
    Bias,
    ChatMessage,
    Chosen,
    Details,
    Id,
    TopLogprob,
    Unsupported,
)


class PromptObject(BaseModel):
    """A prompt in an object."""

    model_config = ConfigDict(strict=True, extra="forbid")

    prompt_string: str


Mixed = Annotated[list[Id | str], Field(max_length=1_000_000)]
"""Ids and texts, one after the other."""
OnePrompt = str | PromptObject | Mixed
StopType = Literal["eos", "limit", "word"]
BiasedToken = tuple[
    Id | Annotated[str, Field(max_length=1000)], Annotated[float, Field(ge=-100, le=100)] | Literal[False]
]
Biases = Annotated[list[BiasedToken], Field(max_length=MOST_BIASES)]


class LlamaRequest(Chosen):
    """What /completion takes."""

    prompt: OnePrompt | Annotated[list[OnePrompt], PROMPTS] = ""
    """A text, its ids, both in one list; or several of these in a list."""
    n_predict: int | None = Field(None, ge=-1, le=MOST_TOKENS)
    """Tokens at most; default: the recipe's; -1: as many as there may be."""
    n_cmpl: int = Field(1, ge=1, le=MOST_CHOICES)
    """Texts for each prompt."""
    repeat_penalty: float | None = Field(None, gt=0, le=100)
    """Above 1, what was said becomes rarer."""
    logit_bias: Biases | Bias = Field(default_factory=list)
    """By id, or by a text for each of whose tokens it counts; false is -100."""
    seed: int = Field(-1, ge=-1, lt=2**64)
    """-1: one is drawn."""
    n_probs: int = Field(0, ge=0, le=MOST_BEST)
    """So many of the most probable tokens at each place, with their log-probabilities."""
    post_sampling_probs: Annotated[None, Unsupported("probabilities here are the model's own")] = None
    return_tokens: bool = False
    """Whether a whole answer has its ids; a stream always has them."""

    @model_validator(mode="after")
    def _together(self) -> Self:
        if len(self.prompts) > MOST_PROMPTS:
            raise ValueError(f"at most {MOST_PROMPTS} prompts")
        return self

    @property
    def penalty(self) -> float | None:
        """For what was said already."""
        return self.repeat_penalty

    @property
    def several(self) -> bool:
        """Whether the answer is a list."""
        return isinstance(self.prompt, list) and not any(isinstance(one, int) for one in self.prompt)

    @property
    def prompts(self) -> list[OnePrompt]:
        """Each by itself."""
        return list(self.prompt) if self.several else [self.prompt]  # pyrefly: ignore


class TemplateRequest(Asked):
    """What /apply-template takes, and /v1/chat/completions/input_tokens."""

    messages: list[ChatMessage] = Field(min_length=1, max_length=MOST_MESSAGES)
    add_generation_prompt: bool = True
    """Whether the assistant's turn is opened at the end."""


class BiasUsed(Answer):
    """What is added to a token's logit; null: it is never chosen."""

    token: int
    bias: float | None


class GenerationSettings(Answer):
    """How tokens were chosen."""

    n_predict: int
    seed: int
    temperature: float
    top_k: int
    """0: all."""
    top_p: float
    min_p: float
    repeat_penalty: float
    presence_penalty: float
    frequency_penalty: float
    stop: list[str]
    ignore_eos: bool
    logit_bias: list[BiasUsed]
    n_probs: int


class Timings(Answer):
    """How long it took; the first token comes from reading the prompt."""

    cache_n: int
    """Ids of the prompt that another text had read."""
    prompt_n: int
    """Ids that were read."""
    prompt_ms: float
    """From the request to the first token, so with the time in the queue."""
    prompt_per_token_ms: float
    prompt_per_second: float
    predicted_n: int
    predicted_ms: float
    """From the first token to the last."""
    predicted_per_token_ms: float
    predicted_per_second: float


class IdProbability(TopLogprob):
    """A token that might have come, with its id."""

    id: int


class IdProbabilities(IdProbability):
    """A token that came, with its id."""

    top_logprobs: list[IdProbability]


class LlamaChunk(Answer):
    """A piece of a stream: a token."""

    index: int
    content: str
    tokens: list[int]
    stop: Literal[False] = False
    completion_probabilities: list[IdProbabilities] | None = None


class LlamaAnswer(Answer):
    """A text, or the last event of a stream, which has the rest of it."""

    index: int
    content: str
    tokens: list[int]
    stop: Literal[True] = True
    completion_probabilities: list[IdProbabilities] | None = None
    model: str
    tokens_predicted: int
    tokens_evaluated: int
    """Of the prompt."""
    tokens_cached: int
    generation_settings: GenerationSettings
    prompt: str
    has_new_line: bool
    truncated: bool
    """Whether prompt and text are longer than what the model sees."""
    stop_type: StopType
    timings: Timings
    octavo: Details


class LlamaEvent(RootModel[LlamaChunk | LlamaAnswer]):
    """An event of a stream."""


class LlamaAnswers(RootModel[LlamaAnswer | list[LlamaAnswer]]):
    """A text, or several."""


class DefaultParameters(Answer):
    """As the run's recipe has them."""

    n_predict: int
    temperature: float
    top_k: int
    top_p: float
    min_p: float
    repeat_penalty: float


class DefaultSettings(Answer):
    """What a request leaves open."""

    n_ctx: int
    params: DefaultParameters


class Props(Answer):
    """What /props answers. No path is told."""

    default_generation_settings: DefaultSettings
    total_slots: int
    model_alias: str
    chat_template: str
    """As Jinja; of a model without one: the texts, a line each."""
    bos_token: str
    eos_token: str
    build_info: str


class SlotState(Answer):
    """A place for a text under way."""

    id: int
    model: str
    n_ctx: int
    is_processing: bool


class SlotStates(RootModel[list[SlotState]]):
    """All of them."""


class Rendered(Answer):
    """A conversation as the model reads it."""

    prompt: str


class InputTokens(Answer):
    """How many tokens a conversation has."""

    object: Literal["response.input_tokens"] = "response.input_tokens"
    input_tokens: int
