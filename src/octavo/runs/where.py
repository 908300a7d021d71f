"""Where one of two runs is better, token by token on the same text: after how much context, in which words, and on what
counting n-grams can predict or cannot.

Differences are the second run's nats less the first's, so below zero the second is better. The error of a mean is over
stretches of neighbouring tokens, which err together. One seed each: it says where these two runs differ.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from octavo.errors import CorpusError, InputError
from octavo.evaluation.baselines import HIGHEST, LIMIT
from octavo.evaluation.token_losses import TokenLosses, token_losses
from octavo.ground.console import Console
from octavo.model.kneser_ney import KneserNey, best_order
from octavo.runs.comparison import Comparison
from octavo.runs.data import build_dataset, evaluated_on
from octavo.runs.evaluate import check_same_tokens, whole_split
from octavo.runs.run import Run
from octavo.tokenizers import Tokenizer

MOST = 200_000
"""Tokens of the validation split that are read, from its beginning."""
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
    error: float
    """Standard error of the difference."""
    share: float
    """Of the whole difference: what these tokens add to it, over the sum of all."""


@dataclass(frozen=True)
class Where:
    """Two runs on the same text."""

    order: int
    """Of the best n-gram."""
    whole: Part
    by_ngram: tuple[Part, ...]
    """Fifths of the tokens, from what the best n-gram predicts best to what it cannot predict."""
    by_context: tuple[Part, ...]
    first_better: tuple[Part, ...]
    """Words that add most to the first one's lead, and below to the second's."""
    second_better: tuple[Part, ...]

    def as_dict(self) -> dict[str, Any]:
        """For --json."""
        return asdict(self)

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
    signed = f"{part.difference:+.4f} ± {2 * part.error:.4f}".replace("-", "−")
    share = f"{part.share:.0%}".replace("-", "−")
    figures = (f"{value:.3f}" for value in (part.ngram, part.first, part.second))
    return [part.name, f"{part.tokens:,}", *figures, signed, share]


def where(found: Comparison, console: Console) -> Where:
    """Compare two runs token by token.

    Raises InputError where their losses do not stand for the same tokens, CorpusError if the text is another one now.
    """
    if len(found.runs) != 2:
        raise InputError(
            f"Token by token two runs compare, not {len(found.runs)}.",
            remedy="octavo compare RUN RUN --where",
        )
    if any(run.damage for run in found.runs):
        raise InputError("A damaged run has no losses to compare.", remedy="leave out --where")
    if not found.same_text:
        raise InputError(
            "They were evaluated on different texts, so no token is in both.", remedy="leave out --where"
        )
    runs = [Run.open(run.path) for run in found.runs]
    if runs[0].tokenizer.fingerprint() != runs[1].tokenizer.fingerprint():
        raise InputError(
            "Their tokenizers differ, so their tokens are not the same.", remedy="leave out --where"
        )
    recipe = whole_split(runs[0].config)
    if not all(run.config.objective.build().unit.text for run in runs):
        raise InputError("Only losses of text are compared token by token.", remedy="leave out --where")
    dataset = build_dataset(recipe, console, runs[0].tokenizer)
    check_same_tokens(dataset.tokenizer, runs[0].tokenizer)
    if found.runs[0].manifest.get("data", {}).get("text") != dataset.manifest["text"]:
        raise CorpusError("The runs' text has changed since training.", remedy="bring the old text back")
    losses = [_losses(run, dataset.validation) for run in runs]
    tokens = np.asarray(dataset.validation.tokens[:MOST])
    counted = np.asarray(dataset.train.tokens[-LIMIT:])
    size = dataset.tokenizer.vocab_size
    order = best_order(counted, vocab_size=size, highest=HIGHEST)
    probabilities = KneserNey(counted, vocab_size=size, highest=order).probabilities(tokens)[-1]
    return parts(losses, -np.log(probabilities), words_of(tokens, dataset.tokenizer), order)


def _losses(run: Run, split: Any) -> TokenLosses:
    recipe = whole_split(run.config)
    count = min(MOST, len(split.tokens))
    batches = evaluated_on(split, recipe, run.tokenizer, rows=recipe.evaluation.batch, limit=count)
    return token_losses(run.model, batches, len(split.tokens), objective=recipe.objective.build())


def parts(losses: Sequence[TokenLosses], ngram: np.ndarray, words: Sequence[str], order: int) -> Where:
    """The tables from the losses of both runs, of the n-gram and the word that each token is a part of."""
    count = len(ngram)
    first, second = (one.nats[:count] for one in losses)
    before = losses[0].before[:count]
    scored = np.flatnonzero(np.isfinite(first) & np.isfinite(second))
    if not len(scored):
        raise InputError("No token is predicted by both runs.", remedy="leave out --where")
    whole = float((second - first)[scored].sum())

    def part(name: str, chosen: np.ndarray) -> Part:
        differences = (second - first)[chosen]
        return Part(
            name,
            len(chosen),
            float(ngram[chosen].mean()),
            float(first[chosen].mean()),
            float(second[chosen].mean()),
            float(differences.mean()),
            error_of(differences, chosen * STRETCH // count),
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


def _words(
    part: Callable[[str, np.ndarray], Part], scored: np.ndarray, words: Sequence[str], difference: np.ndarray
) -> list[Part]:
    """Words that occur often enough, from those that add most to the second's lead to the first's."""
    places: dict[str, list[int]] = defaultdict(list)
    for place in scored.tolist():
        places[words[place]].append(place)
    often = {word: np.array(found) for word, found in places.items() if word and len(found) >= FEWEST}
    ranked = sorted(often, key=lambda word: (float(difference[often[word]].sum()), word))
    ends = dict.fromkeys([*ranked[:NAMED], *ranked[-NAMED:]])
    return [part(word, often[word]) for word in ends]


def error_of(differences: np.ndarray, stretches: np.ndarray) -> float:
    """Standard error of the mean, over stretches of neighbours: (n,) differences and the stretch of each."""
    labels, inverse = np.unique(stretches, return_inverse=True)
    if len(labels) < 2:
        return float("nan")
    sums = np.bincount(inverse, weights=differences - differences.mean())
    return float(np.sqrt(np.square(sums).sum() * len(labels) / (len(labels) - 1))) / len(differences)


def words_of(tokens: np.ndarray, tokenizer: Tokenizer) -> list[str]:
    """For each token the word that it is a part of, in lower case; a mark or a line break is a word of its own."""
    decoder = tokenizer.decoder()
    found: list[str] = []
    begin, word, is_open = 0, "", False
    for place, token in enumerate(tokens.tolist()):
        piece = decoder.push(token)
        core = piece.strip()
        joins = is_open and core[:1].isalnum() and piece[:1] == core[:1]
        if not joins:
            found += [word] * (place - begin)
            begin, word = place, ""
        word += core.lower() or ("line break" if "\n" in piece else "space" if piece else "")
        is_open = core[-1:].isalnum() and piece[-1:] == core[-1:]
    return found + [word] * (len(tokens) - begin)
