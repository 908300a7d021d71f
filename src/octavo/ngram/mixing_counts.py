"""Context mixing beside learning: the training text read once by a context mixer, into whose mixture goes what the
network says.

What the network says of each bit is one more input of the mixer (see mixing.c), and how much it is worth is learned as
all weights of the mixer are: from text that is new to both. So the end of the training text is held out from the
network. The mixer, which reads all of the text in its order, hears the network there, and only the weights that it has
then are kept, for what it counts depends on the text alone. The network learns by itself. What a new text has said so
far, which the mixer does not learn where it is not read on, is mixed in after it (see recent.py).

B batch, T positions, C width, V vocabulary, N positions of all rows.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import cached_property
from typing import Any, ClassVar, Literal
from weakref import WeakValueDictionary

import numpy as np
import torch
from pydantic import Field
from torch import Tensor, nn

from octavo.config.parts import MOST, register
from octavo.data.batches import held_out_end
from octavo.errors import CorpusError
from octavo.ngram.codes import CODE, CODES, MOST_SYMBOLS, UNITS, Codes, refuse_codes
from octavo.ngram.gate import Recent, fit_recent
from octavo.ngram.kernel import Tables
from octavo.ngram.mixing import (
    FEWEST,
    MOST_COUNTED,
    ORDERS,
    WINDOW,
    Beside,
    ContextMixing,
    compiled,
    context_mixing,
    ngrams_beside,
)
from octavo.ngram.mixture import (
    CountedText,
    Counts,
    CountsConfig,
    Judged,
    Sides,
    Spelt,
    refuse_saved,
    to_mix,
)
from octavo.ngram.recent import MOST_RECENT, Texts, is_apart
from octavo.ngram.slow_mixing import MIXER, WEIGHTS, SlowMixing, refuse_mixer

MOST_WITHOUT_KERNEL = 50_000
"""Tokens that are read where there is no C compiler; a kilobyte takes a second."""
MOST_HEARD, ROWS = 16_384, 16
"""Tokens at the end of what is held out that the network is heard on at most; and sequences of them at once."""
Mixer = ContextMixing | SlowMixing
NOTHING_READ: tuple[bytes, Any, Any] = (b"", None, None)
_held: WeakValueDictionary[tuple[bytes, bytes], Mixer] = WeakValueDictionary()
"""Mixers that something in this process still holds, by the text and its codes."""


class MixingCounts(CountedText):
    """A context mixer of the training text, which hears the network.

    Args:
        most: tokens that it reads at most, the last ones; None: all.

    Attributes:
        weights: by which predictions are mixed, as the mixer has them.
        read_on: a whole text in which was read on, the mixers after it, by all and by the counts alone, and what was
            heard there: who reads what comes after that text need not read it again (`evaluation.reading_on`).
    """

    mixer = True
    units: Tensor
    """(V, 2); this and what follows: see `Codes`."""
    lengths: Tensor
    kinds: Tensor
    folds: Tensor
    weights: Tensor
    mixer_version: Tensor

    def __init__(self, *, vocab_size: int, recent: int = 0, most: int | None = None) -> None:
        super().__init__(near=WINDOW, before=max(WINDOW, recent), vocab_size=vocab_size)
        self.fewest, self.most = FEWEST, most
        self.recent = Recent(most=recent, vocab_size=vocab_size) if recent else None
        sizes = {"units": (vocab_size, 2), "lengths": (vocab_size,), "kinds": (UNITS,), "folds": (UNITS,)}
        for name, size in sizes.items():
            self.register_buffer(name, torch.zeros(size, dtype=torch.uint8))
        self.register_buffer("weights", torch.zeros(WEIGHTS))
        self.register_buffer("mixer_version", torch.tensor(MIXER, dtype=torch.uint8))
        self.read_on = NOTHING_READ
        self._before: Mixer | None = None  # what was read before the network is heard
        self._heard = 0  # tokens at the end of the text

    def __getstate__(self) -> dict[str, Any]:
        counted = ("_weighed", "_ngrams")
        kept = {name: value for name, value in super().__getstate__().items() if name not in counted}
        return kept | {"read_on": NOTHING_READ}

    def take_text(
        self,
        tokens: np.ndarray,
        held_out: np.ndarray | None,
        *,
        learned: bool = False,
        spelt: Spelt | None = None,
    ) -> None:
        """What is held out is read last, as it stands in the text."""
        tokens = np.asarray(tokens)
        if len(tokens) < FEWEST:
            raise CorpusError(
                f"The text has {len(tokens)} tokens; context mixing needs {FEWEST} at least.",
                remedy="Give more text, or set model.counts=none.",
            )
        in_order = tokens if held_out is None else np.concatenate((tokens[~held_out], tokens[held_out]))
        in_order = in_order[-(self.most or len(in_order)) :]
        _refuse_without_kernel(len(in_order))
        if self.vocab_size > MOST_SYMBOLS:
            raise CorpusError(
                f"The vocabulary has {self.vocab_size:,} tokens; context mixing takes {MOST_SYMBOLS:,} at most.",
                remedy="Take a smaller vocabulary, or set model.counts=kneser-ney.",
            )
        texts = [""] * self.vocab_size if spelt is None else spelt()
        codes = Codes.of(np.bincount(in_order, minlength=self.vocab_size), texts)
        for name in CODES:
            getattr(self, name).copy_(torch.from_numpy(getattr(codes, name)))
        self._count(torch.from_numpy(in_order.astype(np.int32)).to(self.tokens))
        self._heard = 0 if held_out is None else min(MOST_HEARD, int(held_out.sum()), len(in_order) - 1)
        if self._heard:
            self._before = self.counted(in_order, end=len(in_order) - self._heard)
            self.is_stale = True
        if not learned:
            self._weigh(self._all.weights)
            if self.recent is not None:
                fit_recent(self.recent, tokens[-MOST_COUNTED:], ORDERS)

    def ngrams(self) -> Tables | None:
        if not self.has_text:
            return None
        # Held, so that they are counted once.
        self._ngrams = ngrams_beside(self.tokens.cpu().numpy(), vocab_size=self.vocab_size)
        return self._ngrams

    def counted(self, tokens: np.ndarray, end: int | None = None) -> Mixer:
        """The mixer after a text, or after its first tokens; it goes on from these where they were read."""
        end = len(tokens) if end is None else end
        _refuse_without_kernel(len(tokens))
        codes = self._codes(tokens)
        own = hashlib.sha256()
        for part in (codes.units, codes.lengths, codes.kinds, codes.folds, codes.branches):
            own.update(part.tobytes())
        whole = np.ascontiguousarray(tokens, np.int32)
        key = hashlib.sha256(whole.data).digest(), own.digest() + end.to_bytes(8)
        if (found := _held.get(key)) is None:
            done, before = 0, self._before
            if before is not None and self._heard and end == len(tokens):
                found, done = before.copy(), len(tokens) - self._heard
            else:
                found = context_mixing(codes, capacity=codes.taken_by(tokens))
            nats = found.read(whole[done:end])
            found.nats = nats if before is None or not done else np.concatenate((before.nats, nats))
            _held[key] = found
        return found

    def _count(self, tokens: Tensor) -> None:
        super()._count(tokens)
        self._before, self._heard, self.is_stale = None, 0, False
        self.__dict__.pop("_weighed", None)

    def _codes(self, tokens: np.ndarray) -> Codes:
        own = (getattr(self, name).cpu().numpy() for name in CODES)
        return Codes(*own, counts=np.bincount(tokens, minlength=self.vocab_size))

    def _weigh(self, weights: np.ndarray) -> None:
        self.weights.copy_(torch.from_numpy(weights))
        self.__dict__.pop("_weighed", None)

    @cached_property
    def _weighed(self) -> Mixer:
        return self._all.weighing(self.weights.float().cpu().numpy())

    @property
    def tables(self) -> Any:
        return self._weighed if self.has_text else None

    @property
    def alone(self) -> Mixer:
        """The mixer that hears no network."""
        return self._all

    @property
    def nats(self) -> np.ndarray:
        """(N,) −ln of the probability that each token of the text had when the mixer read it."""
        return self._all.nats

    @torch.no_grad()
    def hear(self, network: Callable[[Tensor], Tensor], context: int) -> None:
        """Learn what a network is worth that gives logits (B, T, V) after each of tokens (B, T ≤ `context`)."""
        self.is_stale = False
        if self._before is None:
            return
        tail = self.tokens[-self._heard :].to(torch.int64)
        mixer, heard = self._before.copy(), np.full((len(tail), CODE), -1, np.float32)
        for begin in range(0, len(tail) - 1, ROWS * context):
            end = min(begin + ROWS * context, len(tail) - 1)
            rows = max(1, (end - begin) // context)
            whole = begin + min(rows * context, end - begin)
            for first, last, shape in ((begin, whole, (rows, -1)), (whole, end, (1, -1))):
                if first < last:
                    said = network(tail[first:last].view(shape)).float().cpu().numpy()
                    following = tail[first + 1 : last + 1].cpu().numpy()
                    heard[first + 1 : last + 1] = mixer.hear(said.reshape(last - first, -1), following)
        mixer.read(tail.cpu().numpy().astype(np.int32), heard)
        self._weigh(mixer.weights)

    def forward(
        self,
        logits: Tensor,
        x: Tensor,
        tokens: Tensor,
        earlier: Tensor | None = None,
        *,
        segments: Tensor | None = None,
        alone: Tensor | None = None,
    ) -> Tensor:
        """While it trains, the network's logits, which it learns by."""
        if self.training:
            self.is_stale = self._before is not None
            return logits
        rows = to_mix(tokens, alone)
        if (mixer := self.tables) is None or not len(rows):
            return logits
        here = rows.to(logits.device)
        chosen = [None if each is None else each[here] for each in (earlier, segments)]
        logs = torch.from_numpy(mixer.predict(*self._where(tokens[here], *chosen), _said(logits[here])))
        if self.recent is not None and not is_apart():
            logs = self.recent(logs.exp(), self.recent.texts(tokens[here], *chosen)).log()
        logs = logs.to(logits.device).view(len(rows), *logits.shape[1:])
        return logs if alone is None else logits.float().index_copy(0, here, logs)

    def judged(
        self,
        logits: Tensor,
        tokens: Tensor,
        earlier: Tensor | None,
        segments: Tensor | None,
        targets: Tensor,
    ) -> Judged | None:
        """Of `targets` (B, T) alone, which takes a fraction of the time; None before any text was taken."""
        if (mixer := self.tables) is None:
            return None
        asked, said = targets.flatten().cpu().numpy(), _said(logits)
        beside = None
        if self.recent is not None:
            beside = Beside(*self.recent.beside(self.recent.texts(tokens, earlier, segments)))
        where = self._where(tokens, earlier, segments)
        logs, shares, first = mixer.score(*where, asked, said, beside)
        shape, heard = targets.shape, mixer.hear(said, asked)
        logs, first = (torch.from_numpy(each).to(targets.device).view(shape) for each in (logs, first))
        return Judged(logs, first > 0, heard.reshape(*shape, CODE), shares.reshape(shape))

    def _where(
        self, tokens: Tensor, earlier: Tensor | None, segments: Tensor | None
    ) -> tuple[np.ndarray, np.ndarray]:
        """A text, and the spans (N, 2) of it that stand before what follows each of `tokens`."""
        given = (None if each is None else each.cpu().numpy() for each in (tokens, earlier, segments))
        texts = Texts.of(*given, most=self.near, vocab_size=self.vocab_size)  # type: ignore[arg-type]
        spans = texts.spans.astype(np.int64)
        text = np.maximum(texts.text, 0).ravel()  # what stands before a text's beginning is in no span
        return text, spans[:, 1:] + spans[:, :1] * texts.text.shape[1]

    @torch.no_grad()
    def sides(
        self,
        logits: Tensor,
        x: Tensor,
        tokens: Tensor,
        earlier: Tensor | None = None,
        *,
        targets: Tensor,
        segments: Tensor | None = None,
    ) -> Sides | None:
        """See `CountedText.sides`. The weights are shares of what was said, by the numbers that go into the mixture."""
        if (mixer := self.tables) is None:
            return None
        where, asked = self._where(tokens, earlier, segments), targets.flatten().cpu().numpy()
        logs, shares, _ = mixer.score(*where, asked, _said(logits))
        alone = self.alone.score(*where, asked)[0]
        network = logits.detach().float().flatten(0, 1).softmax(dim=-1).cpu()
        found = (network.gather(1, targets.reshape(-1, 1).cpu()), torch.from_numpy(alone).exp()[:, None])
        weights, together = (
            torch.from_numpy(np.stack((shares, 1 - shares), axis=1)),
            torch.from_numpy(logs).exp(),
        )
        sides = Sides(weights, torch.cat(found, dim=1), together)
        if self.recent is None:
            return sides
        return sides.after(self.recent, self.recent.texts(tokens, earlier, segments), asked)

    def _make_room(self, _: nn.Module, weights: dict[str, Tensor], prefix: str, *__: Any) -> None:
        super()._make_room(_, weights, prefix, *__)
        if any(f"{prefix}{name}" in weights for name in CODES):
            found = (weights.get(f"{prefix}{name}") for name in CODES)
            refuse_saved(prefix, refuse_codes, *found, vocab_size=self.vocab_size)
            mine = all(
                torch.equal(getattr(self, name).cpu(), weights[f"{prefix}{name}"].cpu()) for name in CODES
            )
            if not mine:
                self._count(self.tokens)
        if (own := weights.get(f"{prefix}weights")) is not None:
            refuse_saved(prefix, refuse_mixer, weights.get(f"{prefix}mixer_version"))
            if own.shape != self.weights.shape or not bool(own.isfinite().all()):
                raise RuntimeError(f"{prefix}weights must be {WEIGHTS:,} finite numbers")
            self.is_stale = False
            self.__dict__.pop("_weighed", None)


