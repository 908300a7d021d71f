"""What a tuned model is asked: prompts as the template renders them, and the held-out ones with their answers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from octavo.config import Recipe
from octavo.corpus.records.turns import Message
from octavo.data import Split
from octavo.generation import Prompt
from octavo.synthetic.wishes import WishesSource
from octavo.tokenizers import Tokenizer
from octavo.tokenizers.chat import ChatTemplate


def judges_only(recipe: Recipe) -> bool:
    """Whether its model says how good answers are, and writes none."""
    return recipe.form == "preferences" and not recipe.objective.writes


@dataclass(frozen=True)
class Question:
    """A prompt; the same as any other of the same prompt and text.

    Attributes:
        prompt: as the model reads it: a text to go on from, or the ids of a conversation, to the token after which the
            assistant writes.
        text: as people and rewards see it: of a conversation what the user said last.
        answer: that of the data, where there is one.
    """

    prompt: Prompt
    text: str
    answer: str = field(default="", compare=False)

    def shown(self, tokenizer: Tokenizer) -> str:
        """The prompt for people; of a conversation a line for each turn, the last one begun."""
        if isinstance(self.prompt, str):
            return self.prompt
        turns = ChatTemplate(tokenizer).parse(self.prompt)
        return "\n".join(f"{turn.role}: {turn.content}" for turn in turns)


def question(text: str | Sequence[Message], tokenizer: Tokenizer, answer: str = "") -> Question:
    """What a user says, perhaps after other turns. Raises TokenizerError for what the vocabulary lacks or does not
    keep."""
    messages = [Message("user", text)] if isinstance(text, str) else text
    ids = ChatTemplate(tokenizer).render(messages, answering=True).ids
    return Question(tuple(ids.tolist()), messages[-1].content, answer)


def wished(tokenizer: Tokenizer, count: int, *, seed: int) -> list[Question]:
    """Wishes for stories in combinations that no training has seen, each once, with a story that keeps them."""
    pairs = WishesSource(stories=4 * count, seed=seed, held_out=True).build().pairs()
    stories = {wish.text: story for wish, story in pairs}
    return [question(wish, tokenizer, story) for wish, story in list(stories.items())[:count]]


def held_out(split: Split, tokenizer: Tokenizer, count: int, *, context: int) -> list[Question]:
    """Prompts of a split that leave room in the context, spread evenly, at most `count`."""
    fitting = [one for one in prompts_in(split, tokenizer) if len(one.prompt) < context]
    chosen = np.arange(min(count, len(fitting))) * len(fitting) // max(1, min(count, len(fitting)))
    return [fitting[at] for at in chosen]


def prompts_in(split: Split, tokenizer: Tokenizer) -> Iterator[Question]:
    """The prompts of a split, each with the first answer to it. Where there are several answers (preferences), the
    first is the chosen one."""
    template = ChatTemplate(tokenizer)
    edges = np.append(split.starts.astype(np.int64), len(split.tokens))
    tokens = np.asarray(split.tokens)
    for begin, stop in pairwise(edges.tolist()):
        ids = tokens[begin:stop].astype(np.int64)
        answers = np.flatnonzero(ids == template.openings["assistant"])
        opened = int(answers[0]) + 1 if len(answers) else 0
        if opened:
            after = np.flatnonzero(ids[opened:] == template.end)
            end = opened + int(after[0]) if len(after) else len(ids)
            turns = template.parse(ids[:opened])
            text = turns[-2].content if len(turns) > 1 else ""  # an answer may stand without a prompt
            yield Question(tuple(ids[:opened].tolist()), text, tokenizer.decode(ids[opened:end]))
