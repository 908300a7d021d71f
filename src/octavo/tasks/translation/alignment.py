"""Which source token a target token comes from: as attention says, as IBM model 1 says, along the diagonal; and how far
each is from the truth.

An alignment gives each of T target tokens a place in the source, or −1 for none.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from octavo.data.batch import SideInputs
from octavo.model.base import build_model
from octavo.model.capture import capture
from octavo.tasks.translation.encoder_decoder import EncoderDecoder, EncoderDecoderConfig

Sides = tuple[np.ndarray, np.ndarray]
"""Ids of a source and of its target."""
Links = frozenset[tuple[int, int]]
"""Places (source, target)."""


class WordModel:
    """IBM model 1 (Brown et al. 1993): t(target token | source token), each target token from any one of the source's,
    or from nothing, by expectation and maximization.

    Attributes:
        source, target: ids of each pair of tokens that some sentence has, (N,); source −1 is nothing.
        probabilities: t of each, (N,).
    """

    def __init__(self, pairs: Sequence[Sides], *, rounds: int = 8) -> None:
        first, second, group, groups = [], [], [], 0
        for source, target in pairs:
            ids = np.append(source.astype(np.int64), -1)
            first.append(np.tile(ids, len(target)))
            second.append(np.repeat(target.astype(np.int64), len(ids)))
            group.append(np.repeat(np.arange(groups, groups + len(target)), len(ids)))
            groups += len(target)
        both = np.stack([np.concatenate(first), np.concatenate(second)], axis=1)
        cells, cell = np.unique(both, axis=0, return_inverse=True)
        self.source, self.target = cells.T
        cell, owner = cell.ravel(), np.concatenate(group)
        _, word = np.unique(self.source, return_inverse=True)
        t = np.ones(len(cells))
        for _ in range(rounds):
            share = t[cell] / np.bincount(owner, t[cell])[owner]
            counted = np.bincount(cell, share)
            t = counted / np.bincount(word, counted)[word]
        self.probabilities = t
        self._known = dict(zip(map(tuple, cells.tolist()), self.probabilities.tolist(), strict=True))
        self._best: dict[int, int] = {}
        for at in np.argsort(self.probabilities, kind="stable").tolist():
            self._best[int(self.source[at])] = int(self.target[at])

    def align(self, source: np.ndarray, target: np.ndarray) -> list[int]:
        places = [*source.tolist(), -1]
        links = []
        for token in target.tolist():
            given = [self._known.get((place, token), 0.0) for place in places]
            best = int(np.argmax(given))
            links.append(best if best < len(source) and given[best] > 0 else -1)
        return links

    def translate(self, source: np.ndarray) -> list[int]:
        """Word for word: the likeliest target token of each source token; of one never seen, itself."""
        return [self._best.get(token, token) for token in source.tolist()]


def diagonal(source: np.ndarray, target: np.ndarray) -> list[int]:
    """Each target token from the place as far along the source."""
    return [min(len(source) - 1, place * len(source) // len(target)) for place in range(len(target))]


@dataclass(frozen=True)
class Truth:
    """What a pair's alignment has to have, and what it may have besides."""

    sure: Links
    possible: Links


def error_rate(found: Iterable[Sequence[int]], truths: Iterable[Truth]) -> float:
    """Alignment error rate (Och & Ney 2003): 1 − (|A ∩ S| + |A ∩ P|) / (|A| + |S|), over all pairs."""
    right = whole = 0
    for alignment, truth in zip(found, truths, strict=True):
        links = {(place, at) for at, place in enumerate(alignment) if place >= 0}
        right += len(links & truth.sure) + len(links & truth.possible)
        whole += len(links) + len(truth.sure)
    return 1 - right / whole


# Where an encoder–decoder looks in the source while it writes a given target.

CHOSEN_ON = 200
"""Training pairs on which the layer is chosen."""


@dataclass(frozen=True)
class Look:
    """Which attention is taken for an alignment: of a layer, at the position that writes a token (`after` 0) or that
    reads it (1)."""

    layer: int
    after: int


class Attended:
    """An encoder–decoder with explicit attention; `start` is the id that a target begins after."""

    def __init__(self, model: EncoderDecoder, config: EncoderDecoderConfig, *, start: int, end: int) -> None:
        self.model = build_model(config, vocab_size=model.vocab_size, seed=0, explicit_attention=True).eval()
        self.model.load_state_dict(model.state_dict())
        self.start, self.end = start, end
        self.layers = len(model.writer.blocks)

    @torch.no_grad()
    def of_heads(self, source: np.ndarray, target: np.ndarray) -> np.ndarray:
        """(layers, heads, T + 1, S), at the start and at each target token."""
        names = [f"writer.blocks.{layer}.cross.attend.weights" for layer in range(self.layers)]
        inputs = torch.tensor([[self.start, *target.tolist()]])
        with capture(self.model, names) as captured:
            self.model(inputs, side=SideInputs(source=torch.from_numpy(source.astype(np.int64))[None]))
        return np.stack([captured[name][0].numpy() for name in names])

    def weights(self, source: np.ndarray, target: np.ndarray) -> np.ndarray:
        """The same, the mean over the heads: (layers, T + 1, S)."""
        return self.of_heads(source, target).mean(axis=1)

    def align(self, sides: Sides, look: Look) -> list[int]:
        """For each target token the place that is looked at most."""
        weights = self.weights(*sides)[look.layer]
        return weights[look.after : look.after + len(sides[1])].argmax(axis=1).tolist()

    def chosen(self, pairs: Sequence[Sides], truths: Sequence[Truth]) -> Look:
        """The look whose alignments err least on these pairs."""
        every = [self.weights(*sides) for sides in pairs]

        def error(look: Look) -> float:
            found = [
                one[look.layer, look.after : look.after + len(target)].argmax(axis=1).tolist()
                for one, (_, target) in zip(every, pairs, strict=True)
            ]
            return error_rate(found, truths)

        looks = [Look(layer, after) for layer in range(self.layers) for after in (0, 1)]
        return min(looks, key=error)
