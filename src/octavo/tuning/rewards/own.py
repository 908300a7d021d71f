"""A reward of the user's own: a function `reward(prompt, text)` in a file that they name (`--parts`)."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any, ClassVar, Literal

from pydantic import create_model

from octavo.config.parts import register
from octavo.tuning.rewards.base import Reward, RewardConfig


class OwnReward(Reward):
    """What a function says. It may raise: see `judge`."""

    def __init__(self, function: Callable[[str, str], float]) -> None:
        self._function = function

    def of(self, prompt: str, text: str) -> float:
        return self._function(prompt, text)


class OwnRewardConfig(RewardConfig):
    """What a function of yours gives."""

    function: ClassVar[Callable[[str, str], float]]

    def build(self) -> Reward:
        return OwnReward(type(self).function)


def adopt(module: ModuleType, kind: str) -> None:
    """Register the function `reward` of a module, that was loaded because the user named it, as a reward of that kind.

    Raises ConfigError where there is such a kind already.
    """

    only: Any = Literal[kind]  # pyrefly: ignore[not-a-type] - known when the file is read
    made = create_model("Own", __base__=OwnRewardConfig, __module__=module.__name__, kind=(only, kind))
    made.function = module.reward
    made.__doc__ = (module.reward.__doc__ or f"The function `reward` of {kind}.py.").strip()
    register("reward")(made)
