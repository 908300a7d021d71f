"""What requests and answers look like: one definition for checking, for the OpenAPI document, and for tests.

Numbers and texts are bounded here, before anything is computed. Fields that are not known have no effect, and the
answer lists them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AliasChoices,
    BaseModel,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    model_validator,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, core_schema

MOST_PROMPTS = 64
MOST_CHOICES = 64
MOST_TOKENS = 100_000
MOST_STOPS = 16
LONGEST_STOP = 256
MOST_BEST = 100
MOST_BIASES = 2000
MOST_MESSAGES = 1000
MOST_SOURCES = 64
MOST_PATHS = 1000
MOST_STEPS = 10_000
MOST_ID = 2**31 - 1

Seed = Annotated[int, Field(ge=0, lt=2**64)]
Stop = Annotated[str, Field(max_length=LONGEST_STOP)]
Stops = Annotated[list[Stop], Field(max_length=MOST_STOPS)]
Bias = Annotated[dict[str, Annotated[float, Field(ge=-100, le=100)]], Field(max_length=MOST_BIASES)]
Id = Annotated[int, Field(ge=0, le=MOST_ID)]
Ids = Annotated[list[Id], Field(max_length=1_000_000)]
PROMPTS = Field(json_schema_extra={"maxItems": MOST_PROMPTS})
"""Of a list whose length is looked at when all is read, for a better sentence."""
NOTHING = (None, "", [], {}, False)
"""What clients send in fields that they do not use."""


@dataclass(frozen=True)
class Unsupported:
    """Of a field that would change what the answer is, and so must be empty: it is not passed over."""

    why: str

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(self._empty)

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        return {"enum": [*NOTHING], "description": f"Is refused: {self.why}."}

    def _empty(self, value: object) -> None:
        if not any(value == one and type(value) is type(one) for one in NOTHING):
            raise ValueError(f"this is not supported: {self.why}")


class Asked(BaseModel):
    """Base of all requests: no conversions, no NaN."""

    model_config = ConfigDict(strict=True, extra="allow", allow_inf_nan=False)

    model: str | None = Field(None, max_length=500)
    """RUN or RUN@STEP, as /v1/models lists them; without it the only run, where there is one."""
    user: str | None = Field(None, max_length=1000)
    """Has no effect."""

    @property
    def ignored(self) -> list[str]:
        """Fields that are not known."""
        return sorted(self.model_extra or {})[:20]


class StreamOptions(BaseModel):
    """What a stream has besides its text."""

    model_config = ConfigDict(strict=True, extra="ignore")

    include_usage: bool = False
    """A last chunk with the usage and without choices."""


class Chosen(Asked):
    """How tokens are chosen; what is not given, the run's recipe says."""

    temperature: float | None = Field(None, ge=0, le=100)
    """Below 1 safer, above 1 wilder, 0 greedy."""
    top_p: float | None = Field(None, gt=0, le=1)
    """Only the most probable tokens that together hold this probability."""
    top_k: int | None = Field(None, ge=-1, le=MOST_ID)
    """Only the k most probable tokens; 0 and -1: all."""
    min_p: float | None = Field(None, ge=0, le=1)
    """Only tokens with at least this share of the best one's probability."""
    presence_penalty: float = Field(0.0, ge=-2, le=2)
    """Is taken from the logits of tokens that the answer has."""
    frequency_penalty: float = Field(0.0, ge=-2, le=2)
    """The same as often as the answer has them."""
    ignore_eos: bool = False
    """Whether a text never ends by itself: its end is never chosen."""
    stop: Stop | Stops | None = None
    """Texts to end before."""
    stream: bool = False
    """Whether the answer comes in pieces, as server-sent events."""
    grammar: Annotated[None, Unsupported("texts here follow no grammar")] = None
    json_schema: Annotated[None, Unsupported("texts here follow no grammar")] = None

    @property
    def stops(self) -> list[str]:
        """As a list."""
        return [self.stop] if isinstance(self.stop, str) else list(self.stop or ())

    @property
    def penalty(self) -> float | None:
        """For what was said already."""
        return None


