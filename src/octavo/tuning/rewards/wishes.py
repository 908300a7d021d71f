"""The reward for a story that keeps the wishes it was asked for."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal

from octavo.config.parts import register
from octavo.synthetic.wishes import Wish
from octavo.tuning.rewards.base import Reward, RewardConfig


class Wishes(Reward):
    """The share of the wishes in the prompt that a story keeps."""

    early = True

    def of(self, prompt: str, text: str) -> float:
        """Raises InputError for a prompt that is no wish."""
        return Wish.of(prompt).kept(text)

    def along(self, prompt: str, text: str, sizes: Sequence[int]) -> Sequence[float]:
        wish = Wish.of(prompt)
        wanted = "|".join(word for word in (wish.who, wish.where, wish.how) if word)
        changes = [found.end() for found in re.finditer(rf"\b(?:{wanted})\b|[.?]", text)]
        values: list[float] = []
        before = -1
        for size in sizes:
            # Only a word that was wished for, or the end of a sentence, changes what is kept.
            same = values and not any(before < change <= size for change in changes)
            values.append(values[-1] if same else wish.kept(text[:size]))
            before = size
        return values


@register("reward")
class WishesConfig(RewardConfig):
    """The share of the wishes that a story keeps: of prompts such as `tell of snail. in forest. end happy.`"""

    kind: Literal["wishes"] = "wishes"

    def build(self) -> Wishes:
        return Wishes()
