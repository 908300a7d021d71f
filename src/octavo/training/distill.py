"""Learning from what other models predict, besides the text itself: distillation (Hinton et al. 2015)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from octavo.data.batch import Batch
from octavo.data.batches import Batches
from octavo.tokenizers import Tokenizer
from octavo.training.objective import (
    Learning,
    Loss,
    Model,
    Objective,
    PerToken,
    at_least_float32,
    counts,
    logits_of,
)


class Distillation(Objective):
    """A share of the loss is cross-entropy with a teacher's predictions, soft targets; the rest another objective's.

    Each step asks the next teacher: cross-entropy is linear in what is learned, so over the steps they teach the mean
    of their predictions, and many cost no more than one. It is evaluated as the other objective is.

    Args:
        weight: the teachers' share.
    """

    recordable = False  # each step asks another teacher

    def __init__(self, objective: Objective, teachers: Sequence[nn.Module], *, weight: float) -> None:
        self.objective, self.weight = objective, weight
        self.teachers = [teacher.eval().requires_grad_(False) for teacher in teachers]
        self.unit, self.metrics = objective.unit, objective.metrics

    def set_tokenizer(self, tokenizer: Tokenizer) -> None:
        self.objective.set_tokenizer(tokenizer)

    def begin(self, learning: Learning) -> Batches:
        return self.objective.begin(learning)

    def improves(self, loss: float, best: float) -> bool:
        return self.objective.improves(loss, best)

    @torch.no_grad()
    def soft_targets(self, batch: Batch[Tensor], *, step: int) -> Tensor:
        """The probability of every next token, as the step's teacher sees it, (B, T, V)."""
        return logits_of(self.teachers[step % len(self.teachers)], batch).float().softmax(dim=-1)

    def loss(self, model: Model, batch: Batch[Tensor], *, step: int = 0) -> Loss:
        soft = self.soft_targets(batch, step=step)
        logits = at_least_float32(logits_of(model, batch))
        own = self.objective.loss(lambda *_, **__: logits, batch, step=step)  # it need not be computed twice
        taught = F.cross_entropy(logits.flatten(0, 1), soft.flatten(0, 1), reduction="none")
        total = (taught * counts(batch).flatten()).sum()
        reported = None if own.reported is None else torch.lerp(own.reported, total, self.weight)
        return Loss(torch.lerp(own.total, total, self.weight), own.metrics, reported=reported)

    def evaluate(self, model: Model, batch: Batch[Tensor]) -> PerToken:
        return self.objective.evaluate(model, batch)

    def baselines(
        self, train: np.ndarray | None, validation: np.ndarray, *, vocab_size: int
    ) -> Mapping[str, float]:
        return self.objective.baselines(train, validation, vocab_size=vocab_size)
