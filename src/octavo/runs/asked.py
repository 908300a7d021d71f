"""What a tuned model is asked: prompts as the template renders them, and the held-out ones with their answers."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from octavo.corpus.records.turns import Message
from octavo.dataset import Split
from octavo.synthesis.wishes import WishesSource
from octavo.tokenizers import Tokenizer
from octavo.tokenizers.chat import ChatTemplate


@dataclass(frozen=True)
class Asked:
    """A prompt: its ids, to the token after which the assistant writes, the answer that the data has, if any, and what
    the user said last."""

    ids: list[int]
    answer: str
    text: str = ""

    def shown(self, tokenizer: Tokenizer) -> str:
        """The prompt for people, a line for each turn, the last one begun."""
        turns = ChatTemplate(tokenizer).parse(self.ids)
        return "\n".join(f"{turn.role}: {turn.content}" for turn in turns)


def asked(prompt: str, tokenizer: Tokenizer) -> Asked:
    """What a user says. Raises TokenizerError for what the vocabulary lacks or does not keep."""
    return _asked(prompt, "", tokenizer)


def _asked(prompt: str, answer: str, tokenizer: Tokenizer) -> Asked:
    ids = ChatTemplate(tokenizer).render([Message("user", prompt)], answering=True).ids
    return Asked(ids.tolist(), answer, prompt)


def wished(tokenizer: Tokenizer, count: int, *, seed: int) -> list[Asked]:
    """Wishes for stories in combinations that no training has seen, each once, with a story that keeps them."""
    pairs = WishesSource(stories=4 * count, seed=seed, held_out=True).build().pairs()
    found = {wish.text: story for wish, story in pairs}
    return [_asked(wish, story, tokenizer) for wish, story in list(found.items())[:count]]


def held_out(split: Split, tokenizer: Tokenizer, count: int, *, context: int) -> list[Asked]:
    """Prompts of a split that leave room in the context, each with the first answer to it; spread evenly, at most
    `count`. Where there are several answers (preferences), the first is the chosen one."""
    template = ChatTemplate(tokenizer)
    edges = np.append(split.starts.astype(np.int64), len(split.tokens))
    tokens = np.asarray(split.tokens)
    found = []
    for begin, stop in pairwise(edges.tolist()):
        ids = tokens[begin:stop].astype(np.int64)
        answers = np.flatnonzero(ids == template.openings["assistant"])
        opened = int(answers[0]) + 1 if len(answers) else 0
        if 0 < opened < context:
            after = np.flatnonzero(ids[opened:] == template.end)
            end = opened + int(after[0]) if len(after) else len(ids)
            found.append(Asked(ids[:opened].tolist(), tokenizer.decode(ids[opened:end])))
    chosen = np.arange(min(count, len(found))) * len(found) // max(1, min(count, len(found)))
    return [found[at] for at in chosen]
