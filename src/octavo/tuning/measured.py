"""The ceiling of a base and a reward: of a run from its samples, of the storyteller exactly."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from octavo.errors import InputError
from octavo.generation import Engine, Sample, Sampling, TextRequest, in_order
from octavo.ground.console import Console
from octavo.model.kind import LanguageModel
from octavo.synthesis.counting import distribution
from octavo.synthesis.storyteller import story_grammar
from octavo.tokenizers import Tokenizer
from octavo.tuning.ceiling import (
    Curve,
    exact_best_of_n,
    exact_frontier,
    sampled_best_of_n,
    sampled_frontier,
)
from octavo.tuning.questions import START, Question
from octavo.tuning.rewards.base import Judged, Reward, RewardConfig, judge

STORYTELLER = "storyteller"
AT_ONCE = 256
"""Texts that are written side by side."""


@dataclass(frozen=True)
class Ceiling:
    """What a base could reach.

    Attributes:
        exact: whether the curves are, or are estimated from samples.
        distribution: {reward: probability}, where it is exact.
        failed: why texts have no reward, with how many each.
        samples, prompts: how many texts were written, after how many prompts.
    """

    reward: RewardConfig
    curve: Curve
    best_of_n: Curve
    exact: bool
    distribution: Mapping[float, float]
    failed: Mapping[str, int]
    samples: int = 0
    prompts: int = 0

    def as_dict(self) -> dict[str, Any]:
        """As plain data."""
        return {
            "reward": self.reward.model_dump(mode="json"),
            "exact": self.exact,
            "samples": self.samples,
            "prompts": self.prompts,
            "failed": dict(self.failed),
            "distribution": [{"reward": r, "probability": p} for r, p in self.distribution.items()],
            "ceiling": self.curve.as_dict("beta"),
            "best_of_n": self.best_of_n.as_dict("n"),
        }


def storyteller_ceiling(config: RewardConfig) -> Ceiling:
    """The storyteller's own, exact. Raises InputError for a reward that no grammar can count."""
    automaton = config.build().automaton()
    if automaton is None:
        raise InputError(
            f"The reward {config.kind!r} cannot be counted over a grammar.",
            remedy="words, ends-happily, question or length, or a sum of these; or name a run, whose texts are judged",
        )
    found = distribution(story_grammar(), automaton)
    return Ceiling(config, exact_frontier(found), exact_best_of_n(found), True, found, {})


def sampled_ceiling(
    model: LanguageModel,
    tokenizer: Tokenizer,
    config: RewardConfig,
    *,
    questions: Sequence[Question] = (START,),
    samples: int,
    tokens: int,
    seed: int = 0,
    console: Console | None = None,
) -> Ceiling:
    """That of a model, from so many samples of each prompt."""
    texts = written(model, tokenizer, questions, samples=samples, tokens=tokens, seed=seed, console=console)
    judged = judged_by_prompt(config.build(), questions, texts)
    return ceiling_of(config, judged, seed=seed)


def ceiling_of(config: RewardConfig, judged: Judged, *, seed: int = 0) -> Ceiling:
    """The ceiling from the rewards (P, M) of a base's texts."""
    rewards = list(judged.rewards)
    curve, best = sampled_frontier(rewards, seed=seed), sampled_best_of_n(rewards, seed=seed)
    return Ceiling(config, curve, best, False, {}, judged.failed, judged.rewards.size, len(rewards))


def judged_by_prompt(
    reward: Reward, questions: Sequence[Question], texts: Sequence[Sequence[Sample]]
) -> Judged:
    """The rewards (P, M) of the texts after each prompt."""
    pairs = [(asked.text, one.text) for asked, row in zip(questions, texts, strict=True) for one in row]
    judged = judge(reward, pairs)
    return Judged(judged.rewards.reshape(len(questions), -1), judged.failed)


def written(
    model: LanguageModel,
    tokenizer: Tokenizer,
    questions: Sequence[Question],
    *,
    samples: int,
    tokens: int,
    within: bool = False,
    seed: int = 0,
    console: Console | None = None,
) -> list[list[Sample]]:
    """What a model writes after each prompt, so many times, drawn as it predicts (temperature 1, nothing left out).
    `within`: no further than its context leads."""
    console = console or Console(quiet=True)
    requests = [
        TextRequest(asked.prompt, seed, number * samples + index)
        for number, asked in enumerate(questions)
        for index in range(samples)
    ]
    found, done = [], 0
    with console.working("writing", len(requests)):
        for sample, _ in Engine(model, tokenizer).write_each(
            requests, tokens=tokens, sampling=Sampling(), slots=AT_ONCE, within=within
        ):
            if sample.finish is not None:
                found.append(sample)
                done += 1
                console.advance(done, f"{done} of {len(requests)} texts", first=done == 1)
    ordered = in_order(found)
    return [ordered[at : at + samples] for at in range(0, len(ordered), samples)]
