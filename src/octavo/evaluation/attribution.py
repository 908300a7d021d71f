"""Counting or learning: in a model that mixes n-grams with its network, who predicted which token?

For each token the gate says how much it trusted each side, or the mixer how much each had to say, and the token says
who gave it more probability.
K orders, N tokens.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from octavo.data import Split
from octavo.data.batch import NO_SIDE_INPUTS, Batch, SideInputs
from octavo.evaluation.reading_on import Heard
from octavo.model.base import LanguageModel
from octavo.model.gpt import GPT
from octavo.ngram.mixing import WINDOW
from octavo.ngram.mixture import CountedText, Sides
from octavo.ngram.recent import Texts
from octavo.tokenizers import Tokenizer
from octavo.training.objective import NextToken, Objective

SHOWN = 400
"""Tokens that are shown one by one, of those that stand side by side."""
ASIDE = 2
"""Places from one token to the next where a special token, which is not predicted, stands between them."""
LEAST = 1e-30
"""Probabilities are taken to be this at least, where float32 has zero."""


@dataclass(frozen=True)
class Credit:
    """What each side gave to N tokens, in their order.

    Attributes:
        weights: (N, K + 1) the gate's, the network's first.
        probabilities: (N, K + 1) of the token, by the network and by each order.
        tokens: (N,) their ids.
        places: (N,) where they stand in the split.
        recent: whether the last column, (N, K + 2) then, is of what the text has said so far.
    """

    weights: np.ndarray
    probabilities: np.ndarray
    tokens: np.ndarray
    places: np.ndarray
    recent: bool = False
    together: np.ndarray | None = None
    """(N,) the same by the model, where it is not their weighted mean."""
    mixer: bool = False
    """Whether the second column is of a context mixer and not of an order."""

    @property
    def network(self) -> np.ndarray:
        """(N,) the token's probability by the network."""
        return self.probabilities[:, 0]

    @property
    def counting(self) -> np.ndarray:
        """(N,) the same by all orders together, weighed as the gate weighs them."""
        weights = self.weights[:, 1:]
        return (weights * self.probabilities[:, 1:]).sum(axis=1) / weights.sum(axis=1)

    @property
    def mixture(self) -> np.ndarray:
        """(N,) the same by the model."""
        if self.together is not None:
            return self.together
        return (self.weights * self.probabilities).sum(axis=1)

    def attribution(self, tokenizer: Tokenizer) -> Attribution:
        """The figures of all tokens, and the first of them one by one."""
        wins = self.counting > self.network
        first = self.probabilities.argmax(axis=1)
        columns = range(self.weights.shape[1])
        last = columns[-1] if self.recent else None
        decoder = tokenizer.decoder()
        gaps = np.flatnonzero(np.diff(self.places) > ASIDE)
        shown = min(SHOWN, int(gaps[0]) + 1 if len(gaps) else SHOWN)
        pieces = [decoder.push(token) for token in self.tokens[:shown].tolist()]
        lead = np.log(self.counting[:shown] / self.network[:shown])
        return Attribution(
            tokens=len(self.tokens),
            counting_better=float(wins.mean()),
            trust_in_counting=float(1 - self.weights[:, 0].mean()),
            loss=_nats(self.mixture),
            network_loss=_nats(self.network),
            counting_loss=_nats(self.counting),
            sides=[
                Side(
                    order=None if column == last else column,
                    mixer=self.mixer and column == 1,
                    trust=float(self.weights[:, column].mean()),
                    loss=_nats(self.probabilities[:, column]),
                    best=float((first == column).mean()),
                )
                for column in columns
            ],
            sample=[[piece, float(each)] for piece, each in zip(pieces, lead.tolist(), strict=True)],
        )


@dataclass(frozen=True)
class Side:
    """The network (order 0), an order of the n-grams or the context mixer, or what the text has said so far (no order).

    Attributes:
        trust: mean weight.
        best: share of the tokens to which it gave more probability than all others.
    """

    order: int | None
    mixer: bool
    trust: float
    loss: float
    best: float


@dataclass(frozen=True)
class Attribution:
    """Counting beside learning, in nats per token.

    Attributes:
        counting_better: share of the tokens to which counting gave more probability than the network.
        trust_in_counting: mean weight of all that counts.
        sample: pieces of text, each with ln of counting's probability over the network's.
    """

    tokens: int
    counting_better: float
    trust_in_counting: float
    loss: float
    network_loss: float
    counting_loss: float
    sides: list[Side]
    sample: list[list[Any]]


