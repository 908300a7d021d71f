"""Playing with a model: texts that are written token by token with what else might have come, the whole distribution of
what comes next, translations with where the model looks, and choices between texts."""

from __future__ import annotations

import asyncio
import base64
import secrets
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from octavo.browser.asked import Judged, Next, OfModel, Translate, Write
from octavo.browser.judgements import Judgements
from octavo.browser.windows import Windows
from octavo.generation import Sample
from octavo.generation.streams import Stream
from octavo.serving.answers import Pieces, finite, prompt_pieces
from octavo.serving.attribution import counts_of, shares
from octavo.serving.call import Call
from octavo.serving.engine_thread import Ticket
from octavo.serving.errors import wrong
from octavo.serving.jobs import Prompt, read_prompt, sampling_for
from octavo.serving.models import Served
from octavo.serving.scheduler import Job, Scores
from octavo.serving.service import Service, spelling_of
from octavo.tokenizers.chat import has_chat

NAMED = 400
"""Of the tokens that may come next, the most probable ones, whose texts are told."""
GAP = 0.02
"""Seconds between two events of a text, at least."""
DIGITS = 4


class Playing:
    """The endpoints."""

    def __init__(self, service: Service, windows: Windows, judgements: Judgements) -> None:
        self.service, self.windows, self.judgements = service, windows, judgements

    async def model(self, call: Call) -> None:
        """What a model is, once it is loaded."""
        asked = await call.asked(OfModel)
        async with self._using(call, asked.model) as served:
            run = served.run
            sampling = run.config.sampling
            await call.answer(
                {
                    "task": served.task,
                    "step": run.step,
                    "writes": served.scheduler is not None,
                    "chats": has_chat(run.tokenizer) if served.task != "forecast" else False,
                    "counts": counts_of(run.model) is not None,
                    "context": run.model.context,
                    "vocabulary": run.tokenizer.vocab_size if served.task != "forecast" else None,
                    "parameters": sum(weights.numel() for weights in run.model.parameters()),
                    "sampling": sampling.model_dump(include={"temperature", "top_k", "top_p", "min_p"}),
                    "prompts": [
                        prompt for prompt in getattr(sampling, "prompts", ()) if isinstance(prompt, str)
                    ][:8],
                    "notice": served.notice,
                }
            )

    async def write(self, call: Call) -> None:
        """A text, token by token: the prompt's tokens first, then what is written, at the end who predicted each."""
        asked = await call.asked(Write)
        async with self._using(call, asked.model) as served:
            refuse_no_text(served)
            prompt = await asyncio.to_thread(read_prompt, asked.prompt, served, truncate=True)
            seed = secrets.randbits(32) if asked.seed is None else asked.seed
            job = self._job(asked, served, prompt, seed, call)
            async with self.service.writing(served, [job], pieced=True) as ticket:
                await call.begin_stream()
                await self._stream(call, served, prompt, job, ticket)
            told: dict[str, Any] = {"end": job.stream.sample.finish, "seed": seed, "notice": served.notice}
            if counts_of(served.run.model) is not None:
                ids, first = [*prompt.ids, *job.stream.sample.ids], max(1, prompt.implicit)
                rows = await self.service.worker.call(lambda: shares(served.run.model, ids, first))
                told["shares"] = [
                    [round(row[key], DIGITS) for key in ("network", "network_logprob", "counts_logprob")]
                    for row in rows
                ]
                told["first"] = first
            await call.event(told)
            await call.end_stream()

    async def next(self, call: Call) -> None:
        """Log-probabilities of all tokens that may come next, as float32 in base64, and the texts of the likeliest."""
        asked = await call.asked(Next)
        async with self._using(call, asked.model) as served:
            refuse_no_text(served)
            prompt = await asyncio.to_thread(read_prompt, asked.prompt, served, truncate=True)
            stream = Stream(served.run.tokenizer, prompt.ids, Sample(0), seed=0, tokens=1, stop=())
            job = Job(stream, sampling_for(asked, served), owner=call, whole=True)
            async with self.service.writing(served, [job], pieced=False) as ticket:
                await ticket.end()
            logs, spelling = job.scores.whole[0], spelling_of(served)
            best = np.argsort(-logs, kind="stable")[:NAMED].tolist()
            await call.answer(
                {
                    "logs": base64.b64encode(logs.astype("<f4").tobytes()).decode("ascii"),
                    "names": [[id, spelling.alone(id)] for id in best],
                }
            )

    async def translate(self, call: Call) -> None:
        """A translation, others, and where the model looked in the source for each token."""
        asked = await call.asked(Translate)
        async with self._using(call, asked.model) as served:
            if served.task != "translation":
                raise wrong(f"This model is no translator: its task is {served.task}.", "model")
            await call.answer(await self.service.set_aside(lambda: translated(served, asked.source)))

    async def judge(self, call: Call) -> None:
        """Keep a choice between two texts, or a thumb."""
        asked = await call.asked(Judged)
        found = await asyncio.to_thread(self.judgements.keep, asked)
        await call.answer(found)

    async def judged(self, call: Call) -> None:
        """How many choices there are of a run."""
        asked = await call.asked(OfModel)
        await call.answer(await asyncio.to_thread(self.judgements.of, asked.model.partition("@")[0]))

    @asynccontextmanager
    async def _using(self, call: Call, name: str | None) -> AsyncIterator[Served]:
        if name is not None:
            await self.windows.run(name.partition("@")[0])
        async with call.attended(self.service.limits.seconds), self.service.models.using(name) as served:
            yield served

    def _job(self, asked: Write, served: Served, prompt: Prompt, seed: int, owner: object) -> Job:
        most = max(1, asked.tokens)
        stream = Stream(served.run.tokenizer, prompt.ids, Sample(0), seed=seed, tokens=most, stop=())
        return Job(
            stream,
            sampling_for(asked, served),
            owner=owner,
            best=asked.best,
            with_prompt=True,
            writes=asked.tokens > 0,
        )

    async def _stream(self, call: Call, served: Served, prompt: Prompt, job: Job, ticket: Ticket) -> None:
        """The prompt's tokens in the first event, and those that are written as they come."""
        spelling, sample = spelling_of(served), job.stream.sample
        pieces = Pieces(served.run.tokenizer, prompt.ids)
        count = given = length = 0
        sent = 0.0
        while some := await ticket.pieces():
            before, count = count, some[-1].tokens
            length += sum(len(piece.text) for piece in some)
            ended = sample.finish is not None and count >= len(sample.ids)
            rows: list[Any] = []
            if not given and not sent:
                texts = ["" for _ in range(prompt.implicit)] + prompt_pieces(served.run.tokenizer, prompt)
                rows = [
                    row(spelling.alone, place, text, prompt.ids, job.prompt_scores)
                    for place, text in enumerate(texts)
                ]
                await call.event({"prompt": rows, "implicit": prompt.implicit, "cut": prompt.cut})
            taken = pieces.take(sample.ids[before:count], length, ended=ended)
            rows = [
                row(spelling.alone, given + place, text, sample.ids, job.scores)
                for place, text in enumerate(taken)
            ]
            given += len(taken)
            if rows:
                await call.event({"tokens": rows})
            if not ticket.ended and (wait := sent + GAP - time.monotonic()) > 0:
                await asyncio.sleep(wait)
            sent = time.monotonic()


