"""The reward for a story that keeps the wishes it was asked for."""

from __future__ import annotations

from typing import Literal

from octavo.config.parts import register
from octavo.synthesis.wishes import Wish
from octavo.tuning.rewards.base import Reward, RewardConfig


class Wishes(Reward):
    """The share of the wishes in the prompt that a story keeps."""

    def of(self, prompt: str, text: str) -> float:
        """See the base class. Raises InputError for a prompt that is no wish."""
        return Wish.of(prompt).kept(text)


@register("reward")
class WishesConfig(RewardConfig):
    """The share of the wishes that a story keeps: of prompts such as `tell of snail. in forest. end happy.`"""

    kind: Literal["wishes"] = "wishes"

    def build(self) -> Wishes:
        """The reward."""
        return Wishes()
