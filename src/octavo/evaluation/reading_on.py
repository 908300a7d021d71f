"""A model whose counts go on learning in the text that it is judged by: each token is scored first, and then learned.

So compressors read, and with them such a figure compares; the evaluation's own loss is of the model as it was saved. A
text is read once, in its order, by a copy of the mixer, whose tables keep their size; what the network is worth is
learned on too.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn

from octavo.data.batch import NO_SIDE_INPUTS, Batch
from octavo.model.gpt import GPT
from octavo.ngram.codes import CODE
from octavo.ngram.mixing_counts import MixingCounts
from octavo.training.objective import NextToken, Objective


@dataclass(frozen=True)
class ReadOn:
    """What came of it.

    Attributes:
        total: nats of all tokens that were scored.
        alone: the same by the mixer without the network.
        tokens: how many there are.
    """

    total: float
    alone: float
    tokens: int

    def as_dict(self, text_bytes: int) -> dict[str, Any]:
        """For evaluation.json."""
        bits = [nats / math.log(2) / text_bytes for nats in (self.total, self.alone)]
        return {
            "loss": self.total / self.tokens,
            "bits_per_byte": bits[0],
            "alone_bits_per_byte": bits[1],
            "tokens": self.tokens,
        }


def said(found: Mapping[str, Any]) -> str:
    """What reading on brings, in a sentence."""
    return (
        f"Scored token by token, each learned after that, the text has {found['bits_per_byte']:.3f} bits per byte; "
        f"by the counts alone {found['alone_bits_per_byte']:.3f}."
    )


@torch.no_grad()
def reading_on(
    model: nn.Module, batches: Iterable[Batch[np.ndarray]], objective: Objective, tokens: np.ndarray
) -> ReadOn | None:
    """Score the tokens (N,) of a split, of which the batches say where each target stands; None of a model that cannot
    learn on."""
    counts = getattr(model, "counts", None)
    if not isinstance(model, GPT) or not isinstance(counts, MixingCounts) or not counts.has_text:
        return None
    if not isinstance(objective, NextToken):
        return None
    tokens = np.asarray(tokens).astype(np.int32)
    device, was_training = next(model.parameters()).device, model.training
    model.eval()
    model.settle()
    mixer, heard, scored = counts.tables, np.full((len(tokens), CODE), -1, np.float32), []
    for arrays in batches:
        batch = arrays.to(device)
        logits = model.network(batch.inputs, None, batch.side_inputs or NO_SIDE_INPUTS)[0]
        assert arrays.places is not None, "batches that score say where"
        there = (arrays.targets >= 0) & (arrays.places >= 0)
        said = logits[torch.from_numpy(there).to(device)].float().cpu().numpy()
        heard[arrays.places[there]] = mixer.hear(said, arrays.targets[there])
        scored.append(arrays.places[there])
    model.train(was_training)
    at = np.concatenate(scored) if scored else np.zeros(0, np.int64)
    if not len(at):
        return None
    read = int(at.max()) + 1
    units = int(mixer.codes.lengths[tokens[:read]].sum(dtype=np.int64))
    both = mixer.copy(more=units).read(tokens[:read], heard[:read])
    alone = counts.alone.copy(more=units).read(tokens[:read])
    total, by_counts = (float(each[at].astype(np.float64).sum()) for each in (both, alone))
    return ReadOn(total, by_counts, len(at))
