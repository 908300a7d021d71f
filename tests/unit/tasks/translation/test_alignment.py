"""Word alignments: IBM model 1 against counting by hand, error rates, the diagonal."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import pytest

from octavo.tasks.translation.alignment import Sides, Truth, WordModel, diagonal, error_rate


def pairs() -> list[Sides]:
    draw = np.random.default_rng(1)
    found = []
    for _ in range(200):
        source = draw.integers(0, 12, draw.integers(2, 6))
        target = (source + 100)[::-1]  # word for word, backwards
        found.append((source, np.append(target, 99)))  # and a token that comes from nothing
    return found


def by_hand(given: list[Sides], rounds: int) -> dict[tuple[int, int], float]:
    """t(target | source) by the textbook's loops."""
    t: dict[tuple[int, int], float] = defaultdict(lambda: 1.0)
    for _ in range(rounds):
        counts: dict[tuple[int, int], float] = defaultdict(float)
        for source, target in given:
            words = [*source.tolist(), -1]
            for token in target.tolist():
                whole = sum(t[word, token] for word in words)
                for word in words:
                    counts[word, token] += t[word, token] / whole
        totals: dict[int, float] = defaultdict(float)
        for (word, _), count in counts.items():
            totals[word] += count
        t = defaultdict(float, {cell: count / totals[cell[0]] for cell, count in counts.items()})
    return t


def test_ibm_model_1_is_the_textbooks() -> None:
    given = pairs()[:30]
    model, expected = WordModel(given, rounds=3), by_hand(given, 3)
    cells = zip(model.source.tolist(), model.target.tolist(), strict=True)
    for cell, probability in zip(cells, model.probabilities.tolist(), strict=True):
        assert probability == pytest.approx(expected[cell], abs=1e-12)


def test_ibm_model_1_finds_words_and_what_comes_from_nothing() -> None:
    given = pairs()
    model = WordModel(given)
    assert model.translate(np.arange(12)) == [*range(100, 112)]
    assert model.translate(np.array([55])) == [55]
    truths = []
    for source, target in given:
        size = len(source)
        links = frozenset((size - 1 - at, at) for at in range(len(target) - 1))
        truths.append(Truth(links, links))
    clean = [(np.unique(source, return_index=True)[1].size == len(source)) for source, _ in given]
    known = [(one, truth) for one, truth, good in zip(given, truths, clean, strict=True) if good]
    assert error_rate([model.align(*one) for one, _ in known], [truth for _, truth in known]) < 0.02
    assert model.align(np.array([3]), np.array([999])) == [-1]


def test_error_rate_by_hand() -> None:
    sure, possible = frozenset({(0, 0), (1, 2)}), frozenset({(0, 0), (1, 2), (1, 1)})
    truth = Truth(sure, possible)
    assert error_rate([[0, 1, 1]], [truth]) == pytest.approx(0)  # what is possible is no error
    assert error_rate([[1, 0, 0]], [truth]) == 1
    assert error_rate([[0, -1, 0]], [truth]) == pytest.approx(1 - (1 + 1) / (2 + 2))


def test_diagonal() -> None:
    assert diagonal(np.arange(4), np.arange(8)) == [0, 0, 1, 1, 2, 2, 3, 3]
    assert diagonal(np.arange(3), np.arange(2)) == [0, 1]
