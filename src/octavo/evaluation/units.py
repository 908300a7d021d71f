"""The score of a split piece by piece: the same stretches of text whatever the tokenizer, for pairing and bootstrap.

A unit is a document, or several neighbours where there are more than `MOST` of them. A split of few documents is cut
into stretches of equal bytes instead. A token belongs to the unit that it begins in.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from octavo.data import Split
from octavo.data.batch import Batch
from octavo.evaluation.score import Score
from octavo.tokenizers import Tokenizer
from octavo.training.objective import NEXT_TOKEN, TEXT, Objective, Unit

FEW = 30  # documents; below that, they are too unlike each other to stand for the text
MOST = 1000
STRETCHES = 100
SHORTEST = 64  # bytes of a stretch


@dataclass(frozen=True)
class UnitScores:
    """Sums over the tokens of each unit, (units,) each: losses with their weights, bytes, tokens and what they count
    together, and the objective's metrics by name.
    """

    losses: np.ndarray
    bytes: np.ndarray
    tokens: np.ndarray
    weights: np.ndarray
    sums: Mapping[str, np.ndarray]
    unit: Unit = TEXT

    @property
    def total(self) -> Score:
        """All units together: the score of the whole split."""
        sums = {name: float(values.sum()) for name, values in self.sums.items()}
        return Score(
            float(self.losses.sum()), float(self.weights.sum()), int(self.tokens.sum()), sums, self.unit
        )

    def as_dict(self) -> dict[str, list[float] | list[int]]:
        """As plain data. `nats`: the sums of losses."""
        return {
            "nats": self.losses.tolist(),
            "bytes": self.bytes.tolist(),
            "tokens": self.tokens.tolist(),
            **{name: values.tolist() for name, values in self.sums.items()},
        }


@torch.no_grad()
def unit_scores(
    model: nn.Module,
    split: Split,
    tokenizer: Tokenizer,
    batches: Iterable[Batch[np.ndarray]],
    *,
    objective: Objective = NEXT_TOKEN,
    autocast: Callable[[], AbstractContextManager[Any]] = nullcontext,
) -> UnitScores:
    """Score a model on a whole split, as `score` does, unit by unit.

    Args:
        batches: what the recipe evaluates on.
    """
    owner, sizes = units_of(split, tokenizer)
    device = next(model.parameters()).device
    was_training = model.training
    model.eval()
    losses, weights, tokens = np.zeros(len(sizes)), np.zeros(len(sizes)), np.zeros(len(sizes), np.int64)
    sums = {metric.name: np.zeros(len(sizes)) for metric in objective.metrics}
    for arrays in batches:
        here = arrays.to(device)
        with autocast():
            given = objective.evaluate(model, here)

        assert arrays.places is not None, "batches that score say where"
        there = arrays.places >= 0

        def scored(values: Tensor, there: np.ndarray = there) -> np.ndarray:
            return values.double().cpu().numpy()[there]

        unit = owner[arrays.places[there]]
        weight = np.ones(len(unit)) if here.weights is None else scored(here.weights)
        np.add.at(losses, unit, scored(given.losses) * weight)
        np.add.at(weights, unit, weight)
        np.add.at(tokens, unit, 1)
        for name, summed in sums.items():
            np.add.at(summed, unit, scored(given.metrics[name]))
    model.train(was_training)
    return UnitScores(losses, sizes, tokens, weights, sums, objective.unit)


def units_of(split: Split, tokenizer: Tokenizer) -> tuple[np.ndarray, np.ndarray]:
    """The unit of every token (N,), and the bytes of every unit; the bytes sum to the split's."""
    if split.tokens.ndim == 2:  # rows of numbers: stretches of them
        count = min(STRETCHES, len(split.tokens))
        edges = np.arange(count + 1) * len(split.tokens) // count
        owner = np.repeat(np.arange(count), np.diff(edges))
        return owner, np.diff(edges * (split.bytes // len(split.tokens)))
    starts, documents = split.starts.astype(np.int64), split.documents
    begins = byte_offsets(split, tokenizer)
    if documents >= FEW and len(starts) == documents:
        count = min(documents, MOST)
        edges = starts[np.arange(count) * documents // count]
        places = np.arange(len(split.tokens))
        owner = np.maximum(np.searchsorted(edges, places, side="right") - 1, 0)
        at = begins[edges]
        at[0] = 0
        return owner, np.diff(np.append(at, split.bytes))
    count = max(1, min(STRETCHES, split.bytes // SHORTEST))
    at = np.arange(count + 1) * split.bytes // count
    owner = np.clip(np.searchsorted(at, begins, side="right") - 1, 0, count - 1)
    return owner, np.diff(at)


def byte_offsets(split: Split, tokenizer: Tokenizer) -> np.ndarray:
    """Where in the split's text each token begins, int64 (N,).

    Found by decoding. Where that does not give the text back (unknown words, lower case), offsets are stretched to
    its length. A document's end token stands for the line break after it.
    """
    tokens = np.asarray(split.tokens)
    edges = np.unique(np.append(split.starts.astype(np.int64), [0, len(tokens)]))
    ends = split.documents > 1 and len(split.starts) == split.documents
    begins = np.empty(len(tokens), np.int64)
    at = 0
    for first, stop in pairwise(edges.tolist()):
        decoder = tokenizer.decoder()
        for place, token in enumerate(tokens[first:stop].tolist(), first):
            begins[place] = at
            at += len(decoder.push(token).encode())
        at += len(decoder.finish().encode()) + ends
    if at != split.bytes and at:
        begins = (begins * (split.bytes / at)).astype(np.int64)
    return begins