class Sampled(Chosen):
    """What both endpoints of OpenAI's take."""

    repetition_penalty: float | None = Field(None, gt=0, le=100)
    """Above 1, what was said becomes rarer."""
    logit_bias: Bias | None = None
    """By id: is added to a token's logit."""
    seed: Seed | None = None
    """The same one writes the same text; without it one is drawn. The answer says which."""
    n: int = Field(1, ge=1, le=MOST_CHOICES)
    """Texts for each prompt."""
    stream_options: StreamOptions | None = None
    probabilities: Literal["full"] | None = None
    """"full": the log-probabilities of the whole vocabulary, for prompt and answer; float32 in base64."""
    attribution: bool = False
    """Per token how much came from counting and how much from the network, of a run with `model.counts`."""
    truncate: bool = False
    """Cut a prompt that is longer than the context: a text to its end, a conversation to its latest turns."""

    @property
    def penalty(self) -> float | None:
        """For what was said already."""
        return self.repetition_penalty


class CompletionRequest(Sampled):
    """What /v1/completions takes."""

    prompt: str | Annotated[list[str], PROMPTS] | Ids | Annotated[list[Ids], PROMPTS] = Field("")
    """A text or its ids, or several of them."""
    max_tokens: int | None = Field(None, ge=0, le=MOST_TOKENS)
    """At most; default: the recipe's. 0 goes with `echo`."""
    best_of: int | None = Field(None, ge=1, le=MOST_CHOICES)
    """Write so many, and give the `n` most probable (per token)."""
    echo: bool = False
    """Whether the prompt stands before the answer, with its log-probabilities where these are asked for."""
    logprobs: int | None = Field(None, ge=0, le=MOST_BEST)
    """Log-probabilities of the tokens, and so many of the most probable ones at each place."""
    suffix: Annotated[None, Unsupported("models here write from left to right")] = None

    @model_validator(mode="after")
    def _together(self) -> Self:
        if self.best_of is not None and self.best_of < self.n:
            raise ValueError("best_of must be at least n")
        if self.best_of is not None and self.best_of > self.n and self.stream:
            raise ValueError("best_of does not go with stream: which texts are the best is known at the end")
        if self.max_tokens == 0 and not self.echo:
            raise ValueError("max_tokens=0 goes with echo")
        if len(self.prompts) > MOST_PROMPTS:
            raise ValueError(f"at most {MOST_PROMPTS} prompts")
        return self

    @property
    def prompts(self) -> list[str | list[int]]:
        """Each by itself."""
        if isinstance(self.prompt, str):
            return [self.prompt]
        if self.prompt and isinstance(self.prompt[0], int):
            return [self.prompt]
        return list(self.prompt)  # pyrefly: ignore


class TextPart(BaseModel):
    """A part of a message that is text."""

    model_config = ConfigDict(strict=True, extra="forbid")

    type: Literal["text"]
    text: str


class ChatMessage(BaseModel):
    """A turn of a conversation."""

    model_config = ConfigDict(strict=True, extra="ignore")

    role: Literal["system", "developer", "user", "assistant"]
    content: str | Annotated[list[TextPart], Field(max_length=1000)]

    @property
    def text(self) -> str:
        """Its parts as one."""
        return self.content if isinstance(self.content, str) else "".join(part.text for part in self.content)


class ResponseFormat(BaseModel):
    """The form of an answer."""

    model_config = ConfigDict(strict=True, extra="ignore")

    type: Literal["text"] = "text"


class ChatRequest(Sampled):
    """What /v1/chat/completions takes."""

    messages: list[ChatMessage] = Field(min_length=1, max_length=MOST_MESSAGES)
    max_tokens: int | None = Field(None, ge=1, le=MOST_TOKENS)
    """At most; default: the recipe's."""
    max_completion_tokens: int | None = Field(None, ge=1, le=MOST_TOKENS)
    """The same by its newer name."""
    logprobs: bool | None = None
    """Whether the answer has the log-probabilities of its tokens."""
    top_logprobs: int | None = Field(None, ge=0, le=MOST_BEST)
    """So many of the most probable tokens at each place; goes with `logprobs`."""
    response_format: ResponseFormat | None = None
    modalities: Annotated[list[Literal["text"]], Field(max_length=1)] | None = None
    audio: Annotated[None, Unsupported("models here write text")] = None
    tools: Annotated[None, Unsupported("models here call nothing")] = None
    functions: Annotated[None, Unsupported("models here call nothing")] = None
    web_search_options: Annotated[None, Unsupported("models here call nothing")] = None

    @model_validator(mode="after")
    def _together(self) -> Self:
        if self.top_logprobs is not None and not self.logprobs:
            raise ValueError("top_logprobs goes with logprobs=true")
        return self


