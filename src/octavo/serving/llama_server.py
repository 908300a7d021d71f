"""What programs that know llama.cpp's server ask for: its own /completion, and what it says of models and slots."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping
from typing import Any

from octavo import __version__
from octavo.generation.streams import Finish
from octavo.serving.answers import Choice, choices_of, finite, told
from octavo.serving.call import Call
from octavo.serving.engine_thread import Ticket
from octavo.serving.errors import wrong
from octavo.serving.jobs import (
    Plan,
    Prompt,
    encoded,
    planned,
    read_chat,
    read_prompt,
    template_of,
)
from octavo.serving.llama_server_schemas import (
    BiasUsed,
    DefaultParameters,
    DefaultSettings,
    GenerationSettings,
    IdProbabilities,
    IdProbability,
    InputTokens,
    LlamaAnswer,
    LlamaChunk,
    LlamaRequest,
    OnePrompt,
    PromptObject,
    Props,
    Rendered,
    SlotState,
    StopType,
    TemplateRequest,
    Timings,
)
from octavo.serving.models import Served
from octavo.serving.scheduler import Job
from octavo.serving.schemas import MOST_TOKENS, Details
from octavo.serving.service import Service, refuse_no_text, spelling_of
from octavo.tokenizers.chat import has_chat
from octavo.util.records import json_text

STOPS: Mapping[Finish, StopType] = {"end": "eos", "length": "limit", "stop": "word", "stuck": "word"}
"""How a text ended, in llama.cpp's words."""


class LlamaServer:
    """The endpoints."""

    def __init__(self, service: Service) -> None:
        self.service = service

    async def completion(self, call: Call) -> None:
        """Go on from prompts."""
        asked = await call.asked(LlamaRequest)
        async with self.service.attending(call, asked) as served:
            refuse_no_text(served)
            plan = await asyncio.to_thread(completion_plan, asked, served, call)
            choices = choices_of(plan, spelling_of(served), echo=False)
            async with self.service.writing(served, plan.jobs, pieced=True) as ticket:  # for its timings
                if asked.stream:
                    await self._stream(call, asked, served, plan, ticket, choices)
                    return
                await ticket.end()
                answers = [answer(asked, served, plan, ticket, choice) for choice in choices]
                data = [one.model_dump(exclude_unset=True) for one in answers]
                await call.answer(data if asked.several or asked.n_cmpl > 1 else data[0])

    async def _stream(
        self,
        call: Call,
        asked: LlamaRequest,
        served: Served,
        plan: Plan,
        ticket: Ticket,
        choices: list[Choice],
    ) -> None:
        await call.begin_stream()
        while pieces := await ticket.pieces():
            lines: list[dict[str, Any]] = []
            for place, text, tokens in pieces:
                choice = choices[place]
                sample = choice.job.stream.sample
                ids = sample.ids[choice.tokens : tokens]
                ended = sample.finish is not None and tokens >= len(sample.ids)
                scored = choice.scored(len(ids), len(text), ended=ended)
                if ids:
                    lines.append(chunk(asked, choice, text, ids, scored).model_dump(exclude_none=True))
                if ended:
                    last = answer(asked, served, plan, ticket, choice, streamed=True)
                    lines.append(last.model_dump(exclude_unset=True))
            await call.events([json_text(line, ensure_ascii=False) for line in lines])
        await call.end_stream()

    async def props(self, call: Call) -> None:
        """What a model is, and what a request leaves open."""
        async with self.service.models.using(call.query("model")) as served:
            refuse_no_text(served)
            assert served.scheduler is not None
            tokenizer, settings = served.run.tokenizer, served.run.config.sampling
            name = spelling_of(served).name
            props = Props(
                default_generation_settings=DefaultSettings(
                    n_ctx=served.run.model.context,
                    params=DefaultParameters(
                        n_predict=settings.tokens,
                        temperature=settings.temperature,
                        top_k=settings.top_k or 0,
                        top_p=settings.top_p or 1.0,
                        min_p=settings.min_p or 0.0,
                        repeat_penalty=settings.repetition_penalty,
                    ),
                ),
                total_slots=served.scheduler.decoder.slots,
                model_alias=served.name,
                chat_template=template_of(tokenizer),
                bos_token=name(tokenizer.start) or "",
                eos_token=name(tokenizer.end) or "",
                build_info=f"octavo-{__version__}",
            )
            await call.answer(props.model_dump())

    async def slots(self, call: Call) -> None:
        """The slots of loaded models."""
        wanted = call.query("model")
        await call.answer(
            [
                SlotState(
                    id=id, model=served.name, n_ctx=served.run.model.context, is_processing=busy
                ).model_dump()
                for served in self.service.models.loaded.values()
                if served.scheduler is not None and wanted in (None, served.name)
                for id, busy in enumerate(served.scheduler.busy)
            ]
        )

    async def apply_template(self, call: Call) -> None:
        """A conversation as the model reads it."""
        asked = await call.asked(TemplateRequest)
        async with self.service.attending(call, asked) as served:
            prompt = await asyncio.to_thread(conversation, asked, served)
            text = served.run.tokenizer.decode_with_names(prompt.ids[prompt.implicit :])
            await call.answer(Rendered(prompt=text).model_dump())

    async def input_tokens(self, call: Call) -> None:
        """How long a conversation is."""
        asked = await call.asked(TemplateRequest)
        async with self.service.attending(call, asked) as served:
            prompt = await asyncio.to_thread(conversation, asked, served)
            await call.answer(InputTokens(input_tokens=len(prompt.ids)).model_dump())


