"""A model whose counts go on learning in the text that it is judged by: each token is scored first, and then learned.

So compressors read, and with them such a figure compares; the evaluation's own loss is of the model as it was saved. A
text is read once, in its order, by a copy of the mixer, whose tables keep their size. What the gate learned stays.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn

from octavo.data.batch import Batch
from octavo.evaluation.attribution import watched
from octavo.ngram.mixing_counts import MixingCounts
from octavo.training.objective import Objective


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
    learn on, and of batches that are not in the order of the text."""
    counts = getattr(model, "counts", None)
    if not isinstance(counts, MixingCounts) or (kept := counts.tables) is None:
        return None
    tokens = np.asarray(tokens)
    mixer = kept.copy(more=int(counts.lengths.cpu().numpy()[tokens].astype(np.int64).sum()))
    device, was_training = next(model.parameters()).device, model.training
    model.eval()
    read, total, alone, scored = 0, 0.0, 0.0, 0
    with watched(counts) as calls:
        for arrays in batches:
            batch = arrays.to(device)
            calls.clear()
            objective.evaluate(model, batch)
            assert arrays.places is not None, "batches that score say where"
            there = ((arrays.targets >= 0) & (arrays.places >= 0)).ravel()
            places = arrays.places.ravel()[there]
            if not len(places):
                continue
            if len(calls) != 1 or places.min() < read:
                return None
            (logits, x, *_), _ = calls[0]
            first, read = read, int(places.max()) + 1
            logs, known = mixer.follow(tokens[:read], first)
            said, seen = (np.zeros((len(there), *each.shape[1:]), np.float32) for each in (logs, known))
            said[there], seen[there] = logs[places - first], known[places - first]
            both = counts.gated(logits, x, said, seen)[0][torch.from_numpy(there).to(device)].double()
            asked = torch.from_numpy(arrays.targets.ravel()[there].astype(np.int64))[:, None]
            total -= float(both.cpu().gather(1, asked).sum())
            alone -= float(logs[places - first, asked[:, 0].numpy()].astype(np.float64).sum())
            scored += len(places)
    model.train(was_training)
    return ReadOn(total, alone, scored) if scored else None
