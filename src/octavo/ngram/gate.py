"""The gates over counts, and how they begin: by what counting alone makes of text that was held out from it.

N tokens, K orders, H hidden units, V vocabulary, F features.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple, Self

import numpy as np
import torch
from torch import Tensor, nn

from octavo.ngram.kernel import Tables
from octavo.ngram.kneser_ney import KneserNey
from octavo.ngram.recent import FEATURES, HIDDEN, Gate, Texts

ROUNDS = 60
"""Of expectation–maximization."""
STEPS, RATE, BETAS = 100, 0.01, (0.9, 0.95)
"""Of Adam; the rate falls to zero. So few that a short text is not learned by heart."""
MOST = 8192
"""Held-out tokens that are looked at."""
TAIL, FEWEST_TAIL, MOST_TAIL = 5, 30, 80_000
"""One part of so many at the end of a text is read as if it were new: tokens that tell something, and at most."""
EVIDENCE = 2.0
"""Standard errors by which what a text has said has to help at its end. Of 48 texts of random symbols three had more;
of prose, code and tunes of 6 kB and more all have 3 to 25, and of those of 500 to 4,000 bytes that have less, what was
said helped none on the average."""
SHARE = 0.02
"""That what was said begins with where nothing is known."""
MOST_SHARE = 1 - 1e-4
"""However sure its gate is, a token that the text has not had keeps a chance."""
NOTHING = 1e-6
"""Its share where it does not help."""
LEVEL = 0.1
"""How hard the orders' weights are held at what they have in all, so that the network keeps its share."""


class Recent(nn.Module):
    """The gate: what share a prediction has from what the text has said so far.

    It learns once, from counting alone (`fit_recent`), and not with the network: what stands before a piece
    of the training text is known to the counts, and so helps less than what stands before new text.

    Args:
        most: tokens of the text so far that count.
    """

    into: Tensor
    """(H, F + 1); the last column of each matrix is a bias."""
    onto: Tensor
    """(1, H + 1)"""

    def __init__(self, *, most: int, vocab_size: int) -> None:
        super().__init__()
        self.most, self.vocab_size = most, vocab_size
        self.register_buffer("into", torch.zeros(HIDDEN, FEATURES + 1))
        self.register_buffer("onto", torch.zeros(1, HIDDEN + 1))
        self.start(SHARE)

    @torch.no_grad()
    def start(self, share: float) -> None:
        """Give what was said so far a fixed share, whatever is known."""
        drawn = np.random.Generator(np.random.Philox(0)).normal(size=(HIDDEN, FEATURES)) / FEATURES**0.5
        self.into[:, :-1] = torch.from_numpy(drawn).to(self.into)
        self.into[:, -1] = 0
        self.onto.zero_()
        self.onto[0, -1] = math.log(share / (1 - share))

    def texts(self, tokens: Tensor, earlier: Tensor | None = None, segments: Tensor | None = None) -> Texts:
        """Of the positions of `tokens` (B, T); see `Texts.of`."""
        given = (None if each is None else each.cpu().numpy() for each in (tokens, earlier, segments))
        return Texts.of(*given, most=self.most, vocab_size=self.vocab_size)  # type: ignore[arg-type]

    def forward(self, p: Tensor, texts: Texts) -> Tensor:
        """(N, V) probabilities from those of the rest of the model, in whose place they are put where no slope is asked
        for."""
        if not (torch.is_grad_enabled() and p.requires_grad):
            mixed = p.detach().cpu().contiguous()
            texts.mix(self.shares(texts).numpy(), mixed.numpy())
            return mixed.to(p.device)
        kept, added = (torch.from_numpy(each).to(p.device) for each in self.beside(texts))
        return p * kept[:, None] + added

    def beside(self, texts: Texts) -> tuple[np.ndarray, np.ndarray]:
        """(N,) the share that is kept of the probabilities of the rest of the model; (N, V) what is added to them."""
        count = len(texts.spans)
        kept, added = np.zeros(count, np.float32), np.zeros((count, self.vocab_size), np.float32)
        if texts.beside(self.gate(), kept, added):
            return kept, added
        shares = self.shares(texts)
        texts.mix(shares.numpy(), added)
        rest = torch.from_numpy(texts.shares_of(np.zeros(len(shares), np.int32))[1])
        return ((1 - shares.double()) + shares.double() * rest).float().numpy(), added

    @torch.no_grad()
    def shares(self, texts: Texts) -> Tensor:
        """(N,) weights of the cache by the gate."""
        known = torch.from_numpy(texts.known())
        return gated(known, self.into.float().cpu(), self.onto.float().cpu())

    def gate(self) -> Gate:
        """As the kernel reads it."""
        into, onto = (each.detach().float().cpu().numpy() for each in (self.into, self.onto))
        return Gate(into, onto, most=self.most, vocab_size=self.vocab_size)


def gated(known: Tensor, into: Tensor, onto: Tensor) -> Tensor:
    """(N,) shares from what is known (N, F), by weights (H, F + 1) and (1, H + 1)."""
    hidden = (known @ into[:, :-1].T + into[:, -1]).relu()
    return (hidden @ onto[0, :-1] + onto[0, -1]).sigmoid().clamp(max=MOST_SHARE)


