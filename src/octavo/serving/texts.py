"""Completions and conversations: from a request to its texts, whole or in pieces."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import Any

from octavo.serving.answers import Choice, choices_of, chosen, floor, usage
from octavo.serving.attribution import counts_of, shares
from octavo.serving.call import Call
from octavo.serving.engine_thread import Ticket
from octavo.serving.errors import wrong
from octavo.serving.jobs import Plan, chat_plan, completion_plan
from octavo.serving.models import Served
from octavo.serving.schemas import ChatRequest, CompletionRequest, Sampled
from octavo.serving.service import Service, head, refuse_no_text, spelling_of
from octavo.tokenizers.chat import has_chat
from octavo.util.records import json_text

GAP, CHUNKS = 0.01, 1000
"""Seconds between two chunks of a stream, at least; chunks a second of all streams together, at most. What is
written meanwhile goes together."""
INLINE = 4000
"""Bytes of a request whose texts are tokenized at once; of a longer one in a thread, so that others do not wait."""

Row = dict[str, Any]


class CompletionForm:
    """Choices as /v1/completions has them."""

    kinds = ("text_completion", "text_completion")
    prefix = "cmpl"

    def __init__(self, *, echo: bool) -> None:
        self.echo = echo

    def whole(self, choice: Choice, text: str, more: Row) -> Row:
        """A choice of an answer."""
        new = len(choice.job.stream.sample.ids)
        return self._choice(choice, text, new, ended=True, first=True) | {"octavo": more}

    def chunks(self, choice: Choice, text: str, new: int, *, first: bool, more: Row | None) -> list[Row]:
        """Choices of a stream: text, and at the end the reason alone, for some clients read no text beside it."""
        found = self._choice(choice, text, new, ended=more is not None, first=first) | {"finish_reason": None}
        rows = [found] if found["text"] or (found["logprobs"] or {}).get("tokens") else []
        if more is not None:
            last = self._choice(choice, "", 0, ended=True, first=False)
            rows.append(last | {"octavo": more})
        return rows

    @staticmethod
    def _choice(choice: Choice, text: str, new: int, *, ended: bool, first: bool) -> Row:
        scored = choice.scored(new, len(text), ended=ended)
        return {
            "index": choice.index,
            "text": ("".join(choice.echo) if first else "") + text,
            "logprobs": choice.completion_logprobs(scored, first=first),
            "finish_reason": choice.finish if ended else None,
        }


class ChatForm:
    """Choices as /v1/chat/completions has them."""

    kinds = ("chat.completion", "chat.completion.chunk")
    prefix = "chatcmpl"
    echo = False

    @staticmethod
    def whole(choice: Choice, text: str, more: Row) -> Row:
        """A choice of an answer."""
        scored = choice.scored(len(choice.job.stream.sample.ids), len(text), ended=True)
        return {
            "index": choice.index,
            "message": {"role": "assistant", "content": text, "refusal": None},
            "logprobs": choice.chat_logprobs(scored),
            "finish_reason": choice.finish,
            "octavo": more,
        }

    @staticmethod
    def chunks(choice: Choice, text: str, new: int, *, first: bool, more: Row | None) -> list[Row]:
        """Choices of a stream: the role first, then text, and at the end the reason alone."""

        def piece(delta: Row, logprobs: Row | None = None) -> Row:
            return {"index": choice.index, "delta": delta, "logprobs": logprobs, "finish_reason": None}

        scored = choice.scored(new, len(text), ended=more is not None)
        found = [piece({"role": "assistant", "content": None})] if first else []
        if text or scored:
            found.append(piece({"content": text}, choice.chat_logprobs(scored)))
        if more is not None:
            found.append(piece({}) | {"finish_reason": choice.finish, "octavo": more})
        return found


Form = CompletionForm | ChatForm


class Texts:
    """The two endpoints."""

    def __init__(self, service: Service) -> None:
        self.service = service

    async def completions(self, call: Call) -> None:
        """Go on from prompts."""
        asked = await call.asked(CompletionRequest)
        await self._write(call, asked, completion_plan, CompletionForm(echo=asked.echo))

    async def chat(self, call: Call) -> None:
        """Answer a conversation."""
        asked = await call.asked(ChatRequest)
        await self._write(call, asked, chat_plan, ChatForm())

    async def _write(
        self, call: Call, asked: Any, plans: Callable[[Any, Served, object], Plan], form: Form
    ) -> None:
        async with self.service.attending(call, asked) as served:
            refuse_no_text(served)
            if asked.attribution and counts_of(served.run.model) is None:
                raise wrong("This model counts nothing beside its network (model.counts).", "attribution")
            if call.size <= INLINE:
                plan = plans(asked, served, call)
            else:
                plan = await asyncio.to_thread(plans, asked, served, call)
            details = {
                "seed": plan.seed,
                "ignored": asked.ignored or None,
                "truncated": sum(prompt.cut for prompt in plan.prompts) or None,
                "notice": served.notice,
            }
            if isinstance(form, ChatForm):
                details["template"] = "chat" if has_chat(served.run.tokenizer) else "plain"
            details = {name: value for name, value in details.items() if value is not None}
            begin = head(served, asked, form.prefix, form.kinds[asked.stream])
            choices = choices_of(plan, spelling_of(served), echo=form.echo)
            async with self.service.writing(served, plan.jobs, pieced=asked.stream) as ticket:
                if asked.stream:
                    chosen(plan, choices)
                    await self._stream(call, asked, served, form, ticket, choices, begin, details)
                    if asked.stream_options is not None and asked.stream_options.include_usage:
                        await call.event(begin | {"choices": [], "usage": usage(plan)})
                    await call.end_stream()
                    return
                await ticket.end()
                rows = [
                    form.whole(choice, choice.job.stream.sample.text, await self._more(asked, served, choice))
                    for choice in chosen(plan, choices)
                ]
                await call.answer(begin | {"choices": rows, "usage": usage(plan), "octavo": details})

    async def _stream(
        self,
        call: Call,
        asked: Sampled,
        served: Served,
        form: Form,
        ticket: Ticket,
        choices: Sequence[Choice],
        begin: Row,
        details: Row,
    ) -> None:
        started: set[int] = set()
        sent = 0.0
        await call.begin_stream()
        while pieces := await ticket.pieces():
            if not sent:
                self.service.metrics.seconds["first_token"].add(time.monotonic() - call.begun)
            texts: dict[int, list[str]] = {}
            tokens = {piece.place: piece.tokens for piece in pieces}
            for piece in pieces:
                texts.setdefault(piece.place, []).append(piece.text)
            lines = []
            for place, some in texts.items():
                choice = choices[place]
                sample, new = choice.job.stream.sample, tokens[place] - choice.tokens
                ended = sample.finish is not None and tokens[place] >= len(sample.ids)
                more = await self._more(asked, served, choice) if ended else None
                first = place not in started
                for row in form.chunks(choice, "".join(some), new, first=first, more=more):
                    told = begin | {"choices": [row]} | ({} if started else {"octavo": details})
                    lines.append(json_text(told, ensure_ascii=False))
                    started.add(place)
            if lines:
                await call.events(lines)
            gap = max(GAP, served.load / CHUNKS)
            if not ticket.ended and (wait := sent + gap - time.monotonic()) > 0:
                await asyncio.sleep(wait)
            sent = time.monotonic()

    async def _more(self, asked: Sampled, served: Served, choice: Choice) -> Row:
        """What only Octavo says of a text that has ended."""
        attribution, ids = None, choice.job.stream.sample.ids
        if asked.attribution and ids:
            model, text, first = served.run.model, [*choice.prompt.ids, *ids], len(choice.prompt.ids)
            attribution = await self.service.worker.call(lambda: shares(model, text, first))
        return choice.details(attribution=attribution, floor=floor(choice.job, served.floor))