def sentence(attribution: Mapping[str, Any]) -> str:
    """Who predicts, in a sentence."""
    share = attribution["trust_in_counting"]
    made = "Counting made every prediction" if share > 0.995 else f"Counting has {share:.0%} of the weight"
    return (
        f"{made}, and gave {attribution['counting_better']:.0%} of the tokens more probability than the network did. "
        f"Alone the network has {attribution['network_loss']:.3f} nats per token and counting "
        f"{attribution['counting_loss']:.3f}; together they have {attribution['loss']:.3f}."
    )


def _nats(probabilities: np.ndarray) -> float:
    return float(-np.log(probabilities).mean())


COUNTED = 50_000
"""Tokens of the validation split that are asked who predicted them."""


def judged_twice(split: Split) -> int:
    """Tokens of a split by which counting and learning are told apart."""
    return min(COUNTED, len(split.tokens))


@torch.no_grad()
def credit(model: LanguageModel, batches: Iterable[Batch[np.ndarray]], objective: Objective) -> Credit | None:
    """Who predicted the targets of batches that say where they stand; None of a model that does not count."""
    counts = getattr(model, "counts", None)
    if not isinstance(model, GPT) or not isinstance(counts, CountedText) or not counts.has_text:
        return None
    if not isinstance(objective, NextToken):
        return None
    device, was_training = next(model.parameters()).device, model.training
    places, scores, ids = [], [], []
    model.eval()
    for arrays in batches:
        batch = arrays.to(device)
        sides = sides_of(model, batch.inputs, batch.targets, batch.side_inputs or NO_SIDE_INPUTS)
        assert sides is not None and arrays.places is not None, "batches that score say where"
        there = (arrays.targets >= 0) & (arrays.places >= 0)
        flat = there.ravel()
        scores.append([side.double().numpy()[flat] for side in sides])
        ids.append(arrays.targets[there])
        places.append(arrays.places[there])
    model.train(was_training)
    if not scores:
        return None
    order = np.argsort(np.concatenate(places), kind="stable")
    weights, probabilities, together = (np.concatenate(side)[order] for side in zip(*scores, strict=True))
    recent = counts.recent is not None
    tokens, stand = (np.concatenate(each)[order] for each in (ids, places))
    mixed, counting = np.maximum(together, LEAST), np.maximum(probabilities, LEAST)
    return Credit(weights, counting, tokens, stand, recent, mixed, counts.mixer)


def heard(found: Heard, most: int) -> Credit | None:
    """Credit the first `most` tokens of a split, by what the mixer heard of each while the split was scored."""
    places = np.flatnonzero(found.places)[:most]
    if not len(places):
        return None
    asked, told = found.tokens[places], found.heard[places]
    bits = np.unpackbits(found.counts.units.cpu().numpy()[asked], axis=1)  # (n, CODE)
    network = np.where(told < 0, 1.0, np.where(bits > 0, told, 1 - told)).prod(axis=1)
    spans = np.stack((np.maximum(0, places - WINDOW), places), axis=1)
    alone = np.exp(found.counts.alone.score(found.tokens, spans, asked)[0])
    weights = np.stack((found.shares[places], 1 - found.shares[places]), axis=1)
    columns = (weights, np.stack((network, alone), axis=1), np.exp(found.logs[places]))
    sides, recent = Sides(*map(torch.from_numpy, columns)), found.counts.recent
    if recent is not None:
        texts = Texts.at(found.tokens, places, most=recent.most, vocab_size=recent.vocab_size)
        sides = sides.after(recent, texts, asked)
    return Credit(
        weights=sides.weights.numpy(),
        probabilities=np.maximum(sides.probabilities.numpy(), LEAST),
        tokens=asked,
        places=places,
        recent=recent is not None,
        together=np.maximum(columns[-1], LEAST),
        mixer=True,
    )


def sides_of(model: GPT, tokens: Tensor, targets: Tensor, side: SideInputs[Tensor]) -> Sides | None:
    """Who predicted `targets` (B, T) after each of `tokens` (B, T); None of a model that counts nothing."""
    counts = model.counts
    if not isinstance(counts, CountedText):
        return None
    model.settle()
    logits, x, earlier = model.network(tokens, None, side)
    return counts.sides(logits, x, tokens, earlier, targets=targets.clamp(min=0), segments=side.segments)
