"""Memorization by planted passages: does a model continue what it saw so many times, and only that?

Passages are cut out of a text. Lots decide which of them come back into it, and how often; the others, of the same
kind, never do and are the control. So a model that memorizes nothing treats both alike, and what the tests below take
for memorization by chance is known to be at most 5 % of all cases.

Sources: Carlini et al. 2019 (planted passages), 2023 (a beginning is given, the continuation is compared).
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from octavo.util.stats import wilson

SURE = 0.05
DRAWS = 9999
"""How often the passages of a count and the controls are mixed anew."""


@dataclass(frozen=True)
class Passage:
    """A beginning that the model is given, and how the text goes on."""

    beginning: str
    rest: str
    times: int
    """How often it was planted; 0 for a control."""

    @property
    def text(self) -> str:
        """Beginning and rest together."""
        return self.beginning + self.rest


@dataclass(frozen=True)
class Continued:
    """What a model made of one passage.

    Attributes:
        times: as it was planted.
        matched: tokens of the rest that it continued with, up to the first that is another one.
        tokens: of the rest.
        nats: per token of the rest, after the beginning.
    """

    times: int
    matched: int
    tokens: int
    nats: float

    @property
    def recited(self) -> bool:
        """Whether it continued the whole rest."""
        return self.matched == self.tokens


@dataclass(frozen=True)
class Times:
    """The passages that were planted so many times, against the controls.

    Attributes:
        interval: of the share recited, 95 %.
        matched: mean share of the rest that was continued word for word.
        p_recited: of as many being recited if planting made no difference (Fisher's exact test); None for controls.
        p_known: the same of nats as low as these (permutation test). Both are adjusted for the number of counts (Holm).
    """

    times: int
    passages: int
    recited: int
    interval: tuple[float, float]
    matched: float
    nats: float
    p_recited: float | None = None
    p_known: float | None = None


@dataclass(frozen=True)
class Memory:
    """What a model remembers of the planted passages; the controls stand first."""

    rows: tuple[Times, ...]

    @property
    def recited_from(self) -> int | None:
        """The least count whose passages it recites, more often than controls."""
        return min((row.times for row in self.rows if _sure(row.p_recited)), default=None)

    @property
    def known_from(self) -> int | None:
        """The least count whose passages surprise it less than controls."""
        return min((row.times for row in self.rows if _sure(row.p_known)), default=None)

    def sentences(self) -> list[str]:
        control, *planted = self.rows
        beside = f"of {control.passages} passages that it never saw it continues {control.recited}"
        most = planted[-1]
        if self.recited_from is None:
            seen = f"{most.recited} of {most.passages} that it saw {_often(most.times)}"
            sentences = [f"It recites none of the planted passages more than chance would: {seen}; {beside}."]
        else:
            row = next(row for row in planted if row.times == self.recited_from)
            seen = f"{row.recited} of {row.passages} word for word"
            at_all = "even what it saw once" if row.times == 1 else f"what it saw {_often(row.times)}"
            sentences = [f"It recites {at_all}: {seen}; {beside}."]
        if self.known_from is None:
            return [*sentences, "None of them surprises it measurably less than passages that it never saw."]
        row = next(row for row in planted if row.times == self.known_from)
        less = control.nats - row.nats
        often = f"What it saw {_often(row.times)}"
        return [*sentences, f"{often} surprises it less by {less:.3f} nats a token (p = {row.p_known:.2g})."]

    def as_dict(self) -> dict[str, Any]:
        thresholds = {"recited_from": self.recited_from, "known_from": self.known_from}
        return {"rows": [asdict(row) for row in self.rows], **thresholds, "verdict": self.sentences()}


def _sure(p: float | None) -> bool:
    return p is not None and p < SURE


def _often(times: int) -> str:
    return "once" if times == 1 else f"{times} times"


def memory(continued: Sequence[Continued]) -> Memory:
    """The verdict on a model from all passages: some controls (times 0), and some of each count."""
    groups: dict[int, list[Continued]] = {}
    for one in continued:
        groups.setdefault(one.times, []).append(one)
    controls, counts = groups[0], sorted(set(groups) - {0})
    unseen = np.array([one.nats for one in controls])
    recited = sum(one.recited for one in controls)
    by_recital = [
        fisher(sum(one.recited for one in groups[times]), len(groups[times]), recited, len(controls))
        for times in counts
    ]
    by_nats = [less_than(np.array([one.nats for one in groups[times]]), unseen) for times in counts]
    rows = [_row(0, controls)]
    for times, p_recited, p_known in zip(counts, holm(by_recital), holm(by_nats), strict=True):
        rows.append(_row(times, groups[times], p_recited, p_known))
    return Memory(tuple(rows))


def _row(times: int, group: Sequence[Continued], *p: float) -> Times:
    recited = sum(one.recited for one in group)
    matched = float(np.mean([one.matched / one.tokens for one in group]))
    nats = float(np.mean([one.nats for one in group]))
    return Times(times, len(group), recited, wilson(recited, len(group)), matched, nats, *p)


def fisher(hits: int, trials: int, control_hits: int, controls: int) -> float:
    """Chance of so many hits or more among `trials`, if the hits of both groups fell anywhere (Fisher's exact test)."""
    hit, everything = hits + control_hits, trials + controls
    ways = sum(math.comb(trials, k) * math.comb(controls, hit - k) for k in range(hits, min(hit, trials) + 1))
    return ways / math.comb(everything, hit)


def less_than(values: np.ndarray, controls: np.ndarray) -> float:
    """Chance of a mean as low as that of `values`, if they and the controls were drawn by lot from all of them."""
    everything = np.concatenate((values, controls))
    random = np.random.Generator(np.random.Philox(key=0))
    order = random.random((DRAWS, len(everything))).argsort(axis=1)[:, : len(values)]
    lower = everything[order].mean(axis=1) <= values.mean() + 1e-12
    return (1 + int(lower.sum())) / (1 + DRAWS)


def holm(p: Sequence[float]) -> list[float]:
    """p-values of several tests, so that a false alarm among all of them has the chance that one would have (Holm)."""
    adjusted, highest = [0.0] * len(p), 0.0
    for rank, place in enumerate(sorted(range(len(p)), key=lambda place: (p[place], place))):
        highest = max(highest, min(1.0, (len(p) - rank) * p[place]))
        adjusted[place] = highest
    return adjusted


@dataclass(frozen=True)
class Planting:
    """How passages are planted.

    Attributes:
        counts: how often; `each` passages for each count, and `controls` that are never planted.
        beginning, rest: characters.
        share: they are cut from, and planted into, so large a part of the text; what follows it stays as it is.
    """

    counts: tuple[int, ...] = (1, 4, 16, 64)
    each: int = 8
    controls: int = 32
    beginning: int = 50
    rest: int = 50
    share: float = 0.75
    seed: int = 0

    @property
    def characters(self) -> int:
        """What is planted, with a line break after each."""
        return self.each * sum(self.counts) * (self.beginning + self.rest + 1)


def planted(text: str, how: Planting) -> tuple[str, list[Passage]] | None:
    """The text with its passages moved, and the passages; None if it has too few lines to cut them from."""
    random = np.random.Generator(np.random.Philox(key=how.seed))
    end = int(len(text) * how.share)
    wanted = how.each * len(how.counts) + how.controls
    cuts = _cuts(text, end, wanted, how.beginning + how.rest)
    if cuts is None:
        return None
    counts = np.repeat([*how.counts, *[0] * how.controls], [how.each] * len(how.counts) + [1] * how.controls)
    length = how.beginning + how.rest
    passages = [
        _passage(text[cut : cut + length], how.beginning, times)
        for cut, times in zip(cuts, random.permutation(counts).tolist(), strict=True)
    ]
    kept, done = [], 0
    for cut in cuts:
        kept.append(text[done:cut])
        done = cut + length
    front, back = "".join([*kept, text[done:end]]), text[end:]
    lines = front.splitlines(keepends=True)
    copies = [passage.text + "\n" for passage in passages for _ in range(passage.times)]
    places = np.sort(random.integers(0, max(1, len(lines)), len(copies))).tolist()
    pieces, done = [], 0
    for place, number in zip(places, random.permutation(len(copies)).tolist(), strict=True):
        pieces += [*lines[done:place], copies[number]]
        done = place
    return "".join([*pieces, *lines[done:], back]), passages


def _cuts(text: str, end: int, wanted: int, length: int) -> list[int] | None:
    """Where passages begin, one in each of so many stretches; None if one of these has none."""
    edges = np.linspace(0, end, wanted + 1).astype(int).tolist()
    starts = [_cut(text, begin, stop, length) for begin, stop in pairwise(edges)]
    cuts = [cut for cut in starts if cut is not None]
    return cuts if len(cuts) == wanted else None


def _cut(text: str, begin: int, stop: int, length: int) -> int | None:
    """The first line of a stretch from whose beginning a passage stands nowhere else in the text."""
    starts = [0] if begin == 0 else []
    starts += [match.end() for match in re.finditer("\n", text[begin:stop])]
    for at in (begin + start for start in starts):
        passage = text[at : at + length]
        whole = at + length < stop and passage.strip() == passage
        if whole and text.count(passage) == 1:
            return at
    return None


def _passage(text: str, beginning: int, times: int) -> Passage:
    """A passage, cut before a word where there is one, for tokens that hold the space before them."""
    cut = text.rfind(" ", 1, beginning + 1)
    cut = beginning if cut < beginning // 2 else cut
    return Passage(text[:cut], text[cut:], times)