def conversation(asked: TemplateRequest, served: Served) -> Prompt:
    """A conversation as ids. Raises Refusal."""
    refuse_no_text(served)
    prompt = read_chat(asked.messages, served, truncate=False)
    opened = has_chat(served.run.tokenizer)
    return prompt if asked.add_generation_prompt or not opened else Prompt(prompt.ids[:-1], prompt.implicit)


def completion_plan(asked: LlamaRequest, served: Served, owner: object) -> Plan:
    """The texts of a completion. Raises Refusal."""
    prompts = [read_prompt(whole(one, served), served, truncate=False) for one in asked.prompts]
    if not prompts:
        raise wrong("prompt is an empty list: give a text, or ids.", "prompt")
    most = served.run.config.sampling.tokens if asked.n_predict is None else asked.n_predict
    return planned(
        asked,
        served,
        owner,
        prompts,
        bias=biases(asked, served),
        seed=None if asked.seed < 0 else asked.seed,
        most=MOST_TOKENS if most < 0 else most,
        written=asked.n_cmpl,
        given=asked.n_cmpl,
        best=asked.n_probs or None,
    )


def whole(prompt: OnePrompt, served: Served) -> str | list[int]:
    """A prompt as one text, or as ids. Raises Refusal."""
    if isinstance(prompt, PromptObject):
        return prompt.prompt_string
    if isinstance(prompt, str):
        return prompt
    ids: list[int] = []
    for place, part in enumerate(prompt):
        ids += [part] if isinstance(part, int) else encoded(part, served, begins=place == 0)
    return ids


def biases(asked: LlamaRequest, served: Served) -> dict[str, float]:
    """What is added to logits, by id; texts as their tokens. Raises Refusal."""
    pairs = asked.logit_bias.items() if isinstance(asked.logit_bias, dict) else asked.logit_bias
    found: dict[str, float] = {}
    for key, value in pairs:
        number = isinstance(key, int) or (key.isascii() and key.isdecimal())
        for id in [key] if number else encoded(key, served, begins=False, param="logit_bias"):
            found[str(id)] = -100.0 if value is False else value
    return found


