"""How good translations are: BLEU and chrF by sacreBLEU, with its signatures, between systems with a paired bootstrap.

Scores are of raw text, as it would be read. The tokenized figure beside them is what many papers have; it does
not compare with them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from octavo.errors import InputError, MissingExtra
from octavo.util.stats import drawn_again, ends_of

SAMPLES = 1000
"""Of the bootstrap."""


def _library() -> Any:
    try:
        import sacrebleu
    except ImportError as error:
        raise MissingExtra("sacrebleu", "translate", "Judging translations") from error
    return sacrebleu


@dataclass(frozen=True)
class Scored:
    """A score and the signature of how it was computed."""

    score: float
    signature: str


@dataclass(frozen=True)
class Scores:
    """How good translations are."""

    bleu: Scored
    chrf: Scored
    tokenized_bleu: Scored
    """Of tokens in lower case, as many papers have it."""


@dataclass(frozen=True)
class Difference:
    """BLEU of one system minus that of the other.

    Attributes:
        interval: 95 %, over sentences drawn again.
        not_better: the share of draws in which it is not above 0.
        samples: draws.
    """

    difference: float
    interval: list[float]
    not_better: float
    samples: int


def judged(written: Sequence[str], references: Sequence[str]) -> Scores:
    """BLEU and chrF of a system's translations with their signatures, and BLEU of tokens in lower case.

    Raises InputError where there are not as many of both, MissingExtra without sacrebleu.
    """
    if len(written) != len(references) or not written:
        raise InputError(
            f"{len(written):,} translations and {len(references):,} references cannot be compared."
        )
    library = _library()

    def scored(metric: Any) -> Scored:
        score = metric.corpus_score(list(written), [list(references)])
        return Scored(score.score, str(metric.get_signature()))

    tokens = library.BLEU(tokenize="intl", lowercase=True)
    return Scores(scored(library.BLEU()), scored(library.CHRF()), scored(tokens))


def bootstrap(
    one: Sequence[str],
    other: Sequence[str],
    references: Sequence[str],
    *,
    seed: int = 0,
    samples: int = SAMPLES,
) -> Difference:
    """The paired bootstrap (Koehn 2004): sentences are drawn again, the same for both. Raises MissingExtra without
    sacrebleu.
    """
    metric, draw = _library().BLEU(), np.random.Generator(np.random.Philox(key=seed))
    counts = [
        np.array(metric._extract_corpus_statistics(list(texts), [list(references)]), np.int64)
        for texts in (one, other)
    ]

    def score(rows: np.ndarray) -> float:
        return metric._compute_score_from_stats(rows.sum(axis=0).tolist()).score

    def difference(rows: np.ndarray) -> np.ndarray:
        return np.array([score(counts[0][row]) - score(counts[1][row]) for row in rows])

    differences = drawn_again(difference, len(references), draws=samples, random=draw)
    low, high = map(float, ends_of(differences))
    apart = score(counts[0]) - score(counts[1])
    return Difference(apart, [low, high], float((differences <= 0).mean()), samples)
