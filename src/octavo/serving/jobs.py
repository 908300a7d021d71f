"""From requests to texts that are to be written: prompts as ids, ways of choosing, and what is kept of each token."""

from __future__ import annotations

import math
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from octavo.corpus.records.turns import Message
from octavo.errors import InputError, TokenizerError
from octavo.generation import Sample
from octavo.generation.sampling import Sampling, SamplingOptions, sampling_of
from octavo.generation.streams import Stream
from octavo.serving.errors import Refusal, wrong
from octavo.serving.models import Served
from octavo.serving.scheduler import Adjustment, Job
from octavo.serving.schemas import ChatMessage, ChatRequest, Chosen, CompletionRequest
from octavo.tokenizers import Tokenizer
from octavo.tokenizers.chat import ChatTemplate, has_chat, jinja

CHARACTERS = 64
"""Of a prompt for each position of the context; a longer one is not even tokenized."""
MOST_NUMBERS = 16 * 2**20
"""Probabilities in an answer."""
ROOM = 4
"""A quarter of the context is left for an answer, where a conversation is cut."""


@dataclass(frozen=True)
class Prompt:
    """What a model reads.

    Attributes:
        ids: with those that stand for no text of the request at their beginning.
        implicit: how many those are.
        cut: how many were left out: ids, or messages.
    """

    ids: list[int]
    implicit: int = 0
    cut: int = 0


