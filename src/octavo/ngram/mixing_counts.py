"""Context mixing beside learning: the training text read once by a context mixer, and a gate that weighs what it says
and what the network says.

Both are mixed in the logarithm (Bordley 1982; Hinton 2002): ln p = a · ln p of the network + b · ln p of the mixer, and
what makes the sum one. The gate gives a and b for each token, from the network's last state, from how sure both are,
and from how much of the context was seen. It begins with the mixer alone (a = 0, b = 1), and learns where both know
nothing of the text, as in `mixture`. The mixer stays as the training text left it.

B batch, T positions, C width, V vocabulary, N positions of all rows, H hidden units of the gate.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from typing import Any, ClassVar, Literal
from weakref import WeakValueDictionary

import numpy as np
import torch
from pydantic import Field
from torch import Tensor, nn

from octavo.config.parts import register
from octavo.errors import CorpusError
from octavo.ngram.codes import MOST_SYMBOLS, UNITS, Codes
from octavo.ngram.gate import fit_recent
from octavo.ngram.kernel import MOST_HIDDEN, Tables
from octavo.ngram.mixing import WINDOW, ContextMixing, compiled, context_mixing
from octavo.ngram.mixture import MOST_RECENT, Counts, CountsConfig, GatedCounts, Sides, Spelt, tables_of_text
from octavo.ngram.recent import Texts
from octavo.ngram.slow_mixing import ORDERS, SlowMixing

KNOWN = 6
"""What the gate hears: of the network and of the mixer the entropy and the largest ln p; ln(1 + length of the match);
which share of the shorter contexts was seen."""
FEWEST = 32
"""Tokens of a text."""
MOST_WITHOUT_KERNEL = 50_000
"""Tokens that are read where there is no C compiler; a kilobyte takes a second."""
REMEMBERED, WORTH = 64 << 20, 64
"""Bytes of predictions that are kept, for the looks at a validation split are at the same tokens; and how many
positions of a call are worth it."""
ORDERS_OF_RECENT = 8
"""N-grams beside which what a text has said so far is judged (`fit_recent`), and of drafts."""
MOST_COUNTED = 1_000_000
"""Tokens whose n-grams are counted for drafts."""
CODES = ("units", "lengths", "kinds", "folds")
Mixer = ContextMixing | SlowMixing
_held: WeakValueDictionary[tuple[bytes, bytes], Mixer] = WeakValueDictionary()
"""Mixers that something in this process still holds, by the text and its codes."""


class MixingCounts(GatedCounts):
    """A context mixer, and the gate; with `recent`, what a text has said so far."""

    mixer = True
    units: Tensor
    """(V, 2); this and what follows: see `Codes`."""
    lengths: Tensor
    kinds: Tensor
    folds: Tensor

    def __init__(self, *, hidden: int, width: int, vocab_size: int, recent: int = 0) -> None:
        super().__init__(near=WINDOW, recent=recent, vocab_size=vocab_size)
        self.fewest = FEWEST
        self.from_state = nn.Linear(width, hidden, bias=False)
        self.from_known = nn.Linear(KNOWN, hidden)
        self.out = nn.Linear(hidden, 2)
        sizes = {"units": (vocab_size, 2), "lengths": (vocab_size,), "kinds": (UNITS,), "folds": (UNITS,)}
        for name, size in sizes.items():
            self.register_buffer(name, torch.zeros(size, dtype=torch.uint8))
        self._remembered: OrderedDict[bytes, tuple[np.ndarray, np.ndarray]] = OrderedDict()

    def __getstate__(self) -> dict[str, Any]:
        return super().__getstate__() | {"_remembered": OrderedDict()}

    def take_text(
        self,
        tokens: np.ndarray,
        held_out: np.ndarray | None,
        *,
        learned: bool = False,
        spelt: Spelt | None = None,
    ) -> None:
        """What is held out is read last, so that what is read without it need not be read again."""
        tokens = np.asarray(tokens)
        if len(tokens) < FEWEST:
            raise CorpusError(
                f"The text has {len(tokens)} tokens; context mixing needs {FEWEST} at least.",
                remedy="Give more text, or set model.counts=none.",
            )
        in_order = tokens if held_out is None else np.concatenate((tokens[~held_out], tokens[held_out]))
        _refuse_without_kernel(len(tokens))
        if self.vocab_size > MOST_SYMBOLS:
            raise CorpusError(
                f"The vocabulary has {self.vocab_size:,} tokens; context mixing takes {MOST_SYMBOLS:,} at most.",
                remedy="Take a smaller vocabulary, or set model.counts=kneser-ney.",
            )
        texts = [""] * self.vocab_size if spelt is None else spelt()
        codes = Codes.of(np.bincount(in_order, minlength=self.vocab_size), texts)
        for name in CODES:
            buffer = getattr(self, name)
            buffer.copy_(torch.from_numpy(getattr(codes, name)))
        self._count(torch.from_numpy(in_order.astype(np.int32)).to(self.tokens))
        if held_out is not None and held_out.any() and not held_out.all():
            self._learned = self.counted(in_order, end=int((~held_out).sum()))
            self.gate_tokens = int(held_out.sum())
        if learned:
            return
        with torch.no_grad():
            self.out.weight.zero_()
            self.out.bias.zero_()
        if self.recent is not None:
            fit_recent(self.recent, tokens, ORDERS_OF_RECENT)

    def ngrams(self) -> Tables | None:
        """Of the last part of a long text, for it is counted once more."""
        text = self.tokens[-MOST_COUNTED:].cpu().numpy().astype(np.int32)
        return (
            tables_of_text(text, vocab_size=self.vocab_size, orders=ORDERS_OF_RECENT) if len(text) else None
        )

    def counted(self, tokens: np.ndarray, end: int | None = None) -> Mixer:
        """The mixer after a text, or after its first tokens; it goes on from these where they were read."""
        end = len(tokens) if end is None else end
        _refuse_without_kernel(len(tokens))
        codes = self._codes(tokens)
        units, ends = codes.encode(tokens)
        known, own = int(ends[end - 1]), hashlib.sha256(str(len(units)).encode())
        for part in (codes.units, codes.lengths, codes.kinds, codes.folds, codes.branches):
            own.update(part.tobytes())
        key = hashlib.sha256(units[:known].data).digest(), own.digest()
        if (found := _held.get(key)) is None:
            if isinstance(before := self._learned, Mixer) and before.length < known:
                found = before.copy()
            else:
                found = context_mixing(codes, capacity=len(units))
            found.read(units[found.length : known])
            _held[key] = found
        return found

    def _count(self, tokens: Tensor) -> None:
        super()._count(tokens)
        self._remembered.clear()

    def _codes(self, tokens: np.ndarray) -> Codes:
        own = (getattr(self, name).cpu().numpy() for name in CODES)
        return Codes(*own, counts=np.bincount(tokens, minlength=self.vocab_size))

    def together(
        self,
        counted: Mixer,
        logits: Tensor,
        x: Tensor,
        tokens: Tensor,
        earlier: Tensor | None,
        segments: Tensor | None,
    ) -> Tensor:
        said, known = self.said(counted, tokens, earlier, segments)
        return self.gated(logits, x, said, known)[0].exp()

    def said(
        self, counted: Mixer, tokens: Tensor, earlier: Tensor | None, segments: Tensor | None
    ) -> tuple[np.ndarray, np.ndarray]:
        """What the mixer says, (N, V) ln p and (N, 2) how much it knows, as `ContextMixing.predict` has them."""
        given = (None if each is None else each.cpu().numpy() for each in (tokens, earlier, segments))
        texts = Texts.of(*given, most=self.near, vocab_size=self.vocab_size)  # type: ignore[arg-type]
        spans = (
            texts.spans[:, 1:].astype(np.int64) + texts.spans[:, :1].astype(np.int64) * texts.text.shape[1]
        )
        text = np.maximum(texts.text, 0).ravel()  # what stands before a text's beginning is in no span
        if len(spans) < WORTH or self.training:
            return counted.predict(text, spans)
        key = hashlib.sha256(text.data).digest() + hashlib.sha256(spans.data).digest()
        if key in self._remembered:
            self._remembered.move_to_end(key)
            return self._remembered[key]
        found = self._remembered[key] = counted.predict(text, spans)
        while sum(logs.nbytes for logs, _ in self._remembered.values()) > REMEMBERED:
            self._remembered.popitem(last=False)
        return found

    def gated(self, logits: Tensor, x: Tensor, said: np.ndarray, known: np.ndarray) -> tuple[Tensor, Tensor]:
        """(N, V) ln p of both together, and (N, 2) the gate's numbers."""
        state = x.detach().to(self.out.bias.dtype).flatten(0, 1)  # (N, C)
        network = logits.detach().float().flatten(0, 1).log_softmax(dim=-1)  # (N, V)
        mixer = torch.from_numpy(said).to(network)
        facts = [
            each
            for logs in (network, mixer)
            for each in (-(logs.exp() * logs).sum(dim=-1), logs.amax(dim=-1))
        ]
        length, seen = torch.from_numpy(known).to(network).unbind(dim=-1)
        heard = torch.stack((*facts, length.log1p(), seen / ORDERS), dim=-1).to(state.dtype)  # (N, 6)
        hidden = (self.from_state(state) + self.from_known(heard)).relu()  # (N, H)
        weights = (self.out(hidden) + torch.tensor([0.0, 1.0]).to(hidden)).float()
        mixed = weights[:, :1] * network + weights[:, 1:] * mixer
        return mixed.log_softmax(dim=-1), weights

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
        """See `GatedCounts.sides`; the weights are the gate's shares, and count in the logarithm."""
        counted = self.tables
        if counted is None:
            return None
        said, known = self.said(counted, tokens, earlier, segments)
        both, weights = self.gated(logits, x, said, known)
        network = logits.detach().float().flatten(0, 1).softmax(dim=-1).cpu()
        asked = targets.reshape(-1, 1).cpu()
        found = [network.gather(1, asked), torch.from_numpy(said).gather(1, asked).exp()]
        shares = weights.cpu().clamp(min=0) + 1e-6
        shares, p = shares / shares.sum(dim=1, keepdim=True), both.exp().cpu().gather(1, asked)[:, 0]
        if self.recent is not None:
            texts = self.recent.texts(tokens, earlier, segments)
            had, rest = (torch.from_numpy(each) for each in texts.shares_of(asked[:, 0].numpy()))
            share = self.recent.shares(texts)
            p = (1 - share) * p + share * (had + rest * p)
            own = (share * (1 - rest))[:, None]
            shares = torch.cat((shares * (1 - own), own), dim=1)
            found.append(torch.where(rest < 1, had / (1 - rest), 0.0)[:, None])
        return Sides(shares, torch.cat(found, dim=1), p)

    def _make_room(self, _: nn.Module, weights: dict[str, Tensor], prefix: str, *__: Any) -> None:
        super()._make_room(_, weights, prefix, *__)
        if any(f"{prefix}{name}" in weights for name in CODES):
            _refuse_codes(weights, prefix)
            mine = all(
                torch.equal(getattr(self, name).cpu(), weights[f"{prefix}{name}"].cpu()) for name in CODES
            )
            if not mine:
                self._count(self.tokens)


