"""Rewards that a program can check: good pidgin, right sums, and several rewards together."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from typing import Annotated, Literal

from pydantic import Field

from octavo.config.parts import LARGEST, MOST, PartConfig, PartOf, Strict, register
from octavo.synthetic.checker import FEWEST_WORDS, MOST_WORDS, check, first_fault
from octavo.synthetic.counting import Automaton, Sign, State
from octavo.tuning.rewards.base import Reward, RewardConfig, RewardHolder

_SUM = re.compile(r"(?:.*[^\d.])?(\d+)\s*([-+*])\s*(\d+)\s*=\s*", re.DOTALL)
_NUMBER = re.compile(r"\s*(-?\d+)(?![\d.]*\d)")


class Pidgin(Reward):
    """1 for good pidgin."""

    early = True

    def __init__(self, words: tuple[int, int]) -> None:
        self._words = words

    def of(self, prompt: str, text: str) -> float:
        return float(check(text.strip(), words=self._words).ok)

    def along(self, prompt: str, text: str, sizes: Sequence[int]) -> Sequence[float]:
        """1 until a word is wrong."""
        fault = first_fault(text)
        return [float(fault is None or size < fault) for size in sizes]


class Arithmetic(Reward):
    """1 for the right result of the sum that the prompt ends with."""

    def of(self, prompt: str, text: str) -> float:
        """Raises ValueError for a prompt that ends in no sum."""
        asked = _SUM.fullmatch(prompt)
        if asked is None:
            raise ValueError(f"the prompt {prompt[-20:]!r} does not end in a sum such as 12+34=")
        first, sign, second = int(asked[1]), asked[2], int(asked[3])
        right = {"+": first + second, "-": first - second, "*": first * second}[sign]
        answer = _NUMBER.match(text)
        return float(answer is not None and int(answer[1]) == right)


Combine = Callable[[Sequence[float]], float]
"""What several rewards of a text are worth together."""


class Combined(Reward):
    """Several rewards as one; `early`: whether it can judge what is not whole yet."""

    def __init__(self, rewards: Sequence[Reward], combine: Combine, *, early: bool) -> None:
        self._rewards, self._combine, self.early = rewards, combine, early

    def of(self, prompt: str, text: str) -> float:
        return self._combine([reward.of(prompt, text) for reward in self._rewards])

    def prepare(self, texts: Sequence[tuple[str, str]]) -> None:
        for reward in self._rewards:
            reward.prepare(texts)

    def along(self, prompt: str, text: str, sizes: Sequence[int]) -> Sequence[float]:
        parts = [reward.along(prompt, text, sizes) for reward in self._rewards]
        return [self._combine(values) for values in zip(*parts, strict=True)]

    def automaton(self) -> Automaton | None:
        """All parts read the text at once."""
        found = [reward.automaton() for reward in self._rewards]
        read = [automaton for automaton in found if automaton is not None]
        return Several(read, self._combine) if len(read) == len(found) else None


class Several(Automaton):
    """Automata that read side by side, and what their values are worth together."""

    def __init__(self, parts: Sequence[Automaton], combine: Combine) -> None:
        self._parts, self._combine = parts, combine
        self.start: State = tuple(part.start for part in parts)

    def sign(self, word: str) -> Sign:
        return tuple(part.sign(word) for part in self._parts)

    def step(self, state: State, sign: Sign) -> State:
        assert isinstance(state, tuple) and isinstance(sign, tuple)
        return tuple(part.step(s, seen) for part, s, seen in zip(self._parts, state, sign, strict=True))

    def value(self, state: State) -> float:
        assert isinstance(state, tuple)
        return self._combine([part.value(s) for part, s in zip(self._parts, state, strict=True)])


@register("reward")
class PidginConfig(RewardConfig):
    """1 if the storyteller's checker finds nothing wrong with the story, else 0."""

    kind: Literal["pidgin"] = "pidgin"
    least: int = Field(FEWEST_WORDS, ge=0, le=MOST)
    """Fewest words of a story."""
    most: int = Field(MOST_WORDS, ge=0, le=MOST)
    """Most words of a story."""

    def build(self) -> Reward:
        return Pidgin((self.least, self.most))


@register("reward")
class ArithmeticConfig(RewardConfig):
    """1 if the text begins with the right result of the sum that ends the prompt (12+34=, 7*8=, 9-12=), else 0."""

    kind: Literal["arithmetic"] = "arithmetic"

    def build(self) -> Reward:
        return Arithmetic()


class WeightedReward(Strict):
    """One of several rewards."""

    reward: Annotated[PartConfig, PartOf("reward")]
    """Its kind and options."""
    weight: float = Field(1.0, ge=-LARGEST, le=LARGEST)
    """What it counts; below 0, less of it is better."""


@register("reward")
class SumConfig(RewardConfig):
    """Several rewards, each with its weight, added up."""

    kind: Literal["sum"] = "sum"
    of: tuple[WeightedReward, ...] = Field(min_length=1)
    """The rewards: a list of {reward: …, weight: …}."""

    def build(self) -> Reward:
        weights, rewards = [one.weight for one in self.of], [one.reward.build() for one in self.of]

        def weighted(values: Sequence[float]) -> float:
            return sum(weight * value for weight, value in zip(weights, values, strict=True))

        return Combined(rewards, weighted, early=any(reward.early for reward in rewards))


@register("reward")
class ProductConfig(RewardConfig):
    """Several rewards, multiplied: where one of them is 0, the others count for nothing."""

    kind: Literal["product"] = "product"
    of: tuple[RewardHolder, ...] = Field(min_length=2)
    """The rewards: a list of {reward: …}."""

    def build(self) -> Reward:
        rewards = [one.reward.build() for one in self.of]
        return Combined(rewards, math.prod, early=all(reward.early for reward in rewards))
