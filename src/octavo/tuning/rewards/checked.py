"""Rewards that a program can check: good pidgin, right sums, and several rewards together."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from octavo.config.parts import LARGEST, MOST, PartConfig, PartOf, Strict, register
from octavo.synthesis.checker import FEWEST_WORDS, MOST_WORDS, check, first_fault
from octavo.synthesis.counting import Automaton, Sign, State
from octavo.tuning.rewards.base import Reward, RewardConfig

_SUM = re.compile(r"(?:.*[^\d.])?(\d+)\s*([-+*])\s*(\d+)\s*=\s*", re.DOTALL)
_NUMBER = re.compile(r"\s*(-?\d+)(?![\d.]*\d)")


class Pidgin(Reward):
    """1 for good pidgin."""

    early = True

    def __init__(self, words: tuple[int, int]) -> None:
        self._words = words

    def of(self, prompt: str, text: str) -> float:
        """See the base class."""
        return float(check(text.strip(), words=self._words).ok)

    def along(self, prompt: str, text: str, sizes: Sequence[int]) -> Sequence[float]:
        """See the base class: 1 until a word is wrong."""
        fault = first_fault(text)
        return [float(fault is None or size < fault) for size in sizes]


class Arithmetic(Reward):
    """1 for the right result of the sum that the prompt ends with."""

    def of(self, prompt: str, text: str) -> float:
        """See the base class. Raises ValueError for a prompt that ends in no sum."""
        asked = _SUM.fullmatch(prompt)
        if asked is None:
            raise ValueError(f"the prompt {prompt[-20:]!r} does not end in a sum such as 12+34=")
        first, sign, second = int(asked[1]), asked[2], int(asked[3])
        right = {"+": first + second, "-": first - second, "*": first * second}[sign]
        answer = _NUMBER.match(text)
        return float(answer is not None and int(answer[1]) == right)


class Summed(Reward):
    """A weighted sum."""

    def __init__(self, rewards: Sequence[tuple[float, Reward]]) -> None:
        self._rewards = rewards
        self.early = any(reward.early for _, reward in rewards)

    def of(self, prompt: str, text: str) -> float:
        """See the base class."""
        return sum(weight * reward.of(prompt, text) for weight, reward in self._rewards)

    def prepare(self, texts: Sequence[tuple[str, str]]) -> None:
        """See the base class."""
        for _, reward in self._rewards:
            reward.prepare(texts)

    def along(self, prompt: str, text: str, sizes: Sequence[int]) -> Sequence[float]:
        """See the base class."""
        parts = [weight * np.array(reward.along(prompt, text, sizes)) for weight, reward in self._rewards]
        return np.sum(parts, axis=0).tolist()

    def automaton(self) -> Automaton | None:
        """See the base class: all parts read the text at once."""
        found = [(weight, reward.automaton()) for weight, reward in self._rewards]
        read = [(weight, automaton) for weight, automaton in found if automaton is not None]
        return Several(read) if len(read) == len(found) else None


class Several(Automaton):
    """Automata that read side by side; the value is a weighted sum of theirs."""

    def __init__(self, parts: Sequence[tuple[float, Automaton]]) -> None:
        self._parts = parts
        self.start: State = tuple(part.start for _, part in parts)

    def sign(self, word: str) -> Sign:
        """What each sees."""
        return tuple(part.sign(word) for _, part in self._parts)

    def step(self, state: State, sign: Sign) -> State:
        """Each a step."""
        assert isinstance(state, tuple) and isinstance(sign, tuple)
        return tuple(part.step(s, seen) for (_, part), s, seen in zip(self._parts, state, sign, strict=True))

    def value(self, state: State) -> float:
        """The weighted sum."""
        assert isinstance(state, tuple)
        return sum(weight * part.value(s) for (weight, part), s in zip(self._parts, state, strict=True))


@register("reward")
class PidginConfig(RewardConfig):
    """1 if the storyteller's checker finds nothing wrong with the story, else 0."""

    kind: Literal["pidgin"] = "pidgin"
    least: int = Field(FEWEST_WORDS, ge=0, le=MOST)
    """Fewest words of a story."""
    most: int = Field(MOST_WORDS, ge=0, le=MOST)
    """Most words of a story."""

    def build(self) -> Reward:
        """See the base class."""
        return Pidgin((self.least, self.most))


@register("reward")
class ArithmeticConfig(RewardConfig):
    """1 if the text begins with the right result of the sum that ends the prompt (12+34=, 7*8=, 9-12=), else 0."""

    kind: Literal["arithmetic"] = "arithmetic"

    def build(self) -> Reward:
        """See the base class."""
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
        """See the base class."""
        return Summed([(one.weight, one.reward.build()) for one in self.of])