def _refuse_without_kernel(tokens: int) -> None:
    if compiled() is None and tokens > MOST_WITHOUT_KERNEL:
        raise CorpusError(
            f"Context mixing would read {tokens:,} tokens without a C compiler, which takes hours; "
            f"{MOST_WITHOUT_KERNEL:,} are the most.",
            remedy="Install gcc or clang, or set model.counts=kneser-ney.",
        )


def _refuse_codes(weights: dict[str, Tensor], prefix: str) -> None:
    """Raise RuntimeError for codes that the kernel cannot trust."""
    found = [weights.get(f"{prefix}{name}") for name in CODES]
    if any(each is None or each.dtype != torch.uint8 for each in found):
        raise RuntimeError(f"{prefix}{', '.join(CODES)} must be numbers of 8 bits")
    units, lengths = weights[f"{prefix}units"], weights[f"{prefix}lengths"]
    if not bool(((lengths == 1) | (lengths == 2)).all()):
        raise RuntimeError(f"{prefix}lengths must be 1 or 2")
    whole = (units[:, 0].long() << 9) | torch.where(lengths == 2, units[:, 1].long() << 1 | 1, 0)
    first_of_two, alone = units[lengths == 2, 0], units[lengths == 1, 0]
    if len(whole.unique()) < len(whole) or bool(torch.isin(alone, first_of_two).any()):
        raise RuntimeError(
            f"{prefix}units must be a code of its own for each token, of which none begins another"
        )