class TokenizeRequest(Asked):
    """What /tokenize takes, by llama.cpp's names or by vLLM's."""

    content: str | None = None
    """A text."""
    prompt: str | None = None
    """The same; where it is nothing but a special token's name, that token is meant."""
    add_special: bool = Field(False, validation_alias=AliasChoices("add_special", "add_special_tokens"))
    """Whether the document's start stands first, as in a prompt."""
    with_pieces: bool = False
    """Whether each token's text is given, too."""

    @model_validator(mode="after")
    def _together(self) -> Self:
        if (self.content is None) == (self.prompt is None):
            raise ValueError("give content or prompt, one of them")
        return self


class DetokenizeRequest(Asked):
    """What /detokenize takes."""

    tokens: Ids


class TranslateRequest(Asked):
    """What /v1/translate takes, of a run that learned from pairs."""

    source: str | Annotated[list[str], Field(max_length=MOST_SOURCES)]
    """A sentence, or several."""
    beams: int = Field(5, ge=1, le=64)
    """Hypotheses that are followed at the same time; 1 is greedy."""
    length_penalty: float = Field(0.6, ge=0, le=10)
    """0 favours short translations."""
    best: int = Field(1, ge=1, le=64)
    """So many translations of each source, with their scores."""

    @model_validator(mode="after")
    def _together(self) -> Self:
        if self.best > self.beams:
            raise ValueError("best must be at most beams")
        return self


class ForecastRequest(Asked):
    """What /v1/forecast takes, of a run that learned from series of numbers."""

    table: str = Field(min_length=1)
    """A table with the columns that the run learned from. Rows at its end without channels are those to come."""
    name: str = Field("table.csv", pattern=r"^\w[\w.-]{0,99}$")
    """Its file's name, for runs that learned something from names."""
    steps: int | None = Field(None, ge=1, le=MOST_STEPS)
    """Rows to forecast; default: those at the table's end that have no channels."""
    samples: int = Field(200, ge=2, le=MOST_PATHS)
    """Paths that are drawn."""
    seed: Seed | None = None
    paths: bool = False
    """Whether the answer has the paths themselves, not their quantiles alone."""


# Answers


class Answer(BaseModel):
    """Base of all answers."""

    model_config = ConfigDict(strict=True, extra="forbid")


class Fault(Answer):
    """What went wrong."""

    message: str
    type: str
    param: str | None
    code: str | None


class ErrorAnswer(Answer):
    """Of every status that is not 2xx."""

    error: Fault


class PromptDetails(Answer):
    """How prompts were read."""

    cached_tokens: int
    """Ids that another text had read."""


class Usage(Answer):
    """Tokens that were read and written."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    prompt_tokens_details: PromptDetails


class FullProbabilities(Answer):
    """Log-probabilities (tokens, vocabulary) as little-endian float32 in base64; of a text's first token there are
    none."""

    dtype: Literal["float32"]
    shape: tuple[int, int]
    data: str


class Share(Answer):
    """Who predicted a token."""

    token: int
    network: float
    """The network's weight in the mixture; the rest is counting's."""
    network_logprob: float
    counts_logprob: float


class Floor(Answer):
    """How far an answer is from what no model can beat."""

    nats_per_token: float
    """The source's own entropy."""
    answer: float
    """Minus the mean log-probability of the answer's tokens."""
    distance: float


class ChoiceDetails(Answer):
    """What only Octavo says of a text."""

    ids: list[int]
    finish: str
    end_logprob: float | None = None
    """Of the token that ended the document, which is in no text."""
    prompt_ids: list[int] | None = None
    probabilities: FullProbabilities | None = None
    prompt_probabilities: FullProbabilities | None = None
    attribution: list[Share] | None = None
    floor: Floor | None = None


class Details(Answer):
    """What only Octavo says of an answer."""

    seed: int
    template: Literal["chat", "plain"] | None = None
    """Of a conversation; plain: the model was not tuned for one, and goes on from the messages' text."""
    ignored: list[str] | None = None
    """Fields that have no effect."""
    truncated: int | None = None
    """Ids of the prompt, or messages, that were left out."""
    notice: str | None = None


class CompletionLogprobs(Answer):
    """Of each token; the tokens together are the text."""

    tokens: list[str]
    token_logprobs: list[float | None]
    top_logprobs: list[dict[str, float] | None]
    text_offset: list[int]


