"""A model whose counts go on learning in the text that it is judged by: each token is scored first, and then learned.

So compressors read, and with them such a figure compares; the evaluation's own loss is of the model as it was saved. A
text is read once, in its order, by a copy of the mixer, whose tables keep their size; what the network is worth is
learned on too. What the network says of each token is heard while the split is scored.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from torch import nn

from octavo.data.batch import Batch
from octavo.evaluation.score import score
from octavo.ngram.codes import CODE
from octavo.ngram.mixing import COPYING, ContextMixing
from octavo.ngram.mixing_counts import Mixer, MixingCounts
from octavo.training.objective import Objective, PerToken
from octavo.util.processes import Meanwhile


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


def seconds_to_read_on(model: nn.Module, validation: np.ndarray, test: np.ndarray | None) -> float:
    """About how long it takes here to read on in the tokens of a validation split, by all and by the counts alone, and
    for an audit in those of a test split, before which the counts alone read the other again; both read at once.
    Nothing where no mixer counts."""
    counts = getattr(model, "counts", None)
    if not isinstance(counts, MixingCounts) or not isinstance(mixer := counts.tables, ContextMixing):
        return 0.0
    units = [
        int(mixer.codes.lengths[np.asarray(each)].sum(dtype=np.int64))
        for each in (validation, test)
        if each is not None
    ]
    copies = 2 * len(units) * COPYING * len(mixer.memory)
    return copies + mixer.unit_seconds * (sum(units) + (units[0] if len(units) > 1 else 0))


def said(found: Mapping[str, Any]) -> str:
    """What reading on brings, in a sentence."""
    return (
        f"Scored token by token, each learned after that, the text has {found['bits_per_byte']:.3f} bits per byte; "
        f"by the counts alone {found['alone_bits_per_byte']:.3f}."
    )


class Heard:
    """What a context mixer hears of the network at each of N tokens of a split, and what the model says of them as it
    is; gathered while the split is scored.

    Attributes:
        heard: (N, CODE), see `ContextMixing.hear`; below 0 where it was not asked.
        logs, shares: (N,), see `mixture.Judged`.
        places: (N,) whether the token was scored.
    """

    def __init__(self, counts: MixingCounts, tokens: np.ndarray) -> None:
        self.counts, self.tokens = counts, np.asarray(tokens).astype(np.int32)
        count = len(tokens)
        self.heard = np.full((count, CODE), -1, np.float32)
        self.logs, self.shares = (np.zeros(count, np.float32) for _ in range(2))
        self.places = np.zeros(count, bool)

    @classmethod
    def of(cls, model: nn.Module, tokens: np.ndarray) -> Self | None:
        """Of a model and the tokens of a split; None where no mixer hears it."""
        counts = getattr(model, "counts", None)
        return cls(counts, tokens) if isinstance(counts, MixingCounts) and counts.has_text else None

    def add(self, scored: PerToken, batch: Batch[np.ndarray]) -> None:
        """Take in what was said of a batch."""
        if (judged := scored.judged) is None:
            return
        assert batch.places is not None, "batches that score say where"
        there = (batch.targets >= 0) & (batch.places >= 0)
        at = batch.places[there]
        self.heard[at], self.shares[at], self.places[at] = judged.heard[there], judged.shares[there], True
        self.logs[at] = judged.logs.cpu().numpy()[there]

    def read(self, earlier: Heard | None = None) -> ReadOn | None:
        """Read on to the last token that was scored, after another split that stands before, if it is given."""
        if not self.places.any():
            return None
        end = int(np.flatnonzero(self.places)[-1]) + 1
        tokens, there, units = self.tokens[:end], self.places[:end], self.units
        counted, before = self.counts.alone, 0 if earlier is None else earlier.units

        def read_alone() -> np.ndarray:
            mixer = counted.copy(more=before + units)
            if earlier is not None:
                mixer.read(earlier.tokens)
            return mixer.read(tokens)

        alone = Meanwhile(read_alone)
        both = (self.counts.tables if earlier is None else earlier.after()).copy(more=units)
        nats = both.read(tokens, self.heard[:end]), alone.result()
        if end == len(self.tokens) and earlier is None:
            self.counts.read_on = self._key(), both, self
        total, by_counts = (float(each[there].astype(np.float64).sum()) for each in nats)
        return ReadOn(total, by_counts, int(there.sum()))

    def after(self) -> Mixer:
        """The mixer that has read on in all of it."""
        key, found, _ = self.counts.read_on
        if found is None or key != self._key():
            found = self.counts.tables.copy(more=self.units)
            found.read(self.tokens, self.heard)
        return found

    def known(self) -> Heard | None:
        """The same where all of this text was read on in last, by this model."""
        key, _, found = self.counts.read_on
        return found if key == self._key() else None

    @property
    def units(self) -> int:
        """Of all tokens."""
        return int(self.counts.lengths.cpu().numpy()[self.tokens].astype(np.int64).sum())

    def _key(self) -> bytes:
        return hashlib.sha256(self.tokens.tobytes() + self.counts.weights.cpu().numpy().tobytes()).digest()


def reading_on(
    model: nn.Module, batches: Iterable[Batch[np.ndarray]], objective: Objective, tokens: np.ndarray
) -> ReadOn | None:
    """Score the tokens (N,) of a split, of which the batches say where each target stands; None of a model that cannot
    learn on."""
    if (heard := Heard.of(model, tokens)) is None:
        return None
    score(model, batches, objective=objective, listener=heard)
    return heard.read()