def _said(logits: Tensor) -> np.ndarray:
    """(N, V)"""
    return np.ascontiguousarray(logits.detach().float().flatten(0, 1).cpu().numpy())


def _refuse_without_kernel(tokens: int) -> None:
    if compiled() is None and tokens > MOST_WITHOUT_KERNEL:
        raise CorpusError(
            f"Context mixing would read {tokens:,} tokens without a C compiler, which takes hours; "
            f"{MOST_WITHOUT_KERNEL:,} are the most.",
            remedy="Install gcc or clang, or set model.counts=kneser-ney.",
        )


@register("counts")
class MixingCountsConfig(CountsConfig):
    """A context mixer of the training text, which mixes in what the network says: the strongest kind of counting. The
    run holds the training text, and remembers more of it. A text of more than 50,000 tokens needs a C compiler."""

    kind: Literal["mixing"] = "mixing"
    takes_segments: ClassVar[bool] = True
    reads_on: ClassVar[bool] = True
    share: float = Field(0.04, gt=0, lt=0.5)
    """Share of the training text, at its end, that the network does not learn from, so that the mixer can learn what it
    is worth; of a long text some 16,000 tokens."""
    recent: int = Field(2000, ge=0, le=MOST_RECENT)
    """Tokens of the text so far that are counted too where the mixer does not read on; 0: none."""
    most: int | None = Field(None, ge=MOST_HEARD, le=MOST)
    """Tokens that it reads at most, the last ones of the training text; empty: all of it. A million take some six
    seconds."""

    @property
    def before(self) -> int:
        return max(WINDOW, self.recent)

    @property
    def held_out(self) -> float:
        return self.share

    def held_out_of(self, starts: np.ndarray, size: int, *, context: int) -> np.ndarray | None:
        """The end of the text, so that the mixer reads it in its order."""
        return held_out_end(starts, size, share=self.share, most=MOST_HEARD, context=context)

    @property
    def gate_share(self) -> float:
        return 0.0

    def table_bytes(self, tokens: np.ndarray, *, vocab_size: int) -> int:
        """There are two: of what is read before the network is heard, and of all; and a copy of the first for as long
        as it is heard."""
        native = compiled()
        units = min(len(tokens), self.most or len(tokens)) * (1 if vocab_size <= UNITS else 2)
        return 0 if native is None else 3 * native.mixing_bytes(units)

    def build(self, *, width: int, vocab_size: int) -> Counts:
        """The module."""
        return MixingCounts(vocab_size=vocab_size, recent=self.recent, most=self.most)
