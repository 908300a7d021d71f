"""Texts as ids, and ids as texts."""

from __future__ import annotations

import asyncio

from octavo.errors import TokenizerError
from octavo.serving.call import Call
from octavo.serving.errors import wrong
from octavo.serving.jobs import template_of
from octavo.serving.models import Served
from octavo.serving.schemas import DetokenizeRequest, TokenizeRequest
from octavo.serving.service import Service, spelling_of
from octavo.tokenizers import Tokenizer


class Tokens:
    """The endpoints."""

    def __init__(self, service: Service) -> None:
        self.service = service

    async def tokenize(self, call: Call) -> None:
        """A text as ids."""
        asked = await call.asked(TokenizeRequest)
        async with self.service.attending(call, asked) as served:
            refuse_no_tokens(served)
            tokenizer, alone = served.run.tokenizer, spelling_of(served).alone
            ids = await asyncio.to_thread(ids_of, asked, tokenizer)
            if asked.add_special and tokenizer.start is not None:
                ids = [tokenizer.start, *ids]
            told = [{"id": id, "piece": alone(id)} for id in ids] if asked.with_pieces else ids
            await call.answer({"tokens": told, "count": len(ids), "max_model_len": served.run.model.context})

    async def detokenize(self, call: Call) -> None:
        """Ids as a text."""
        asked = await call.asked(DetokenizeRequest)
        async with self.service.attending(call, asked) as served:
            refuse_no_tokens(served)
            size = served.run.tokenizer.vocab_size
            if any(id >= size for id in asked.tokens):
                raise wrong(f"tokens holds an id that is not there; ids are 0 to {size - 1}.", "tokens")
            text = await asyncio.to_thread(served.run.tokenizer.decode, asked.tokens)
            await call.answer({"content": text, "prompt": text})

    async def info(self, call: Call) -> None:
        """What a tokenizer has besides texts."""
        async with self.service.models.using(call.query("model")) as served:
            refuse_no_tokens(served)
            tokenizer, name = served.run.tokenizer, spelling_of(served).name
            await call.answer(
                {
                    "tokenizer_class": tokenizer.kind,
                    "bos_token": name(tokenizer.start),
                    "eos_token": name(tokenizer.end),
                    "pad_token": None,
                    "chat_template": template_of(tokenizer),
                }
            )


def ids_of(asked: TokenizeRequest, tokenizer: Tokenizer) -> list[int]:
    """A text as ids. Raises Refusal for what the vocabulary lacks."""
    if asked.prompt in tokenizer.special:
        return [tokenizer.special[asked.prompt]]
    text, name = (asked.prompt or "", "prompt") if asked.content is None else (asked.content, "content")
    try:
        return tokenizer.encode(text).tolist()
    except TokenizerError as error:
        raise wrong(error.what, name, code="not_in_vocabulary") from error


def refuse_no_tokens(served: Served) -> None:
    """Raise Refusal for a model of numbers."""
    if served.task == "forecast":
        raise wrong("This model reads numbers, and has no tokens.", "model")
