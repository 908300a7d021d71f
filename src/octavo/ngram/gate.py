"""The gate over counts before the first step: what counting alone makes of text that was held out from it.

N held-out tokens, K orders, H hidden units.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple, Self

import numpy as np
import torch
from torch import Tensor, nn

from octavo.ngram.kernel import Tables
from octavo.ngram.kneser_ney import KneserNey
from octavo.ngram.recent import Recent, Texts, gated

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
NOTHING = 1e-6
"""Its share where it does not help."""
LEVEL = 0.1
"""How hard the orders' weights are held at what they have in all, so that the network keeps its share."""


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