def row(alone: Any, place: int, text: str, ids: Sequence[int], scores: Scores) -> list[Any]:
    """A token: its id, its text, its log-probability, and the most probable ones there with theirs."""
    known = place < len(scores.log_probabilities)
    value = finite(scores.log_probabilities[place]) if known else None
    best = scores.best[place] if known else ([], [])
    others = [
        [id, alone(id), round(float(finite(log) or 0.0), DIGITS)] for id, log in zip(*best, strict=True)
    ]
    return [ids[place], text, None if value is None else round(value, DIGITS), others]


def refuse_no_text(served: Served) -> None:
    """Raise Refusal for a model that goes on from no text."""
    if served.scheduler is None:
        raise wrong(f"This model goes on from no text: its task is {served.task}.", "model")


@dataclass(frozen=True)
class Translated:
    """Translations of a source, the best first, and of the best where the model looked: a row of weights over the
    source's tokens for each token of the target; None of a model without attention to a source apart."""

    translations: list[Any]
    source: list[str]
    target: list[str] | None = None
    weights: list[list[float]] | None = None


def translated(served: Served, source: str) -> Translated:
    """Translations of a source, the best first, and the attention of the best."""
    from octavo.tasks.translation.alignment import Attended
    from octavo.tasks.translation.beam import Search
    from octavo.tasks.translation.encoder_decoder import EncoderDecoder
    from octavo.tasks.translation.translator import Skipped

    if "translator" not in served.kept:
        served.kept["translator"] = served.run.translator()
    translator = served.kept["translator"]
    ids = translator.read(source, "The source")
    if isinstance(ids, Skipped):
        raise wrong(f"The sentence cannot be translated: {ids.why}.", "source")
    (found,) = translator.translate([ids], Search(5, 0.6))
    alone = spelling_of(served).alone
    told = Translated([one.as_dict() for one in found[:5]], [alone(int(id)) for id in ids])
    model = served.run.model
    if not found or not isinstance(model, EncoderDecoder):
        return told
    target = np.array([id for id in found[0].found.ids if id != translator.end], np.int64)
    if "attended" not in served.kept:
        ends = {"start": translator.start, "end": translator.end}
        served.kept["attended"] = Attended(model, served.run.config.model, **ends)
    weights = served.kept["attended"].weights(ids, target)[-1][: len(target)]
    return replace(
        told,
        target=[alone(int(id)) for id in target],
        weights=[[round(float(one), 3) for one in line] for line in weights],
    )
