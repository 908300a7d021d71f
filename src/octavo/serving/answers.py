"""From written texts to OpenAI's objects: choices, chunks, and log-probabilities whose tokens together are the text."""

from __future__ import annotations

import base64
import math
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np

from octavo.generation.streams import Finish
from octavo.serving.jobs import Plan, Prompt
from octavo.serving.scheduler import Job, Scores
from octavo.tokenizers import Tokenizer

REASONS: Mapping[Finish, str] = {"length": "length", "end": "stop", "stop": "stop", "stuck": "stop"}
"""How a text ended, in OpenAI's words."""
LEAST = -9999.0
"""What is given for a logarithm of zero, for JSON has no infinity."""


def finite(log_probability: float | None) -> float | None:
    """As JSON can say it."""
    return None if log_probability is None else max(LEAST, log_probability)


class Spelling:
    """The text of single tokens."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.tokenizer = tokenizer
        self._names = {id: name for name, id in tokenizer.special.items()}
        self.alone = cache(self._alone)

    def name(self, id: int | None) -> str | None:
        """Of a special token, if it is one."""
        return None if id is None else self._names.get(id)

    def _alone(self, id: int) -> str:
        """By itself; special ones, and parts of a character, by their names."""
        if id in self._names:
            return self._names[id]
        text = self.tokenizer.decode([id])
        return self.tokenizer.token_text(id) if not text or "\ufffd" in text else text

    def best(
        self, came: int, piece: str, value: float, best: tuple[list[int], list[float]]
    ) -> dict[str, float]:
        """The token that came, by the text that it added, and the most probable others; each text once."""
        told = {piece: max(LEAST, value)}
        for id, other in zip(*best, strict=True):
            if id != came:
                text = self.alone(id)
                told.setdefault(self.tokenizer.token_text(id) if text in told else text, max(LEAST, other))
        return dict(sorted(told.items(), key=lambda one: -one[1]))


class Pieces:
    """The tokens of an answer with the text that each adds, as far as that is let out: they add up to the answer."""

    def __init__(self, tokenizer: Tokenizer, prompt: Sequence[int]) -> None:
        self._ends, self._decoder = tokenizer.ends, tokenizer.decoder()
        added = tokenizer.vocab_size - len(tokenizer.added)
        turn = max((at for at, token in enumerate(prompt, 1) if token >= added), default=0)
        for token in prompt[turn:]:
            self._decoder.push(token)
        self._held: list[tuple[str, int]] = []  # and where each ends
        self._spelled = 0
        self._given = 0

    def take(self, ids: Sequence[int], length: int, *, ended: bool) -> list[str]:
        """More ids; of the whole answer so many characters are let out. Returns the texts of those tokens that are."""
        for id in ids:
            piece = "" if id in self._ends else self._decoder.push(id)
            self._spelled += len(piece)
            self._held.append((piece, self._spelled))
        if ended and self._held:
            rest = self._decoder.finish()
            piece, end = self._held.pop()
            self._held.append((piece + rest, end + len(rest)))
        found: list[str] = []
        while self._held:
            piece, end = self._held[0]
            begin = end - len(piece)
            if end > length and not (ended and begin < length):
                break
            found.append(piece[: length - begin] if end > length else piece)
            self._held.pop(0)
        self._given += len(found)
        return found


def prompt_pieces(tokenizer: Tokenizer, prompt: Prompt) -> list[str]:
    """The text of each token of a prompt but those that stand for none of the request's."""
    decoder = tokenizer.decoder()
    return [decoder.push(id) for id in prompt.ids][prompt.implicit :]


