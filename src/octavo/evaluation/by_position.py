"""Where a model's predictions are good: by the place in the window, and at the end of documents.

Gathered while a split is scored, so it costs no second pass. B sequences, T positions, V vocabulary.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from octavo.data.batch import NO_SIDE_INPUTS, Batch
from octavo.model.base import LanguageModel
from octavo.training.objective import PerToken
from octavo.util.records import OPTIONAL


@dataclass(frozen=True)
class Positions:
    """Mean loss in the third and in the last quarter of whole windows, and the gain with its standard error."""

    rows: int
    middle: float
    end: float
    gain: float
    error: float | None


@dataclass(frozen=True)
class DocumentEnds:
    """Whether a model knows where documents end.

    Attributes:
        probability, elsewhere: mean probability of the end token where documents end, and where they do not.
        rate: its share of all tokens.
        samples, samples_ended: how many texts the model wrote, and the share that came to an end of its own.
        held_out_ended: the share of held-out documents that are as short.
    """

    documents: int
    probability: float
    elsewhere: float | None
    rate: float
    samples: int | None = field(default=None, metadata=OPTIONAL)
    samples_ended: float | None = field(default=None, metadata=OPTIONAL)
    held_out_ended: float | None = field(default=None, metadata=OPTIONAL)


class Places:
    """Sums over the scored batches; `end` is the id that ends a document, if there is one."""

    def __init__(self, *, context: int, end: int | None) -> None:
        self.context, self.end = context, end
        self.rows, self.third, self.last = 0, 0.0, 0.0
        self.difference, self.square = 0.0, 0.0
        self.tokens, self.ends, self.probability, self.elsewhere = 0, 0, 0.0, 0.0

    def add(self, model: nn.Module, scored: PerToken, batch: Batch[Tensor]) -> None:
        """Add what a model gave each position of a batch."""
        losses, targets = scored.losses, batch.targets
        quarter = self.context // 4
        whole = losses[(targets >= 0).all(dim=1)].double() if targets.size(1) == self.context else losses[:0]
        if quarter and len(whole):
            last = whole[:, -quarter:].mean(dim=1)
            third = whole[:, -2 * quarter : -quarter].mean(dim=1)
            self.rows += len(whole)
            self.third += third.sum().item()
            self.last += last.sum().item()
            self.difference += (third - last).sum().item()
            self.square += (third - last).square().sum().item()
        if self.end is not None and (given := self._of_end(model, scored, batch)) is not None:
            there, other = targets == self.end, (targets >= 0) & (targets != self.end)
            self.ends += int(there.sum())
            self.tokens += int((targets >= 0).sum())
            self.probability += float(given[there].double().sum())
            self.elsewhere += float(given[other].double().sum())

    def _of_end(self, model: nn.Module, scored: PerToken, batch: Batch[Tensor]) -> Tensor | None:
        """(B, T) the probability of the end token."""
        if (logits := scored.logits) is not None:
            return (logits[..., self.end] - logits.logsumexp(dim=-1)).exp()
        if not isinstance(model, LanguageModel):
            return None
        ends = torch.full_like(batch.targets, self.end or 0)
        own = model.judged(batch.inputs, ends, batch.side_inputs or NO_SIDE_INPUTS)
        return None if own is None else own.logs.exp()

    def positions(self) -> Positions | None:
        """None where no window was whole."""
        if not self.rows:
            return None
        gain = self.difference / self.rows
        spread = max(0.0, self.square / self.rows - gain * gain)
        error = math.sqrt(spread / (self.rows - 1)) if self.rows > 1 else None
        middle, end = self.third / self.rows, self.last / self.rows
        return Positions(self.rows, middle, end, gain, error)

    def document_ends(self) -> DocumentEnds | None:
        """None where no document ended."""
        if not self.ends:
            return None
        other = self.tokens - self.ends
        return DocumentEnds(
            documents=self.ends,
            probability=self.probability / self.ends,
            elsewhere=self.elsewhere / other if other else None,
            rate=self.ends / self.tokens,
        )
