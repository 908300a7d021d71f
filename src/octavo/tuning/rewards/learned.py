"""The reward that a run has learned from pairs (`octavo tune reward`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

import numpy as np

from octavo.config.parts import FilePath, register
from octavo.corpus.records.turns import Message
from octavo.errors import InputError
from octavo.tuning.rewards.base import Reward, RewardConfig

if TYPE_CHECKING:
    from octavo.model.base import LanguageModel
    from octavo.tokenizers.chat import ChatTemplate

AT_ONCE = 32
"""Texts that are judged side by side."""


class Learned(Reward):
    """What a reward model says of a text as the assistant's answer; a prompt, if there is one, is what was asked."""

    def __init__(self, model: LanguageModel, template: ChatTemplate) -> None:
        self._model, self._template = model, template
        self._known: dict[tuple[str, str], float] = {}

    def prepare(self, texts: Sequence[tuple[str, str]]) -> None:
        self._known.clear()
        found: dict[tuple[str, str], np.ndarray] = {}
        for one in dict.fromkeys(texts):
            try:
                found[one] = self._ids(*one)
            except Exception:  # noqa: S112 - `of` raises it again, for its text
                continue
        ordered = sorted(found, key=lambda one: len(found[one]))  # little padding
        for at in range(0, len(ordered), AT_ONCE):
            part = ordered[at : at + AT_ONCE]
            self._known |= zip(part, self._rewards([found[one] for one in part]), strict=True)

    def of(self, prompt: str, text: str) -> float:
        """Raises ValueError for a text that does not fit into the model's context."""
        known = self._known.get((prompt, text))
        return self._rewards([self._ids(prompt, text)])[0] if known is None else known

    def _ids(self, prompt: str, text: str) -> np.ndarray:
        asked = [Message("user", prompt)] if prompt else []
        ids = self._template.render([*asked, Message("assistant", text)]).ids
        if len(ids) > self._model.context:
            raise ValueError(f"the reward model sees {self._model.context} tokens, and the text has more")
        return ids

    def _rewards(self, found: Sequence[np.ndarray]) -> list[float]:
        import torch

        from octavo.tuning.reward_model import rewards_of

        ids = np.full((len(found), max(map(len, found))), -1, np.int64)
        for row, one in zip(ids, found, strict=True):
            row[: len(one)] = one
        with torch.no_grad():
            return rewards_of(self._model, torch.from_numpy(ids)).tolist()


@register("reward")
class ModelConfig(RewardConfig):
    """What a run of `octavo tune reward` says. A model that is paid by it learns its mistakes too: judge it by another
    reward as well."""

    kind: Literal["model"] = "model"
    run: FilePath
    """The run."""

    def build(self) -> Reward:
        """Raises InputError where the run has learned no reward."""
        from octavo.run.run import Run
        from octavo.tokenizers.chat import ChatTemplate

        run = Run.open(self.run)
        if run.config.objective.kind != "bradley-terry":
            raise InputError(
                f"{self.run} has learned no reward: its objective is {run.config.objective.kind}.",
                remedy="octavo tune reward RUN --text pairs.jsonl makes one",
            )
        return Learned(run.model, ChatTemplate(run.tokenizer))
