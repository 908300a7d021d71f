"""Where some runs are better than others on the same tokens: after how much context, in which words, and on what
counting n-grams can predict or cannot.

Differences are the second's nats less the first's, so below zero the second is better. The error of a mean is over
stretches of neighbouring tokens, which err together, and over the runs of either side, where there are several.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from octavo.errors import InputError

if TYPE_CHECKING:
    from octavo.evaluation.score import TokenLosses
    from octavo.tokenizers import Tokenizer

STRETCH = 100
"""How many stretches an error is taken over."""
CONTEXTS = (1, 4, 16, 64, 256, 1024)
FIFTHS = 5
FEWEST, NAMED = 20, 10
"""A word that is named occurs so often; so many are named on either side."""


@dataclass(frozen=True)
class Part:
    """Some of the tokens."""

    name: str
    tokens: int
    ngram: float
    """Nats per token of the best n-gram."""
    first: float
    second: float
    difference: float
    """Second less first; below zero the second is better."""
    error: float | None
    """Standard error of the difference; None where the tokens are all of one stretch, which does not tell."""
    share: float
    """Of the whole difference: what these tokens add to it, over the sum of all."""


@dataclass(frozen=True)
class Where:
    """Two sides on the same text."""

    order: int
    """Of the best n-gram."""
    whole: Part
    by_ngram: tuple[Part, ...]
    """Fifths of the tokens, from what the best n-gram predicts best to what it cannot predict."""
    by_context: tuple[Part, ...]
    first_better: tuple[Part, ...]
    """Words that add most to the first one's lead, and below to the second's."""
    second_better: tuple[Part, ...]

    def tables(self) -> list[tuple[str, list[Part]]]:
        """All of it as titled tables."""
        return [
            (f"by how well counting {self.order}-grams predicts a token", [*self.by_ngram, self.whole]),
            ("by how many tokens stand before it in its window", list(self.by_context)),
            ("words in which the first is better", list(self.first_better)),
            ("words in which the second is better", list(self.second_better)),
        ]


HEAD = ("", "tokens", "n-gram", "first", "second", "difference", "of the whole")


def cells(part: Part) -> list[str]:
    """A part as a row under HEAD."""
    figures = (f"{value:.3f}" for value in (part.ngram, part.first, part.second))
    share = f"{round(100 * part.share) or 0}%".replace("-", "−")  # no −0
    return [part.name, f"{part.tokens:,}", *figures, difference_text(part, 4), share]


def difference_text(part: Part, decimals: int) -> str:
    """The difference with two standard errors, where there is one."""
    difference = round(part.difference, decimals) or 0.0  # no −0
    error = "" if part.error is None else f" ± {2 * part.error:.{decimals}f}"
    return f"{difference:+.{decimals}f}{error}".replace("-", "−")


def parts(
    sides: Sequence[Sequence[TokenLosses]], ngram: np.ndarray, words: Sequence[str], order: int
) -> Where:
    """The tables from the losses of the runs on either side, which differ in their seed alone, of the n-gram and the
    word that each token is a part of. Raises InputError where no token is predicted by all."""
    count = len(ngram)
    by_run = [np.stack([one.nats[:count] for one in side]) for side in sides]  # (runs, N) each
    first, second = (each.mean(axis=0) for each in by_run)
    before = sides[0][0].before[:count]
    scored = np.flatnonzero(np.isfinite(first) & np.isfinite(second))
    if not len(scored):
        raise InputError("No token is predicted by both runs.", remedy="leave out --where")
    whole = float((second - first)[scored].sum())

    def part(name: str, chosen: np.ndarray) -> Part:
        differences = (second - first)[chosen]
        error = error_of(differences, chosen * STRETCH // count)
        return Part(
            name,
            len(chosen),
            float(ngram[chosen].mean()),
            float(first[chosen].mean()),
            float(second[chosen].mean()),
            float(differences.mean()),
            None if error is None else math.hypot(error, *(_between(each[:, chosen]) for each in by_run)),
            float(differences.sum()) / whole if whole else 0.0,
        )

    ranked = scored[np.argsort(ngram[scored], kind="stable")]
    names = ["predicted best", "second fifth", "third fifth", "fourth fifth", "predicted worst"]
    fifths = [
        part(name, each)
        for name, each in zip(names, np.array_split(ranked, FIFTHS), strict=True)
        if len(each)
    ]
    bounds = [*CONTEXTS, np.inf]
    contexts = [
        part(f"{low:,} to {high - 1:,}" if high < np.inf else f"{low:,} or more", chosen)
        for low, high in pairwise(bounds)
        if len(chosen := scored[(before[scored] >= low) & (before[scored] < high)])
    ]
    leads = _words(part, scored, words, second - first)
    ahead = [one for one in leads if one.difference > 0][::-1][:NAMED]
    behind = [one for one in leads if one.difference < 0][:NAMED]
    return Where(order, part("all", scored), tuple(fifths), tuple(contexts), tuple(ahead), tuple(behind))


def _between(nats: np.ndarray) -> float:
    """Standard error of a side's mean that its runs (runs, n) make; 0 of a single one, which does not tell."""
    means = nats.mean(axis=1)
    return float(means.std(ddof=1)) / math.sqrt(len(means)) if len(means) > 1 else 0.0


def _words(
    part: Callable[[str, np.ndarray], Part], scored: np.ndarray, words: Sequence[str], difference: np.ndarray
) -> list[Part]:
    """Words that occur often enough, from those that add most to the second's lead to the first's."""
    places: dict[str, list[int]] = defaultdict(list)
    for place in scored.tolist():
        places[words[place]].append(place)
    often = {word: np.array(at) for word, at in places.items() if word and len(at) >= FEWEST}
    ranked = sorted(often, key=lambda word: (float(difference[often[word]].sum()), word))
    ends = dict.fromkeys([*ranked[:NAMED], *ranked[-NAMED:]])
    return [part(word, often[word]) for word in ends]


def error_of(differences: np.ndarray, stretches: np.ndarray) -> float | None:
    """Standard error of the mean, over stretches of neighbours: (n,) differences and the stretch of each. None of a
    single stretch."""
    labels, inverse = np.unique(stretches, return_inverse=True)
    if len(labels) < 2:
        return None
    sums = np.bincount(inverse, weights=differences - differences.mean())
    return float(np.sqrt(np.square(sums).sum() * len(labels) / (len(labels) - 1))) / len(differences)


def words_of(tokens: np.ndarray, tokenizer: Tokenizer) -> list[str]:
    """For each token the word that it is a part of, in lower case; a mark or a line break is a word of its own."""
    decoder = tokenizer.decoder()
    words: list[str] = []
    begin, word, is_open = 0, "", False
    for place, token in enumerate(tokens.tolist()):
        piece = decoder.push(token)
        core = piece.strip()
        joins = is_open and core[:1].isalnum() and piece[:1] == core[:1]
        if not joins:
            words += [word] * (place - begin)
            begin, word = place, ""
        word += core.lower() or ("line break" if "\n" in piece else "space" if piece else "")
        is_open = core[-1:].isalnum() and piece[-1:] == core[-1:]
    return words + [word] * (len(tokens) - begin)
