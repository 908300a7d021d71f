"""A learned reward: a model that says of an answer how good it is, trained on pairs (Bradley and Terry 1952).

B pairs, S ids of the longest side among them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import ClassVar, Literal

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from octavo.config import Recipe
from octavo.config.parts import register
from octavo.data import Dataset
from octavo.data.batch import Batch
from octavo.errors import ConfigError
from octavo.model.base import LanguageModel
from octavo.tokenizers import Tokenizer
from octavo.training.objective import (
    Metric,
    Model,
    Objective,
    ObjectiveConfig,
    Unit,
    at_least_float32,
    logits_of,
)
from octavo.tuning.preference import PREFERRED, OfPairs, answer_lengths, better

REWARD = "<|reward|>"
"""The special token whose row in the head is the scalar head: the last one of the vocabulary, which no text holds."""


def rewards_of(model: Model, ids: Tensor) -> Tensor:
    """How good each conversation of ids (N, S) is, −1 after its end: the logit of the last token after all of it, (N,).
    What follows the end changes nothing, for no place sees what comes later."""
    last = (ids >= 0).sum(dim=1).clamp(min=1) - 1
    rows = Batch(ids.clamp(min=0), torch.full_like(ids, -1))
    logits = at_least_float32(logits_of(model, rows))  # (N, S, V)
    return logits[torch.arange(len(ids), device=ids.device), last, -1]


def judges(tokenizer: Tokenizer) -> bool:
    """Whether the last token of a vocabulary is the reward's."""
    return tokenizer.special.get(REWARD) == tokenizer.vocab_size - 1


class BradleyTerry(OfPairs):
    """Make the chosen answer's reward larger than the rejected one's: the probability that the chosen one wins is the
    sigmoid of their difference."""

    unit = Unit("nats", "pair", text=False, counted="pairs")
    verb = "octavo tune reward"
    metrics = (
        *PREFERRED,
        Metric("margin", "margin", "reward of the chosen above the rejected answer", "{:.3f}"),
    )

    def refuse(self, recipe: Recipe, dataset: Dataset, model: LanguageModel, *, processes: int) -> None:
        super().refuse(recipe, dataset, model, processes=processes)
        if not judges(dataset.tokenizer):
            raise ConfigError(
                f"A reward is the logit of {REWARD}, which must be the last token.",
                remedy=f'tokenizer.special: […, "{REWARD}"], as the recipe tune-reward has it',
            )

    def judged(self, model: Model, batch: Batch[Tensor]) -> tuple[Tensor, dict[str, Tensor]]:
        assert batch.sides is not None, "batches of preferences"
        rewards = rewards_of(model, batch.sides.flatten(0, 1)).view(-1, 2)
        lengths = answer_lengths(batch)
        margin = rewards[:, 0] - rewards[:, 1]
        return -F.logsigmoid(margin), {
            "accuracy": better(rewards[:, 0], rewards[:, 1]),
            "longer": better(lengths[:, 0], lengths[:, 1]),
            "margin": margin,
        }

    def baselines(
        self, train: np.ndarray | None, validation: np.ndarray, *, vocab_size: int
    ) -> Mapping[str, float]:
        return {"coin": math.log(2)}


@register("objective")
class BradleyTerryConfig(ObjectiveConfig):
    """A reward is learned from pairs (Bradley–Terry): the model says how good an answer is; in nats per pair."""

    kind: Literal["bradley-terry"] = "bradley-terry"
    tunes: ClassVar[bool] = True
    reads: ClassVar[str] = "preferences"

    def build(self) -> Objective:
        return BradleyTerry()