class Choice:
    """One text as the client sees it: what was given, and what is to be given next.

    Attributes:
        prompt_scores: of the text that read the prompt for all.
    """

    def __init__(
        self, index: int, job: Job, prompt: Prompt, spelling: Spelling, *, echo: bool = False
    ) -> None:
        self.index, self.job, self.prompt, self.spelling = index, job, prompt, spelling
        self.tokens = self.given = 0  # ids that were told, and whose log-probabilities were given
        self.length = 0  # characters that were let out
        self.offset = 0
        self.echo = prompt_pieces(spelling.tokenizer, prompt) if echo else []
        self.prompt_scores = job.prompt_scores
        self._pieces = Pieces(spelling.tokenizer, prompt.ids) if job.best is not None else None

    @property
    def finish(self) -> str | None:
        """As OpenAI calls it; None while it goes on."""
        finish = self.job.stream.sample.finish
        return None if finish is None else REASONS[finish]

    def scored(self, new: int, length: int, *, ended: bool) -> list[tuple[str, int]]:
        """The tokens whose text is out, with their places among the answer's ids, where log-probabilities are asked
        for; of `new` more ids, and `length` more characters."""
        ids = self.job.stream.sample.ids[self.tokens : self.tokens + new]
        self.tokens, self.length = self.tokens + new, self.length + length
        if self._pieces is None:
            return []
        pieces = self._pieces.take(ids, self.length, ended=ended)
        first, self.given = self.given, self.given + len(pieces)
        return [(piece, first + place) for place, piece in enumerate(pieces)]

    def completion_logprobs(self, scored: Sequence[tuple[str, int]], *, first: bool) -> dict[str, Any] | None:
        """As /v1/completions has them; `first`: with the echo's."""
        if self.job.best is None:
            return None
        rows = [(piece, self.job.scores, place, self.job.stream.sample.ids) for piece, place in scored]
        if first:
            echo = enumerate(self.echo, self.prompt.implicit)
            rows = [(piece, self.prompt_scores, place, self.prompt.ids) for place, piece in echo] + rows
        names = ("tokens", "token_logprobs", "top_logprobs", "text_offset")
        found: dict[str, list[Any]] = {name: [] for name in names}
        for piece, scores, place, ids in rows:
            value = scores.log_probabilities[place]
            best = None if value is None else self.spelling.best(ids[place], piece, value, scores.best[place])
            for name, one in zip(names, (piece, finite(value), best, self.offset), strict=True):
                found[name].append(one)
            self.offset += len(piece)
        return found

    def chat_logprobs(self, scored: Sequence[tuple[str, int]]) -> dict[str, Any] | None:
        """As /v1/chat/completions has them."""
        if self.job.best is None:
            return None
        content = []
        for piece, place in scored:
            best = [
                told(self.spelling.alone(id), value)
                for id, value in zip(*self.job.scores.best[place], strict=True)
            ]
            one = told(piece, self.job.scores.log_probabilities[place] or 0.0)
            content.append(one | {"top_logprobs": best})
        return {"content": content, "refusal": None}

    def details(self, **more: Any) -> dict[str, Any]:
        """What only Octavo says of a text that has ended."""
        sample, job = self.job.stream.sample, self.job
        found: dict[str, Any] = {"ids": list(sample.ids), "finish": sample.finish}
        if sample.finish == "end":
            found["end_logprob"] = finite(sample.log_probabilities[-1])
        if job.whole:
            found["prompt_ids"] = list(self.prompt.ids)
            found["prompt_probabilities"] = full(self.prompt_scores)
            found["probabilities"] = full(job.scores)
        return found | {name: value for name, value in more.items() if value is not None}


def told(piece: str, log_probability: float) -> dict[str, Any]:
    """A token as chat has it."""
    return {
        "token": piece,
        "logprob": max(LEAST, log_probability),
        "bytes": list(piece.encode("utf-8", "surrogatepass")),
    }


def full(scores: Scores) -> dict[str, Any]:
    """All log-probabilities, to the bit."""
    rows = np.stack(scores.whole).astype("<f4") if scores.whole else np.zeros((0, 0), "<f4")
    return {
        "dtype": "float32",
        "shape": list(rows.shape),
        "data": base64.b64encode(rows.tobytes()).decode("ascii"),
    }


def choices_of(plan: Plan, spelling: Spelling, *, echo: bool) -> list[Choice]:
    """A choice for each text that is written."""
    return [
        Choice(place, job, plan.prompt_of(place), spelling, echo=echo) for place, job in enumerate(plan.jobs)
    ]


def chosen(plan: Plan, choices: Sequence[Choice]) -> list[Choice]:
    """The choices that are given: of each prompt the most probable ones, where more were written."""
    found: list[Choice] = []
    for first in range(0, len(choices), plan.each):
        own = list(choices[first : first + plan.each])
        for choice in own:
            choice.prompt_scores = own[0].job.prompt_scores
        if plan.choices < plan.each:
            own = sorted(own, key=lambda choice: -mean(choice.job))[: plan.choices]
        found += own
    for index, choice in enumerate(found):
        choice.index = index
    return found


def mean(job: Job) -> float:
    """Mean log-probability of a text's tokens."""
    values = job.stream.sample.log_probabilities
    return math.fsum(values) / len(values) if values else 0.0


def usage(plan: Plan) -> dict[str, Any]:
    """Tokens that were read and written."""
    read = sum(len(prompt.ids) for prompt in plan.prompts)
    written = sum(len(job.stream.sample.ids) for job in plan.jobs)
    shared = sum(job.shared for job in plan.jobs[:: plan.each])
    return {
        "prompt_tokens": read,
        "completion_tokens": written,
        "total_tokens": read + written,
        "prompt_tokens_details": {"cached_tokens": shared},
    }


def floor(job: Job, nats: float | None) -> dict[str, float] | None:
    """How far a text is from what no model can beat."""
    if nats is None or not job.stream.sample.log_probabilities:
        return None
    own = -mean(job)
    return {"nats_per_token": nats, "answer": own, "distance": own - nats}
