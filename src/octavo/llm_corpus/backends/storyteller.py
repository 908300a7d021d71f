"""The built-in storyteller as a writer: free, offline, and as fast as the disk."""

from __future__ import annotations

from typing import Literal

from octavo.config.parts import register
from octavo.llm_corpus.calls import Backend, Reply, Request, WriterConfig
from octavo.llm_corpus.money import Prices, Tokens
from octavo.synthetic.storyteller import Storyteller


class StorytellerBackend(Backend):
    """Writes the story whose number is the request's seed; what the prompt says does not matter to it."""

    model, in_flight = "storyteller", 32
    prices = Prices(input=0, output=0)

    def __init__(self, seed: int) -> None:
        self._storyteller = Storyteller(seed)

    async def write(self, request: Request) -> Reply:
        return Reply(self._storyteller.story(request.seed).text, "stop", Tokens(0, 0, 0))


@register("writer")
class StorytellerWriter(WriterConfig):
    """The built-in storyteller: pidgin stories from a grammar, without a network and without cost."""

    kind: Literal["storyteller"] = "storyteller"

    def build(self, *, seed: int) -> StorytellerBackend:
        return StorytellerBackend(seed)
