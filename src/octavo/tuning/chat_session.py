"""Talking with a run: turns that fit into the context, and answers in pieces."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from octavo.corpus.records.turns import Message
from octavo.errors import InputError, TokenizerError
from octavo.generation import Sample, TextRequest
from octavo.generation.sampling import RECIPES, SamplingOptions
from octavo.run.run import Run
from octavo.tokenizers.chat import ChatTemplate, has_chat
from octavo.tuning.prompts import ROOM
from octavo.util.output import Output
from octavo.util.records import json_text


class Talk:
    """A conversation with a run. A model that was not tuned for one goes on from each line, which it sees alone.

    Attributes:
        answers: whether the model has the chat template.
        messages: the conversation so far, the system's message at its head.
        forgotten: how many of the messages the model no longer sees: the oldest ones, but for the system's.
    """

    def __init__(self, run: Run, *, system: str = "", options: SamplingOptions = RECIPES) -> None:
        run.refuse_no_text()
        self.run, self.options = run, options
        self.answers = has_chat(run.tokenizer)
        if system and not self.answers:
            raise InputError(
                f"{run.path} was not tuned for conversations, so it knows no system's message.",
                remedy="octavo tune sft RUN --text chats.jsonl    teaches it to answer",
            )
        self.head = [Message("system", system)] if system else []
        self.template = ChatTemplate(run.tokenizer) if self.answers else None
        self.reset()

    def reset(self) -> None:
        """Begin anew. Raises TokenizerError for a system's message that the vocabulary lacks."""
        self.messages = list(self.head)
        self.forgotten = 0
        # Of each turn. An answer stays as it was written: not every tokenizer gives a text the ids that it came from.
        self.turns = [self.template.render([one]).ids.tolist() for one in self.head] if self.template else []

    def ask(self, text: str) -> Iterator[str]:
        """The answer in pieces; both turns are then part of the conversation.

        Raises InputError for a question that does not fit into the context, TokenizerError for one that the vocabulary
        lacks; the conversation is then as before.
        """
        if self.template is None:
            yield from self.run.stream(text, **self.options.given())
            return
        question = self.template.render([Message("user", text)], answering=True).ids.tolist()
        ids = self._fitting(question)
        wanted = self.options.tokens or self.run.config.sampling.tokens
        seed = (self.options.seed + len(self.messages)) % 2**64  # else the same question has the same answer
        most = min(wanted, self.run.model.context - len(ids))
        options = replace(self.options, tokens=most)
        written = self.run.write_each([TextRequest(ids, seed)], **options.given())
        sample, piece = next(written)
        yield piece
        yield from (piece for _, piece in written)
        said = self._seen(sample)
        self.messages += [Message("user", text), Message("assistant", sample.text)]
        self.turns += [question[:-1], [question[-1], *said, self.template.end]]

    def _seen(self, sample: Sample) -> list[int]:
        """The ids of an answer, as far as it was shown: what a stop text cut off is no part of the conversation."""
        if sample.finish != "stop":
            return [id for id in sample.ids if id not in self.run.tokenizer.ends]
        try:
            return self.run.tokenizer.encode(sample.text).tolist()
        except TokenizerError:  # half a character, say
            began = zip(sample.ids, [0, *sample.sizes], strict=False)
            return [id for id, before in began if before < len(sample.text)]

    def _fitting(self, question: list[int]) -> list[int]:
        """What the model reads: the system's message, as many turns as fit, and the question."""
        context, fixed = self.run.model.context, len(self.head)
        room = context - context // ROOM
        forgotten = self.forgotten
        while True:
            seen = [*self.turns[:fixed], *self.turns[fixed + forgotten :], question]
            if (length := sum(map(len, seen))) <= room:
                self.forgotten = forgotten
                return [id for turn in seen for id in turn]
            if fixed + forgotten >= len(self.turns):
                raise InputError(
                    f"The question has {length:,} tokens with the template's; {room:,} of the context of {context:,} "
                    "leave room for an answer.",
                    remedy="ask in fewer words",
                )
            forgotten += 2  # a question and its answer

    def save(self, path: Path) -> None:
        """The conversation as a line of JSON, as `octavo tune sft` reads it. Raises InputError where the file
        exists."""
        if path.exists():
            raise InputError(f"{path} exists.", remedy="choose another name")
        line = json_text({"messages": [one.as_dict() for one in self.messages]}, ensure_ascii=False)
        with Output(path, force=False).writing() as file:
            file.write(line + "\n")
