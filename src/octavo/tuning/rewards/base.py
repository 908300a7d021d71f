"""What a reward is, and how texts are judged by one that may fail."""

from __future__ import annotations

import math
import traceback
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import numpy as np

from octavo.config.parts import PartConfig, PartOf, Strict
from octavo.errors import InputError
from octavo.synthetic.counting import Automaton


class Reward(ABC):
    """What a text is worth; more is better.

    Attributes:
        early: whether it can say what a text is worth that is not whole yet (`along`).
    """

    early: bool = False

    @abstractmethod
    def of(self, prompt: str, text: str) -> float:
        """The reward of `text`, written after `prompt` (and without it)."""

    def prepare(self, texts: Sequence[tuple[str, str]]) -> None:  # noqa: B027 - most judge a text at a time
        """Hear of texts, each with its prompt before it, that `of` will be asked for, to judge them side by side.
        Raises nothing for a text that it cannot judge."""

    def along(self, prompt: str, text: str, sizes: Sequence[int]) -> Sequence[float]:
        """What the text was worth while it was written: of each `text[:size]`, sizes ascending. Nothing, where nobody
        can say it before the text is whole."""
        return [0.0] * len(sizes)

    def automaton(self) -> Automaton | None:
        """What reads the same reward off a text's words, if that is possible: then a grammar's ceiling is exact."""
        return None


class RewardConfig(PartConfig):
    """Base of every kind of reward."""

    @abstractmethod
    def build(self) -> Reward:
        """The reward."""


class RewardHolder(Strict):
    """A reward on its own, as a command names one: a kind, or `{kind: …, option: …}`."""

    reward: Annotated[PartConfig, PartOf("reward")]


LARGEST = 1e100
"""Of a reward: larger ones cannot be squared and added."""


@dataclass(frozen=True)
class Judged:
    """Rewards (n,), NaN where there is none; why those are missing, with how many each."""

    rewards: np.ndarray
    failed: dict[str, int]

    @property
    def known(self) -> np.ndarray:
        """Where there is a reward, (n,)."""
        return np.isfinite(self.rewards)


def judge(reward: Reward, texts: Sequence[tuple[str, str]]) -> Judged:
    """The rewards of texts, each with its prompt before it. One that fails, or gives no finite number or one beyond
    `LARGEST`, has none.

    Raises InputError when not one of the texts has a reward.
    """
    reward.prepare(texts)
    found = np.full(len(texts), math.nan)
    failed: dict[str, int] = {}
    for number, (prompt, text) in enumerate(texts):
        try:
            value = float(reward.of(prompt, text))
            wrong = None if abs(value) <= LARGEST else f"gave {value:g}"
        except Exception as error:  # a function of the user's may raise anything
            value, wrong = math.nan, _told(error)
        if wrong is None:
            found[number] = value
        else:
            failed[wrong] = failed.get(wrong, 0) + 1
    if texts and not np.isfinite(found).any():
        raise InputError(
            f"The reward failed for each of {len(texts)} texts; at first it {next(iter(failed))}.",
            remedy="try it on one text in Python",
        )
    return Judged(found, failed)


def _told(error: Exception) -> str:
    """What was raised, and in which line of which function."""
    frames = traceback.extract_tb(error.__traceback__)
    place = f" in line {frames[-1].lineno} of {frames[-1].name}" if len(frames) > 1 else ""
    said = str(error).split("\n")[0]
    return f"raised {type(error).__name__}{f' ({said})' if said else ''}{place}"
