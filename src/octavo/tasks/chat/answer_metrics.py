"""What a run that learned from conversations answers to held-out prompts, beside what it started from.

The yardstick needs no judge: how many words an answer shares with the one that the data has. Both are cut to as many
words, so that nothing is won by length or by ending.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from octavo.corpus.words import WORDS_AND_MARKS
from octavo.data import Dataset
from octavo.generation import Engine, Sample, TextRequest, in_order
from octavo.generation.sampling import sampling_of
from octavo.model.base import LanguageModel
from octavo.task import Trained
from octavo.tasks.chat.preference_metrics import Share
from octavo.tasks.chat.prompts import Question, held_out
from octavo.util.stats import SAID, drawn_again, ends_of

PROMPTS = (4, 32)
"""Held-out prompts, the fewest and the most."""
SEEDS = 3
BUDGET = 2e11
"""Floating-point operations for all of it, so that a large model does not write for too long."""
SHOWN = 6
DRAWS = 2000
"""Resamples of the prompts for an interval."""


@dataclass(frozen=True)
class Style:
    """How answers are.

    Attributes:
        likeness: mean share of the expected words that they have.
        ended: the share that came to an end of its own.
        words: mean length.
        distinct_2: different pairs of words / pairs of words.
        copied: mean share of their runs of three words that stand in the prompt.
    """

    likeness: float
    ended: float
    words: float
    distinct_2: float
    copied: float


@dataclass(frozen=True)
class Pair:
    """A prompt and three answers: that of the data, of the base and of the tuned model."""

    prompt: str
    expected: str
    base: str
    tuned: str


@dataclass(frozen=True)
class Answers:
    """Answers of a tuned model beside its base's, and how often they are nearer to the expected ones."""

    prompts: int
    seeds: int
    base: Style
    tuned: Style
    wins: Share
    pairs: list[Pair]


def beside_base(run: Trained, dataset: Dataset) -> Answers | None:
    """Figures of both, how often the run wins, and answers side by side; None for a run that did not learn from
    conversations, or from no run."""
    base = run.started
    if run.config.form != "conversations" or base is None:
        return None
    tokens = min(run.config.sampling.tokens, run.config.model.context)
    numbers = run.config.model.parameters(vocab_size=dataset.tokenizer.vocab_size)
    fewest, most = PROMPTS
    count = max(fewest, min(most, int(BUDGET / (2.0 * numbers * tokens * 2 * SEEDS))))
    asked = held_out(dataset.validation, dataset.tokenizer, count, context=run.config.model.context)
    if len(asked) < 2:  # of which there is no interval
        return None
    device = next(run.model.parameters()).device
    before, after = (_answers(model, asked, run, dataset, tokens) for model in (base.to(device), run.model))
    like = [
        np.array([_likeness(a, row) for a, row in zip(asked, side, strict=True)]) for side in (before, after)
    ]
    wins = (np.sign(like[1] - like[0]) + 1) / 2  # (P, S); of equal ones each has half
    return Answers(
        prompts=len(asked),
        seeds=SEEDS,
        base=_style(like[0], asked, before, dataset),
        tuned=_style(like[1], asked, after, dataset),
        wins=Share(float(wins.mean()), *_interval(wins.mean(axis=1))),
        pairs=[
            Pair(one.shown(dataset.tokenizer), one.answer, before[at][0].text, after[at][0].text)
            for at, one in enumerate(asked[:SHOWN])
        ],
    )


def sentences(result: Mapping[str, Any]) -> Iterator[str]:
    """How often its answers are nearer to the expected ones than its base's."""
    if answers := result.get("answers"):
        wins, base, tuned = answers["wins"], answers["base"], answers["tuned"]
        yield (
            f"Its answers to {answers['prompts']} held-out prompts are nearer to the expected ones than its base's in "
            f"{wins['mean']:.0%} ({SAID} interval {wins['low']:.0%} to {wins['high']:.0%}; a tie counts half): they "
            f"share {tuned['likeness']:.0%} of the words, the base's {base['likeness']:.0%}."
        )


def _answers(
    model: LanguageModel, asked: Sequence[Question], run: Trained, dataset: Dataset, tokens: int
) -> list[list[Sample]]:
    """`SEEDS` answers to each prompt, drawn by the recipe's settings; both models draw with the same seeds."""
    requests = [
        TextRequest(one.prompt, run.config.seed + seed, index)
        for index, one in enumerate(asked)
        for seed in range(SEEDS)
    ]
    written = Engine(model, dataset.tokenizer).write_each(
        requests, tokens=tokens, sampling=sampling_of(run.config.sampling)
    )
    samples = in_order(sample for sample, _ in written)
    return [samples[at : at + SEEDS] for at in range(0, len(samples), SEEDS)]


def words(text: str) -> list[str]:
    """Words and marks, small letters."""
    return [word.lower() for word in WORDS_AND_MARKS.findall(text)]


def likeness(text: str, expected: str) -> float:
    """The share of the expected answer's words that stand in as many words of a text."""
    wanted = Counter(words(expected))
    if not wanted:
        return float(not text.strip())
    return (Counter(words(text)[: wanted.total()]) & wanted).total() / wanted.total()


def copied(text: str, prompt: str) -> float:
    """The share of a text's runs of three words that stand in the prompt."""
    own, there = _runs(words(text)), set(_runs(words(prompt)))
    return sum(run in there for run in own) / len(own) if own else 0.0


def _runs(tokens: Sequence[str], length: int = 3) -> list[tuple[str, ...]]:
    return list(zip(*(tokens[at:] for at in range(length)), strict=False))


def _likeness(asked: Question, row: Sequence[Sample]) -> list[float]:
    return [likeness(one.text, asked.answer) for one in row]


def _style(
    like: np.ndarray, asked: Sequence[Question], side: Sequence[Sequence[Sample]], dataset: Dataset
) -> Style:
    flat = [(one, sample) for one, row in zip(asked, side, strict=True) for sample in row]
    pairs = [run for _, sample in flat for run in _runs(words(sample.text), 2)]
    return Style(
        likeness=float(like.mean()),
        ended=float(np.mean([sample.finish == "end" for _, sample in flat])),
        words=float(np.mean([len(words(sample.text)) for _, sample in flat])),
        distinct_2=len(set(pairs)) / len(pairs) if pairs else 0.0,
        copied=float(np.mean([copied(sample.text, one.shown(dataset.tokenizer)) for one, sample in flat])),
    )


def _interval(by_prompt: np.ndarray) -> tuple[float, float]:
    """Of the mean over prompts, which are drawn again."""
    random = np.random.default_rng(0)
    drawn = drawn_again(lambda rows: by_prompt[rows].mean(axis=1), len(by_prompt), draws=DRAWS, random=random)
    low, high = ends_of(drawn)
    return float(low), float(high)