def chunk(
    asked: LlamaRequest, choice: Choice, piece: str, token: list[int], scored: list[tuple[str, int]]
) -> LlamaChunk:
    """A token of a stream."""
    return LlamaChunk(
        index=choice.index,
        content=piece,
        tokens=token,
        completion_probabilities=probabilities(choice, scored) if asked.n_probs else None,
    )


def answer(
    asked: LlamaRequest,
    served: Served,
    plan: Plan,
    ticket: Ticket,
    choice: Choice,
    *,
    streamed: bool = False,
) -> LlamaAnswer:
    """A whole text; `streamed`: the end of one whose pieces were given."""
    sample, tokenizer, read = choice.job.stream.sample, served.run.tokenizer, choice.prompt.ids
    found = LlamaAnswer(
        index=choice.index,
        content="" if streamed else sample.text,
        tokens=list(sample.ids) if asked.return_tokens and not streamed else [],
        stop=True,
        model=asked.model or served.name,
        tokens_predicted=len(sample.ids),
        tokens_evaluated=len(read),
        tokens_cached=choice.job.shared,
        generation_settings=settings(asked, plan, choice.job),
        prompt=tokenizer.decode_with_names(read),
        has_new_line="\n" in sample.text,
        truncated=len(read) + len(sample.ids) > served.run.model.context,
        stop_type=STOPS[sample.finish or "length"],
        timings=timings(ticket, choice.job),
        octavo=Details(seed=plan.seed),
    )
    if asked.n_probs and not streamed:
        scored = choice.scored(len(sample.ids), len(sample.text), ended=True)
        found.completion_probabilities = probabilities(choice, scored)
    if asked.ignored:
        found.octavo.ignored = asked.ignored
    if served.notice is not None:
        found.octavo.notice = served.notice
    return found


def probabilities(choice: Choice, scored: list[tuple[str, int]]) -> list[IdProbabilities]:
    """Of each token, with the most probable ones at its place."""
    scores, ids = choice.job.scores, choice.job.stream.sample.ids
    found = []
    for piece, place in scored:
        best = [
            IdProbability(id=id, **told(choice.spelling.alone(id), value))
            for id, value in zip(*scores.best[place], strict=True)
        ]
        own = told(piece, finite(scores.log_probabilities[place]) or 0.0)
        found.append(IdProbabilities(id=ids[place], top_logprobs=best, **own))
    return found


def settings(asked: LlamaRequest, plan: Plan, job: Job) -> GenerationSettings:
    """How a text's tokens were chosen."""
    sampling = job.sampling
    return GenerationSettings(
        n_predict=job.stream.tokens if job.writes else 0,
        seed=plan.seed,
        temperature=sampling.temperature,
        top_k=sampling.top_k or 0,
        top_p=sampling.top_p or 1.0,
        min_p=sampling.min_p or 0.0,
        repeat_penalty=sampling.repetition_penalty,
        presence_penalty=asked.presence_penalty,
        frequency_penalty=asked.frequency_penalty,
        stop=asked.stops,
        ignore_eos=asked.ignore_eos,
        logit_bias=[
            BiasUsed(token=token, bias=None if bias == -math.inf else bias)
            for token, bias in job.adjustment.bias.items()
        ],
        n_probs=asked.n_probs,
    )


def timings(ticket: Ticket, job: Job) -> Timings:
    """How long a text took."""
    first, last = ticket.tokens[job]
    read, written = len(job.prompt) - job.shared, len(job.stream.sample.ids)
    reading, writing = 1000 * (first - ticket.begun), 1000 * (last - first)
    steps = written - 1 if writing else 0
    return Timings(
        cache_n=job.shared,
        prompt_n=read,
        prompt_ms=reading,
        prompt_per_token_ms=reading / max(1, read),
        prompt_per_second=1000 * read / reading,
        predicted_n=written,
        predicted_ms=writing,
        predicted_per_token_ms=writing / max(1, steps) if steps else 0.0,
        predicted_per_second=1000 * steps / writing if steps else 0.0,
    )
