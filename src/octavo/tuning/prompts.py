"""What a model is asked while it learns from a reward: prompts as it reads them, and as the reward sees them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path

from octavo.corpus.records.prompts import PromptRecord
from octavo.corpus.records.turns import Message, Turns
from octavo.corpus.sources import FilesSource
from octavo.data import Split
from octavo.errors import InputError
from octavo.generation.batch_prompts import read_prompts
from octavo.tasks.chat.prompts import Question, prompts_in, question
from octavo.tokenizers import Tokenizer

ROOM = 4
"""An answer gets at least one part in so many of the context."""


START = Question("", "")
"""The start of a document."""


def questions_in_file(path: Path, tokenizer: Tokenizer, *, answers: bool) -> tuple[Question, ...]:
    """Those of a file, each once: see `read_prompts`; of a .jsonl file its records: a `prompt`, `messages` that end
    with the user, or an `instruction`. A model that does not answer goes on from what the user says last.

    Raises InputError, CorpusError or TokenizerError.
    """
    if path.suffix.lower() == ".jsonl":
        documents = FilesSource(paths=(str(path),), records=PromptRecord()).build().documents()
        said = [Turns.of("".join(document.pieces)).messages for document in documents]
    else:
        said = [(Message("user", text),) for text in read_prompts(path)]
    if answers:
        return tuple(dict.fromkeys(question(messages, tokenizer) for messages in said))
    return tuple(dict.fromkeys(Question(turns[-1].content, turns[-1].content) for turns in said))


def questions_in_text(split: Split, tokenizer: Tokenizer, end: str) -> tuple[Question, ...]:
    """The beginning of each document up to and with `end`, each once; those without it are left out."""
    return tuple(dict.fromkeys(Question(text, text) for text in _cut(split, tokenizer, end)))


def _cut(split: Split, tokenizer: Tokenizer, end: str) -> Iterator[str]:
    bounds = [*split.starts.tolist(), len(split.tokens)]
    for first, last in pairwise(bounds):
        text = tokenizer.decode(split.tokens[int(first) : int(last)].tolist())
        before, there, _ = text.partition(end)
        if there:
            yield before + there


def questions_in_conversations(split: Split, tokenizer: Tokenizer) -> tuple[Question, ...]:
    """What comes before the first answer in each conversation, each once."""
    return tuple(dict.fromkeys(prompts_in(split, tokenizer)))


def fitting(questions: Sequence[Question], context: int, wanted: int | None) -> tuple[Question, ...]:
    """Texts, and those conversations that leave room for an answer: for as many tokens as `wanted`, or a quarter of
    the context. Raises InputError where there is none."""
    room = wanted or max(1, context // ROOM)
    found = tuple(
        one for one in questions if isinstance(one.prompt, str) or len(one.prompt) + room <= context + 1
    )
    if not found:
        raise InputError(
            f"Of {len(questions):,} prompts none leaves {room:,} tokens of the context of {context:,} for an answer.",
            remedy="objective.tokens=… with fewer, or shorter prompts",
        )
    return found