class CompletionChoice(Answer):
    """A text."""

    index: int
    text: str
    logprobs: CompletionLogprobs | None
    finish_reason: Literal["stop", "length"] | None
    octavo: ChoiceDetails | None = None


class Completion(Answer):
    """What /v1/completions answers, and each chunk of its stream."""

    id: str
    object: Literal["text_completion"]
    created: int
    model: str
    system_fingerprint: str
    choices: list[CompletionChoice]
    usage: Usage | None = None
    octavo: Details | None = None


class TopLogprob(Answer):
    """A token that might have come."""

    token: str
    logprob: float
    bytes: list[int]


class TokenLogprob(TopLogprob):
    """A token that came."""

    top_logprobs: list[TopLogprob]


class ChatLogprobs(Answer):
    """Of each token of an answer."""

    content: list[TokenLogprob]
    refusal: None = None


class AnswerMessage(Answer):
    """The assistant's turn."""

    role: Literal["assistant"]
    content: str
    refusal: None = None


class Delta(Answer):
    """A piece of it."""

    role: Literal["assistant"] | None = None
    content: str | None = None


class ChatChoice(Answer):
    """An answer."""

    index: int
    message: AnswerMessage
    logprobs: ChatLogprobs | None
    finish_reason: Literal["stop", "length"]
    octavo: ChoiceDetails | None = None


class ChunkChoice(Answer):
    """A piece of an answer."""

    index: int
    delta: Delta
    logprobs: ChatLogprobs | None
    finish_reason: Literal["stop", "length"] | None
    octavo: ChoiceDetails | None = None


class ChatCompletion(Answer):
    """What /v1/chat/completions answers."""

    id: str
    object: Literal["chat.completion"]
    created: int
    model: str
    system_fingerprint: str
    choices: list[ChatChoice]
    usage: Usage
    octavo: Details | None = None


class ChatChunk(Answer):
    """Each chunk of its stream."""

    id: str
    object: Literal["chat.completion.chunk"]
    created: int
    model: str
    system_fingerprint: str
    choices: list[ChunkChoice]
    usage: Usage | None = None
    octavo: Details | None = None


class ModelDetails(Answer):
    """What only Octavo says of a model."""

    task: str
    step: int | None
    steps: list[int]
    """RUN@STEP for each is there, too."""
    loaded: bool
    finished: bool
    description: str
    notice: str | None = None


class ModelCard(Answer):
    """A model."""

    id: str
    object: Literal["model"]
    created: int
    owned_by: Literal["octavo"]
    octavo: ModelDetails


class ModelList(Answer):
    """What /v1/models answers."""

    object: Literal["list"]
    data: list[ModelCard]


class Piece(Answer):
    """A token by itself."""

    id: int
    piece: str


class Tokens(Answer):
    """What /tokenize answers."""

    tokens: list[int] | list[Piece]
    count: int
    max_model_len: int
    """Tokens that the model sees."""


class Content(Answer):
    """What /detokenize answers, by both names."""

    content: str
    prompt: str


class TokenizerInfo(Answer):
    """What /tokenizer_info answers: names of special tokens, and the template of conversations as Jinja."""

    tokenizer_class: str
    bos_token: str | None
    eos_token: str | None
    pad_token: None = None
    chat_template: str | None


class Health(Answer):
    """What /health answers."""

    status: Literal["ok", "stopping"]


class Translated(Answer):
    """A translation."""

    text: str
    score: float
    log_probability: float
    tokens: int


class TranslationChoice(Answer):
    """The translations of a source, the best one first; or why there are none."""

    index: int
    translations: list[Translated]
    skipped: str | None = None


class TranslateAnswer(Answer):
    """What /v1/translate answers."""

    id: str
    object: Literal["translation"]
    created: int
    model: str
    system_fingerprint: str
    choices: list[TranslationChoice]


class Channel(Answer):
    """Of each step to come."""

    quantiles: dict[str, list[float | None]]
    paths: list[list[float | None]] | None = None


class Series(Answer):
    """A series."""

    channels: dict[str, Channel]


class ForecastAnswer(Answer):
    """What /v1/forecast answers."""

    id: str
    object: Literal["forecast"]
    created: int
    model: str
    system_fingerprint: str
    seed: int
    series: list[Series]