@dataclass
class Plan:
    """The texts of a request, all of a prompt side by side."""

    prompts: list[Prompt]
    jobs: list[Job]
    seed: int
    choices: int
    """Texts for each prompt that are given, of those that are written."""

    @property
    def each(self) -> int:
        """Texts for each prompt that are written."""
        return len(self.jobs) // len(self.prompts)

    def prompt_of(self, place: int) -> Prompt:
        """That of a text."""
        return self.prompts[place // self.each]


def completion_plan(asked: CompletionRequest, served: Served, owner: object) -> Plan:
    """The texts of a completion. Raises Refusal."""
    prompts = [read_prompt(one, served, truncate=asked.truncate) for one in asked.prompts]
    if not prompts:
        raise wrong("prompt is an empty list: give a text, or ids.", "prompt")
    most = served.run.config.sampling.tokens if asked.max_tokens is None else asked.max_tokens
    return planned(
        asked,
        served,
        owner,
        prompts,
        bias=asked.logit_bias or {},
        seed=asked.seed,
        most=most,
        written=asked.best_of or asked.n,
        given=asked.n,
        best=asked.logprobs,
        whole=asked.probabilities == "full",
        with_prompt=asked.echo and asked.logprobs is not None,
    )


def chat_plan(asked: ChatRequest, served: Served, owner: object) -> Plan:
    """The answers to a conversation. Raises Refusal."""
    if asked.messages[-1].role == "assistant":
        raise wrong("The last message must be the user's: the model answers it.", "messages")
    if not any(one.text for one in asked.messages):
        raise wrong("All messages are empty: say something.", "messages")
    prompt = read_chat(asked.messages, served, truncate=asked.truncate)
    asked_most = asked.max_completion_tokens or asked.max_tokens
    most = served.run.config.sampling.tokens if asked_most is None else asked_most
    best = (asked.top_logprobs or 0) if asked.logprobs else None
    return planned(
        asked,
        served,
        owner,
        [prompt],
        bias=asked.logit_bias or {},
        seed=asked.seed,
        most=most,
        written=asked.n,
        given=asked.n,
        best=best,
        whole=asked.probabilities == "full",
    )


def planned(
    asked: Chosen,
    served: Served,
    owner: object,
    prompts: Sequence[Prompt],
    *,
    bias: Mapping[str, float],
    seed: int | None,
    most: int,
    written: int,
    given: int,
    best: int | None,
    whole: bool = False,
    with_prompt: bool = False,
) -> Plan:
    """A text for each prompt and number of it, at most `most` tokens long; of those `written` so many are `given`.
    Raises Refusal."""
    seed, vocabulary = secrets.randbits(32) if seed is None else seed, served.run.tokenizer.vocab_size
    if whole:
        numbers = vocabulary * sum(len(prompt.ids) + written * most for prompt in prompts)
        if numbers > MOST_NUMBERS:
            raise wrong(
                f"The answer would hold up to {numbers:,} probabilities; at most {MOST_NUMBERS:,} are given. "
                "Ask for fewer tokens.",
                "probabilities",
            )
    sampling = sampling_for(asked, served)
    adjustment = adjustment_for(asked, bias, served.run.tokenizer)
    jobs = [
        Job(
            Stream(
                served.run.tokenizer,
                prompt.ids,
                Sample(index),
                seed=seed,
                tokens=max(1, most),
                stop=asked.stops,
            ),
            sampling,
            owner=owner,
            adjustment=adjustment,
            best=best,
            whole=whole,
            with_prompt=(with_prompt or whole) and index == 0,
            writes=most > 0,
        )
        for prompt in prompts
        for index in range(written)
    ]
    return Plan(list(prompts), jobs, seed, given)


def sampling_for(asked: Chosen, served: Served) -> Sampling:
    """How tokens are chosen: as the request says, else as the recipe does. Raises Refusal."""
    everything = asked.top_k is not None and asked.top_k <= 0
    options = SamplingOptions(
        temperature=asked.temperature,
        top_k=None if everything else asked.top_k,
        top_p=asked.top_p,
        min_p=asked.min_p or None,
        repetition_penalty=asked.penalty,
    )
    try:
        sampling = sampling_of(served.run.config.sampling, options)
    except InputError as error:
        raise wrong(error.what) from error
    sampling = replace(sampling, top_k=None) if everything else sampling
    return replace(sampling, min_p=None) if asked.min_p == 0 else sampling


def adjustment_for(asked: Chosen, bias: Mapping[str, float], tokenizer: Tokenizer) -> Adjustment:
    """Biases and penalties. Raises Refusal for ids that there are not."""
    found: dict[int, float] = {}
    for name, value in bias.items():
        if not (name.isascii() and name.isdecimal() and len(name) <= 10 and int(name) < tokenizer.vocab_size):
            raise wrong(
                f"logit_bias names a token that is not there; ids are 0 to {tokenizer.vocab_size - 1}.",
                "logit_bias",
            )
        found[int(name)] = value
    if asked.ignore_eos:
        found |= dict.fromkeys(tokenizer.ends, -math.inf)
    return Adjustment(found, asked.presence_penalty, asked.frequency_penalty)


def read_prompt(prompt: str | list[int], served: Served, *, truncate: bool) -> Prompt:
    """A prompt as ids, at most as many as the context holds. Raises Refusal."""
    context, cut = served.run.model.context, 0
    if isinstance(prompt, str):
        if len(prompt) > CHARACTERS * context:
            if not truncate:
                raise too_long(f"{len(prompt):,} characters", context)
            prompt = prompt[-CHARACTERS * context :]
        ids = encoded(prompt, served)
        implicit = len(ids) - len(served.run.tokenizer.encode(prompt))
    else:
        try:
            ids, implicit = served.engine.prompt_ids(prompt), 0
        except InputError as error:
            raise wrong(error.what, "prompt") from error
    if len(ids) > context:
        if not truncate:
            raise too_long(f"{len(ids):,} tokens", context)
        cut = len(ids) - context
        ids, implicit = ids[-context:], max(0, implicit - cut)
    return Prompt(ids, implicit, cut)


def encoded(text: str, served: Served, *, begins: bool = True, param: str = "prompt") -> list[int]:
    """Ids of a prompt, or of a part that does not begin one. Raises Refusal for what the vocabulary lacks."""
    try:
        return served.engine.prompt_ids(text) if begins else served.run.tokenizer.encode(text).tolist()
    except TokenizerError as error:
        raise wrong(error.what, param, code="not_in_vocabulary") from error


def too_long(what: str, context: int, param: str = "prompt") -> Refusal:
    """A prompt that the model cannot see."""
    return wrong(
        f"The {param} has {what}; this model sees {context:,} tokens. Shorten it, or ask for truncate=true.",
        param,
        code="context_length_exceeded",
    )


def template_of(tokenizer: Tokenizer) -> str:
    """How conversations are read, as Jinja."""
    return jinja() if has_chat(tokenizer) else "{{ messages | map(attribute='content') | join('\\n') }}"


def read_chat(messages: Sequence[ChatMessage], served: Served, *, truncate: bool) -> Prompt:
    """A conversation as ids, by the tokenizer's template; of a model without one the texts, a line each."""
    tokenizer, context = served.run.tokenizer, served.run.model.context
    if sum(len(one.text) for one in messages) > CHARACTERS * context and not truncate:
        raise too_long("too many characters", context, "messages")
    if not has_chat(tokenizer):
        return read_prompt("\n".join(one.text for one in messages), served, truncate=truncate)
    template = ChatTemplate(tokenizer)
    try:
        turns = [
            template.render(
                [Message("system" if one.role == "developer" else one.role, one.text)]
            ).ids.tolist()
            for one in messages
        ]
    except TokenizerError as error:
        raise wrong(error.what, "messages", code="not_in_vocabulary") from error
    opening = [template.openings["assistant"]]
    head = 1 if messages[0].role in ("system", "developer") else 0
    room, cut = context - context // ROOM, 0
    while (length := sum(map(len, turns)) + 1) > (room if truncate else context):
        if not truncate:
            raise too_long(f"{length:,} tokens", context, "messages")
        if head + 1 >= len(turns):
            raise too_long(
                f"a last message that leaves no room for an answer ({length:,} tokens)", context, "messages"
            )
        del turns[head]
        cut += 1
    return Prompt([id for turn in turns for id in turn] + opening, 0, cut)
