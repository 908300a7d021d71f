"""Learning from what other models predict, besides the text itself: distillation (Hinton et al. 2015)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from octavo.dataset.batch import Batch
from octavo.training.objective import logits_of


@dataclass(frozen=True)
class Lesson:
    """What a teacher makes of a batch.

    Attributes:
        predicted: probability of every next token, (B, T, V).
        weight: share of the loss that is learning these; the rest is learning the text's own tokens.
    """

    predicted: Tensor
    weight: float


class Teachers:
    """Trained models that another learns from. Each step asks the next one: cross-entropy is linear in what is
    learned, so over the steps they teach the mean of their predictions, and many cost no more than one.
    """

    def __init__(self, models: Sequence[nn.Module], *, weight: float) -> None:
        self.models, self.weight = [model.eval().requires_grad_(False) for model in models], weight

    @torch.no_grad()
    def lesson(self, step: int, batch: Batch[Tensor]) -> Lesson:
        """The lesson of a step on a batch."""
        logits = logits_of(self.models[step % len(self.models)], batch)
        return Lesson(logits.float().softmax(dim=-1), self.weight)
