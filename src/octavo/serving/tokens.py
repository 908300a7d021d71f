"""Texts as ids, and ids as texts."""

from __future__ import annotations

import asyncio

from octavo.errors import TokenizerError
from octavo.serving.call import Call
from octavo.serving.errors import wrong
from octavo.serving.models import Served
from octavo.serving.schemas import DetokenizeRequest, TokenizeRequest
from octavo.serving.service import Service, spelling_of


class Tokens:
    """The two endpoints."""

    def __init__(self, service: Service) -> None:
        self.service = service

    async def tokenize(self, call: Call) -> None:
        """A text as ids."""
        asked = await call.asked(TokenizeRequest)
        async with self.service.attending(call, asked) as served:
            refuse_no_tokens(served)
            tokenizer = served.run.tokenizer
            try:
                ids = (await asyncio.to_thread(tokenizer.encode, asked.content)).tolist()
            except TokenizerError as error:
                raise wrong(error.what, "content", code="not_in_vocabulary") from error
            if asked.add_special and tokenizer.start is not None:
                ids = [tokenizer.start, *ids]
            if asked.with_pieces:
                alone = spelling_of(served).alone
                await call.answer({"tokens": [{"id": id, "piece": alone(id)} for id in ids]})
            else:
                await call.answer({"tokens": ids})

    async def detokenize(self, call: Call) -> None:
        """Ids as a text."""
        asked = await call.asked(DetokenizeRequest)
        async with self.service.attending(call, asked) as served:
            refuse_no_tokens(served)
            size = served.run.tokenizer.vocab_size
            if any(id >= size for id in asked.tokens):
                raise wrong(f"tokens holds an id that is not there; ids are 0 to {size - 1}.", "tokens")
            await call.answer({"content": await asyncio.to_thread(served.run.tokenizer.decode, asked.tokens)})


def refuse_no_tokens(served: Served) -> None:
    """Raise Refusal for a model of numbers."""
    if served.task == "forecast":
        raise wrong("This model reads numbers, and has no tokens.", "model")
