"""A model so small that every text it can write is counted: what holds on average is known exactly."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache

import torch
from torch import Tensor

from octavo.model.base import LanguageModel, build_model
from octavo.model.config import GPTConfig
from octavo.tasks.chat.prompts import Question
from octavo.tokenizers import Tokenizer, with_special
from octavo.tokenizers.chat import CHAT_TOKENS
from octavo.tokenizers.config import Word
from octavo.tuning.prompts import START
from octavo.tuning.rewards.base import Reward
from octavo.tuning.rollouts import Rollouts, Way

LONGEST = 3
TOKENIZER: Tokenizer = Word().build(lambda: iter(["a b", "b a"]), documents=True)
CHAT = with_special(TOKENIZER, CHAT_TOKENS)
CONFIG = GPTConfig.model_validate({"layers": 1, "width": 8, "heads": 2, "context": 6, "dropout": 0.0})


class Echoes(Reward):
    """How often a text says what it was asked, less a part of its length."""

    early = True

    def along(self, prompt: str, text: str, sizes: Sequence[int]) -> Sequence[float]:
        return [self.of(prompt, text[:size]) for size in sizes]

    def of(self, prompt: str, text: str) -> float:
        words = text.split()
        return words.count(prompt) - 0.4 * len(words)


class Likes(Reward):
    """A number that depends on the words, their order and their count."""

    def of(self, prompt: str, text: str) -> float:
        words = text.split()
        return words.count("a") - 0.4 * len(words) + 1.5 * (text.strip().startswith("b a"))


def model(seed: int, scale: float = 0.6, tokenizer: Tokenizer = TOKENIZER) -> LanguageModel:
    made = build_model(CONFIG, vocab_size=tokenizer.vocab_size, seed=seed)
    with torch.no_grad():
        for number, parameter in enumerate(made.parameters()):
            noise = torch.randn(parameter.shape, generator=torch.Generator().manual_seed(seed + number))
            parameter.add_(scale * noise)
    return made.eval()


def rollouts(
    policy: LanguageModel,
    base: LanguageModel,
    *,
    rows: int,
    seed: int,
    tokenizer: Tokenizer = TOKENIZER,
    questions: Sequence[Question] = (START,),
    reward: Reward | None = None,
    left_out: int = 0,
    **way: object,
) -> Rollouts:
    usual = {
        "group": 4,
        "form": "rloo",
        "beta": 0.0,
        "kl_in": "loss",
        "updates": 1,
        "budget": None,
        "tokens": LONGEST,
    }
    return Rollouts(
        model=policy,
        base=base,
        tokenizer=tokenizer,
        questions=questions,
        left_out=left_out,
        reward=reward or Likes(),
        rows=rows,
        seed=seed,
        way=Way(**(usual | way)),  # pyrefly: ignore[bad-argument-type]
    )


@cache
def every_text(tokenizer: Tokenizer = TOKENIZER) -> list[list[int]]:
    """All ids that can be written: up to an end, or three."""

    def grow(begun: list[int]) -> Iterator[list[int]]:
        if len(begun) == LONGEST or (begun and begun[-1] in tokenizer.ends):
            yield begun
            return
        for token in range(tokenizer.vocab_size):
            yield from grow([*begun, token])

    return list(grow([]))


def read(
    of: LanguageModel, prompt: Sequence[int] = (), tokenizer: Tokenizer = TOKENIZER
) -> tuple[Tensor, Tensor, Tensor]:
    """Of every text after a prompt, or the document start: the log-probabilities of its tokens (N, 3), of all tokens
    before each (N, 3, V), and where tokens are (N, 3)."""
    assert tokenizer.start is not None
    texts, before = every_text(tokenizer), [*prompt] or [tokenizer.start]
    rows = torch.tensor([[*before, *ids, *[0] * (LONGEST - len(ids))] for ids in texts])
    there = torch.tensor([[place < len(ids) for place in range(LONGEST)] for ids in texts])
    logs = of(rows[:, :-1]).double().log_softmax(-1)[:, len(before) - 1 :]
    chosen = logs.gather(-1, rows[:, len(before) :, None])[..., 0]
    return torch.where(there, chosen, 0.0), logs, there


def rewards(prompt: str = "", tokenizer: Tokenizer = TOKENIZER, reward: Reward | None = None) -> Tensor:
    """Of every text."""
    texts = [
        tokenizer.decode([id for id in ids if id not in tokenizer.ends]) for ids in every_text(tokenizer)
    ]
    return torch.tensor([(reward or Likes()).of(prompt, text) for text in texts]).double()


def kl_terms(policy: LanguageModel, base: LanguageModel) -> Tensor:
    """KL over the vocabulary before each token (N, 3)."""
    (_, own, there), (_, other, _) = read(policy), read(base)
    return torch.where(there, (own.exp() * (own - other)).sum(-1), 0.0)


def gradient(value: Tensor, of: LanguageModel) -> Tensor:
    """As one vector."""
    found = torch.autograd.grad(value, list(of.parameters()), allow_unused=True)
    flat = [
        torch.zeros_like(p) if each is None else each for p, each in zip(of.parameters(), found, strict=True)
    ]
    return torch.cat([each.flatten() for each in flat]).double()