class HeldOut(NamedTuple):
    """What counting knows of tokens that it has not seen: how often each context was (N, 2 (K − 1)), as
    `Tables.known` says, and the probability that each order gives to the token that came (N, K)."""

    known: np.ndarray
    probabilities: np.ndarray

    @classmethod
    def of(cls, tables: Tables, tokens: np.ndarray, held_out: np.ndarray) -> Self:
        """Of a text's tokens that are held out, in blocks that know nothing of each other; of many, some, evenly."""
        own, places = tokens[held_out], np.flatnonzero(held_out)
        fresh = np.diff(places, prepend=-2) != 1  # the first of a block
        after = np.flatnonzero(~fresh)
        after = after[np.linspace(0, len(after) - 1, min(MOST, len(after))).astype(np.int64)]
        contexts = np.ascontiguousarray(tables.contexts(own[None], fresh[None])[0][after - 1])
        return cls(tables.known(contexts), tables.probabilities(contexts, own[after]))


def best_weights(probabilities: np.ndarray) -> np.ndarray:
    """(K,) the fixed weights of the orders under which tokens (N, K) are most probable."""
    orders = probabilities.shape[1]
    weights = np.full(orders, 1 / orders)
    for _ in range(ROUNDS if len(probabilities) else 0):
        shares = probabilities * weights
        weights = (shares / shares.sum(axis=1, keepdims=True)).mean(axis=0)
    return weights


@torch.enable_grad()
def fit(held_out: HeldOut, from_state: nn.Linear, from_known: nn.Linear, out: nn.Linear) -> None:
    """Let the gate learn from counting alone, from the fixed weights that stand in the biases of `out` on.

    The network's row and whatever the gate hears of the network stay out: the state counts nothing, and neither does
    how sure it is, until training says otherwise.
    """
    if not len(held_out.known):
        return
    known, p = (torch.from_numpy(each).to(out.weight) for each in held_out)
    heard = known.shape[1]
    level = float(out.bias[1:].detach().logsumexp(dim=0))
    given = (from_known.weight[:, :heard], from_known.bias, out.weight[1:], out.bias[1:])
    values = [each.detach().clone().requires_grad_() for each in given]

    def loss() -> Tensor:
        into, into_bias, onto, onto_bias = values
        logits = (known @ into.T + into_bias).relu() @ onto.T + onto_bias  # (N, K)
        in_all = logits.logsumexp(dim=1)
        found = (p * (logits - in_all[:, None]).exp()).sum(dim=1).log()
        return LEVEL * ((in_all - level) ** 2).mean() - found.mean()

    adam(values, loss)
    with torch.no_grad():
        from_state.weight.zero_()
        from_known.weight[:, heard:] = 0
        for place, value in zip(given, values, strict=True):
            place.copy_(value)


@torch.enable_grad()
def fit_recent(recent: Recent, tokens: np.ndarray, orders: int) -> None:
    """Let the gate of what a text has said so far learn on the end of a text (M,), beside n-grams of what stands before
    it, as it will be with a text that goes on: what is held out in the middle is known from around. Where that helps no
    more than chance may, as in noise, it gets no share."""
    new = min(len(tokens) // TAIL, MOST_TAIL)
    if new < FEWEST_TAIL:
        recent.start(NOTHING)
        return
    before, tail = tokens[-TAIL * new : -new], np.ascontiguousarray(tokens[-new:])
    places = np.linspace(1, new - 1, min(MOST, new - 1)).astype(np.int64)
    ngrams = KneserNey(before, vocab_size=recent.vocab_size, highest=orders)
    by_order = ngrams.probabilities(tail)[:, places].T  # (N, K): all, for of noise the long ones are bad
    texts = Texts.at(tail, places, most=recent.most, vocab_size=recent.vocab_size)
    counted = (by_order @ best_weights(by_order)).astype(np.float32)
    said, rest = texts.shares_of(tail[places])
    said += rest * counted
    share = float(best_weights(np.stack((counted, said), axis=1))[1])
    share = min(max(share, 1e-3), 1 - 1e-3)
    recent.start(share)
    known, p, q = (torch.from_numpy(each).to(recent.into) for each in (texts.known(), counted, said))
    values = [each.detach().clone().requires_grad_() for each in (recent.into, recent.onto)]

    def gains() -> Tensor:
        shares = gated(known, *values)
        return ((1 - shares) * p + shares * q).log() - p.log()

    adam(values, lambda: -gains().mean())
    with torch.no_grad():
        found = gains().double()
        if not found.mean() > EVIDENCE * found.std() / len(found) ** 0.5:
            recent.start(NOTHING)
            return
        recent.into.copy_(values[0])
        recent.onto.copy_(values[1])


@contextmanager
def one_thread() -> Iterator[None]:
    """Compute in one thread: what is so small gains nothing by several, and they wait for each other on a busy machine,
    16 s for half a second; and the last bits do not depend on their number."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@one_thread()
def adam(values: list[Tensor], loss: Callable[[], Tensor]) -> None:
    """Kingma and Ba 2015. Our own lines, for torch's bring its compiler along, which takes a second to import."""
    means, squares = ([torch.zeros_like(each) for each in values] for _ in BETAS)
    for step in range(STEPS):
        slopes = torch.autograd.grad(loss(), values)
        (first, second), rate = BETAS, RATE * (1 - step / STEPS)
        with torch.no_grad():
            for value, slope, mean, square in zip(values, slopes, means, squares, strict=True):
                mean.lerp_(slope, 1 - first)
                square.lerp_(slope**2, 1 - second)
                spread = (square / (1 - second ** (step + 1))).sqrt() + 1e-8
                value -= rate / (1 - first ** (step + 1)) * mean / spread