@register("counts")
class MixingCountsConfig(CountsConfig):
    """A context mixer of the training text beside the network, mixed by a gate that begins with what the mixer knows:
    the strongest kind of counting. The run holds the training text, and remembers more of it. A text of more than
    50,000 tokens needs a C compiler."""

    kind: Literal["mixing"] = "mixing"
    takes_segments: ClassVar[bool] = True
    hidden: int = Field(32, ge=1, le=MOST_HIDDEN)
    """Hidden units of the gate."""
    share: float = Field(0.04, gt=0, lt=0.5)
    """Share of the training text, and of each batch, that the gate learns from and the network does not."""
    recent: int = Field(0, ge=0, le=MOST_RECENT)
    """Tokens of the text so far that are counted too, beyond the context as well, such as 2000; 0: none."""

    @property
    def before(self) -> int:
        return max(WINDOW, self.recent)

    @property
    def held_out(self) -> float:
        return self.share

    def parameters(self, *, width: int) -> int:
        return self.hidden * (width + KNOWN + 1) + (self.hidden + 1) * 2

    def table_bytes(self, tokens: np.ndarray, *, vocab_size: int) -> int:
        """There are two: of what the network learns from, and of all."""
        native = compiled()
        units = len(tokens) * (1 if vocab_size <= UNITS else 2)
        return 0 if native is None else 2 * native.mixing_bytes(units)

    def build(self, *, width: int, vocab_size: int) -> Counts:
        """The module."""
        return MixingCounts(hidden=self.hidden, width=width, vocab_size=vocab_size, recent=self.recent)
