"""Preference pairs of a few letters, as batches, and a model to learn from them."""

from __future__ import annotations

import numpy as np

from octavo.corpus.records.turns import Message, Turns
from octavo.model.base import LanguageModel, build_model
from octavo.model.config import GPTConfig
from octavo.tasks.chat.preference_batches import PreferenceBatches, PreferencesConfig
from octavo.tasks.chat.turns import ByTemplate
from octavo.tokenizers import build_tokenizer, with_special
from octavo.tokenizers.chat import CHAT_TOKENS
from octavo.tokenizers.config import Byte

TOKENIZER = with_special(build_tokenizer(Byte(), lambda: iter(()), documents=True), CHAT_TOKENS)
CONTEXT = 32


def turns(count: int, *, longest: int = 7) -> list[Turns]:
    random = np.random.default_rng(5)

    def text() -> str:
        return "".join(map(chr, random.integers(97, 123, random.integers(1, longest))))

    found = []
    for number in range(count):
        prompt = (Message("user", text()), Message("assistant", text()), Message("user", text()))
        found.append(Turns(prompt[: 1 + 2 * (number % 2)], text(), text() + "!"))
    return found


def stream(found: list[Turns]) -> tuple[np.ndarray, np.ndarray]:
    """Tokens of a split, and where its documents begin."""
    ids = [ByTemplate(TOKENIZER).encode(one.text()) for one in found]
    return np.concatenate(ids).astype(np.uint16), np.cumsum([0, *map(len, ids)])[:-1].astype(np.uint64)


def batches(
    found: list[Turns], *, batch: int = 4, context: int = CONTEXT, seed: int = 1
) -> PreferenceBatches:
    built = PreferencesConfig().build(
        *stream(found), context=context, batch=batch, seed=seed, **TOKENIZER.marks
    )
    assert isinstance(built, PreferenceBatches)
    return built


def model(seed: int) -> LanguageModel:
    config = GPTConfig(layers=1, width=16, heads=2, context=CONTEXT, dropout=0.1)  # pyrefly: ignore
    return build_model(config, vocab_size=TOKENIZER.vocab_size, seed=seed)
