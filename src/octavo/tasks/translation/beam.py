"""Beam search: the most probable continuations of several sources at once, by a cache or, its slow twin, without one.

R rows (hypotheses of all sources), K beams, V vocabulary.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from octavo.data.batch import SideInputs


class State(ABC):
    """What a model has read of some rows."""

    @abstractmethod
    def read(self, tokens: Tensor) -> Tensor:
        """Logits (R, V) of what follows, after one more token (R,) for each row."""

    @abstractmethod
    def select(self, rows: Tensor) -> None:
        """Hold these rows, in this order; one may come several times, or never."""


class CachedState(State):
    """Reads each token once."""

    def __init__(self, model: Any, cache: Any) -> None:
        self.model, self.cache = model, cache

    def read(self, tokens: Tensor) -> Tensor:
        return self.model(tokens[:, None], self.cache)[:, -1].float()

    def select(self, rows: Tensor) -> None:
        self.cache.select(rows)


class FullState(State):
    """Reads everything again for each token: each row's `begun` (R, T) ids and what came since, beside its source or
    prefix."""

    def __init__(self, model: Any, begun: Tensor, side: SideInputs[Tensor]) -> None:
        self.model, self.ids, self.side = model, begun, side

    def logits(self) -> Tensor:
        """After what was read so far, (R, V)."""
        side, prefix = self.side, self.side.prefix
        if prefix is not None:
            longer = self.ids.size(1) - prefix.size(1)
            side = replace(side, prefix=torch.nn.functional.pad(prefix, (0, longer)))
        return self.model(self.ids, side=side)[:, -1].float()

    def read(self, tokens: Tensor) -> Tensor:
        self.ids = torch.cat((self.ids, tokens[:, None]), dim=1)
        return self.logits()

    def select(self, rows: Tensor) -> None:
        self.ids, self.side = self.ids[rows], self.side.at(rows)


@dataclass(frozen=True)
class Search:
    """How continuations are looked for.

    Attributes:
        beams: K, hypotheses of a source that go on at the same time; 1 is greedy.
        length_penalty: α; a hypothesis of n tokens, its end included, has the score log p / ((5 + n) / 6)^α (Wu et al.
            2016). 0: the log-probability itself, which favours short ones.
    """

    beams: int = 5
    length_penalty: float = 0.6

    def score(self, log_probability: float, tokens: int) -> float:
        """log p of a finished hypothesis over its length penalty."""
        return log_probability / ((5 + tokens) / 6) ** self.length_penalty


@dataclass(frozen=True)
class Found:
    """A finished hypothesis: its ids without the end, its log-probability with the end, and its score."""

    ids: tuple[int, ...]
    log_probability: float
    score: float

    @property
    def tokens(self) -> int:
        """Of it, its end included."""
        return len(self.ids) + 1


@torch.no_grad()
def beam_search(
    state: State, logits: Tensor, *, end: int, longest: Sequence[int], search: Search
) -> list[list[Found]]:
    """The best hypotheses of each source, best first, at most K.

    Of the K · V ways on, the best 2K are looked at; those of the first K that end are finished, and the first K that do
    not go on. A source is done when K are finished. With K = 1 this is greedy; with as many beams as there are
    hypotheses it is exhaustive.

    Args:
        state: has read what comes before, a row for each source; `logits` (sources, V) are those after it.
        longest: of each source, the most tokens of a hypothesis, its end included, which comes there at the latest.
    """
    beams, vocab = search.beams, logits.size(1)
    count, device = len(longest), logits.device
    finished: list[list[Found]] = [[] for _ in range(count)]
    open_ = torch.arange(count, device=device)  # the sources that are not done
    state.select(open_.repeat_interleave(beams))
    logits = logits.repeat_interleave(beams, dim=0)
    totals = torch.full((count, beams), -torch.inf, device=device, dtype=torch.float64)
    totals[:, 0] = 0.0
    written = torch.zeros(count, beams, 0, dtype=torch.long, device=device)
    limits = torch.tensor(list(longest), device=device)
    for length in range(1, int(limits.max()) + 1):
        ways = totals[:, :, None] + logits.double().log_softmax(dim=-1).view(len(open_), beams, vocab)
        last = limits[open_] == length
        if last.any():  # nothing but the end
            only = torch.full((vocab,), -torch.inf, device=device, dtype=torch.float64)
            only[end] = 0.0
            ways = torch.where(last[:, None, None], ways + only, ways)
        best, at = ways.flatten(1).topk(min(2 * beams, beams * vocab), dim=1)
        before, token = at // vocab, at % vocab
        ends = (token == end) & best.isfinite()
        taken = ends & (torch.arange(best.size(1), device=device) < beams)
        for row, place in taken.nonzero().tolist():
            ids = tuple(written[row, before[row, place]].tolist())
            total = best[row, place].item()
            finished[int(open_[row])].append(Found(ids, total, search.score(total, length)))
        done = last | torch.tensor([len(finished[i]) >= beams for i in open_.tolist()], device=device)
        going = best.masked_fill(token == end, -torch.inf)
        totals, chosen = going.topk(beams, dim=1) if going.size(1) >= beams else _padded(going, beams)
        done = done | ~totals[:, 0].isfinite()
        keep = (~done).nonzero()[:, 0]
        if not len(keep):
            break
        totals, chosen = totals[keep], chosen[keep]
        before, token = before[keep].gather(1, chosen), token[keep].gather(1, chosen)
        state.select((keep[:, None] * beams + before).flatten())
        written = torch.cat((written[keep[:, None], before], token[:, :, None]), dim=2)
        open_ = open_[keep]
        logits = state.read(token.flatten())
    return [sorted(found, key=lambda one: -one.score)[:beams] for found in finished]


def _padded(going: Tensor, beams: int) -> tuple[Tensor, Tensor]:
    """The best of fewer ways than there are beams; the beams that are left over are impossible."""
    totals, chosen = going.sort(dim=1, descending=True)
    missing = beams - going.size(1)
    pad = torch.nn.functional.pad
    return pad(totals, (0, missing), value=-torch.inf), pad(chosen, (0, missing))
