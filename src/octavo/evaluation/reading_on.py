"""A model whose counts go on learning in the text that it is judged by: each token is scored first, and then learned.

So compressors read, and with them such a figure compares; the evaluation's own loss is of the model as it was saved. A
text is read once, in its order, by a copy of the mixer, whose tables keep their size; what the network is worth is
learned on too. What the network says of each token is heard while the split is scored, and where the text goes on from
block to block, of the first half of each once more, from the middle of the block before: no token needs to be predicted
from less than half a context.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import torch
from torch import nn

from octavo.data.batch import NO_SIDE_INPUTS, Batch
from octavo.evaluation.arithmetic import Decoder, Encoder, bit_bounds
from octavo.evaluation.score import score
from octavo.model.gpt import GPT
from octavo.ngram.codes import CODE
from octavo.ngram.mixing import COPYING, ContextMixing
from octavo.ngram.mixing_counts import NOTHING_READ, ROWS, Mixer, MixingCounts
from octavo.training.objective import Objective, PerToken
from octavo.util.processes import Meanwhile

AT_ONCE = 1.5
"""How many times as long as one mixer two take that read at once: they share a memory, and perhaps a core."""
ROOM = 3
"""How many times the units of a text a mixer that reads on in it has room for: then for a test split, which is as
long."""


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
    for an audit in those of a test split after it; both read at once. Nothing where no mixer counts."""
    counts = getattr(model, "counts", None)
    if not isinstance(counts, MixingCounts) or not isinstance(mixer := counts.tables, ContextMixing):
        return 0.0
    units = [
        int(mixer.codes.lengths[np.asarray(each)].sum(dtype=np.int64))
        for each in (validation, test)
        if each is not None
    ]
    # Of two copies one finds memory that was a copy's before.
    copies = (mixer.byte_seconds + COPYING) * len(mixer.memory)
    return copies + AT_ONCE * mixer.unit_seconds * sum(units)


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
        told: (N, CODE) what the mixer is told when it reads on.
        logs, shares: (N,), see `mixture.Judged`.
        places: (N,) whether the token was scored.
    """

    def __init__(self, counts: MixingCounts, tokens: np.ndarray) -> None:
        self.counts, self.tokens = counts, np.asarray(tokens).astype(np.int32)
        count = len(tokens)
        self.heard = self.told = np.full((count, CODE), -1, np.float32)
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

    @torch.no_grad()
    def listen_again(self, model: nn.Module) -> None:
        """Hear what was scored in the first half of a block again, from the middle of the block before it; blocks of
        `model.context` tokens stand side by side."""
        assert isinstance(model, GPT), "which counts"
        context, count = model.context, len(self.tokens)
        half, numbers = context // 2, np.arange(count) - 1  # of the token before each
        again = self.places & (numbers >= context) & (numbers % context < half)
        begins = np.unique(numbers[again] // context) * context - half
        device, was_training = next(model.parameters()).device, model.training
        model.eval()
        self.told = self.heard.copy()
        for first in range(0, len(begins), ROWS):
            at = begins[first : first + ROWS, None] + np.arange(2 * half)
            rows = torch.from_numpy(self.tokens[np.minimum(at, count - 1)].astype(np.int64)).to(device)
            said = model.network(rows, None, NO_SIDE_INPUTS)[0][:, half:].float().flatten(0, 1).cpu().numpy()
            asked = at[:, half:].ravel() + 1
            there = asked < count
            there[there] = again[asked[there]]
            asked = asked[there]
            self.told[asked] = self.counts.tables.hear(said[there], self.tokens[asked])
        model.train(was_training)

    def read(self, earlier: Heard | None = None) -> ReadOn | None:
        """Read on to the last token that was scored, after another split that stands before, if it is given."""
        if not self.places.any():
            return None
        end = int(np.flatnonzero(self.places)[-1]) + 1
        tokens, there, units = self.tokens[:end], self.places[:end], self.units
        room = ROOM * units + (0 if earlier is None else earlier.units)
        known = (None, None) if earlier is None else earlier.given_away(units)

        def read_by(counted: Mixer, mixer: Mixer | None, *, hears: bool) -> tuple[Mixer, np.ndarray]:
            if mixer is None:
                mixer = counted.copy(more=room)
                if earlier is not None:
                    mixer.read(earlier.tokens, earlier.told if hears else None)
            return mixer, mixer.read(tokens, self.told[:end] if hears else None)

        counted, tables = self.counts.alone, self.counts.tables
        meanwhile = Meanwhile(lambda: read_by(counted, known[1], hears=False))
        both, nats = read_by(tables, known[0], hears=True)
        alone, counted_nats = meanwhile.result()
        if end == len(self.tokens) and earlier is None:
            self.counts.read_on = self._key(), (both, alone), self
        total, by_counts = (float(each[there].astype(np.float64).sum()) for each in (nats, counted_nats))
        return ReadOn(total, by_counts, int(there.sum()))

    def given_away(self, units: int) -> tuple[Mixer | None, Mixer | None]:
        """The mixers that have read on in all of it, by all and by the counts alone, to read so many units more; Nones
        where they are not at hand, as afterwards."""
        key, mixers, _ = self.counts.read_on
        if key != self._key() or min(each.capacity - each.length for each in mixers) < units:
            return None, None
        self.counts.read_on = NOTHING_READ
        return mixers

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
    """Score the tokens (N,) of a split, of which the batches, blocks side by side, say where each target stands; None
    of a model that cannot learn on."""
    if (heard := Heard.of(model, tokens)) is None:
        return None
    score(model, batches, objective=objective, listener=heard)
    heard.listen_again(model)
    return heard.read()


def mixer_of(model: nn.Module, count: int) -> Mixer | None:
    """Copy the mixer of a model, so that it may read `count` tokens on; None where no mixer hears the model."""
    counts = getattr(model, "counts", None)
    if not isinstance(counts, MixingCounts) or not counts.has_text:
        return None
    return counts.tables.copy(more=count * int(counts.lengths.max()))


def encoded(tokens: np.ndarray, mixer: Mixer, network: Callable[[int], np.ndarray]) -> bytes:
    """Tokens (N,) as bytes, by a mixer that predicts each bit and learns it then; `network` gives logits (V,) after
    each token."""
    encoder, said, codes = Encoder(), None, mixer.codes
    for token in tokens.tolist():
        walk = mixer.walk(said)
        for bit in np.flatnonzero(codes.paths[token] >= 0).tolist():
            came = int(codes.units[token, bit // 8]) >> (7 - bit % 8) & 1
            assert walk.p is not None
            encoder.put(came, bit_bounds(walk.p))
            walk.go(came)
        said = network(token)
    return encoder.finish()


def decoded(content: bytes, count: int, mixer: Mixer, network: Callable[[int], np.ndarray]) -> np.ndarray:
    """So many tokens from what `encoded` wrote, by the same mixer and network."""
    decoder, said = Decoder(content), None
    found: list[int] = []
    for _ in range(count):
        walk = mixer.walk(said)
        while walk.p is not None:
            walk.go(decoder.take(bit_bounds(walk.p)))
        assert walk.token is not None
        found.append(walk.token)
        said = network(walk.token)
    return np.array(found, np.int64)
