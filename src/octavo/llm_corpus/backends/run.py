"""One of your own models as the writer of a corpus. It lies here, and not with the other writers, because it
needs a run."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from octavo.config.parts import register
from octavo.errors import InputError
from octavo.llm_corpus.calls import Backend, CallFailed, Reply, Request, WriterConfig
from octavo.llm_corpus.money import Prices, Tokens

if TYPE_CHECKING:
    from octavo.run.run import Run


class ModelBackend(Backend):
    """Lets a trained model write from a fixed beginning; one story at a time, in a thread of its own."""

    prices = Prices(input=0, output=0)
    in_flight = 1

    def __init__(self, run: Run, config: ModelWriter) -> None:
        self._run, self._config = run, config
        self.model = f"{config.run} at step {run.step}"

    async def write(self, request: Request) -> Reply:
        return await asyncio.to_thread(self._write, request)

    def _write(self, request: Request) -> Reply:
        sampling: dict[str, Any] = {"min_p": self._config.min_p} if self._config.min_p is not None else {}
        try:
            (sample,) = self._run.samples(
                self._config.begin,
                count=1,
                tokens=request.max_tokens,
                seed=request.seed,
                stop=self._config.stop,
                temperature=request.temperature,
                **sampling,
            )
        except InputError as error:  # such as a beginning with words that the model does not know
            raise CallFailed("refused", str(error)) from error
        finish = "length" if sample.finish == "length" else "stop"
        return Reply(self._config.begin + sample.text, finish, Tokens(0, 0, len(sample.ids)))


@register("writer")
class ModelWriter(WriterConfig):
    """A model of your own, from its run folder. It continues a beginning; what the prompt asks it does not
    understand."""

    kind: Literal["model"] = "model"
    run: str = Field(min_length=1)
    """The run folder, or one of its checkpoint folders."""
    checkpoint: str = "best"
    """The checkpoint: best, last, or a step."""
    begin: str = ""
    """What every story begins with."""
    stop: tuple[str, ...] = ("\n",)
    """Texts before which the story ends; a model that has learned where documents end needs none."""
    min_p: float | None = Field(None, gt=0, le=1)
    """Only tokens with this share of the best one's probability; left out: as the run's recipe says."""

    def build(self, *, seed: int) -> ModelBackend:
        """Load the model. Raises RunFolderError, or CheckpointError if no checkpoint is whole."""
        from octavo.run.run import Run

        del seed  # each request carries its own
        return ModelBackend(Run.open(Path(self.run), checkpoint=self.checkpoint), self)
