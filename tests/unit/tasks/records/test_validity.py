"""How many records are valid: intervals, typical mistakes, and the n-grams that write the control."""

from __future__ import annotations

import numpy as np
import pytest

from octavo.corpus.validators.base import Validator, WrongSymbol
from octavo.ngram.kneser_ney import KneserNey
from octavo.tasks.records.validity import following, judged, written_by_ngrams
from octavo.util.stats import wilson


class Rising(Validator):
    """Numbers that rise to 3."""

    def start(self) -> int:
        return -1

    def after(self, state: int, symbol: str) -> int:
        if int(symbol) <= state:
            raise WrongSymbol(f"{symbol} after {state}")
        return int(symbol)

    def end(self, state: int) -> None:
        if state != 3:
            raise WrongSymbol("short")


def test_wilson() -> None:
    assert wilson(0, 10) == pytest.approx((0.0, 0.2775), abs=1e-4)  # Wilson's formula by hand
    assert wilson(5, 10) == pytest.approx((0.2366, 0.7634), abs=1e-4)
    assert wilson(10, 10)[1] == pytest.approx(1)
    for trials in range(1, 40):  # 4 of 4 once ended at 1 − 1e-16, below the share, which no plot takes
        assert wilson(trials, trials)[1] == 1 and wilson(0, trials)[0] == 0


def test_what_is_typical_stands_in_the_middle() -> None:
    found = judged(
        Rising(), [("0123", True), ("00", True), ("011", False), ("02", True), ("01", False), ("0123", False)]
    )
    assert (found.records, found.valid) == (6, 1)
    assert found.typical is not None and (found.typical.symbol, found.typical.why) == (3, "short")
    assert judged(Rising(), [("0123", True)]).typical is None
    late = judged(Rising(), [("01", False)]).typical
    assert late is not None and (late.symbol, late.why) == (3, "it has no end after 2 symbols")


def test_what_follows_is_what_the_n_grams_say() -> None:
    tokens = np.random.default_rng(3).integers(0, 4, 500)
    model = KneserNey(tokens, vocab_size=4, highest=3)
    contexts = np.array([[0, 1], [3, 3], [2, 0]])
    found = following(model, contexts, order=3)
    assert found.sum(axis=1) == pytest.approx([1, 1, 1])
    for row, context in enumerate(contexts):
        for token in range(4):
            alone = model.probabilities(np.array([*context, token]))[2, -1]
            assert found[row, token] == pytest.approx(alone)


def test_n_grams_write_what_they_have_seen() -> None:
    train = np.array([0, 1, 2, 3, 9] * 50)
    options = {"vocab_size": 10, "order": 3, "end": 9, "count": 20, "length": 12, "seed": 1}
    written = written_by_ngrams(train, **options)
    assert written == written_by_ngrams(train, **options)
    assert sum(record == ([0, 1, 2, 3], True) for record in written) >= 12
    assert all(len(ids) == 12 or ended for ids, ended in written)


def test_n_grams_do_not_begin_where_too_little_stands_before() -> None:
    train = np.array([9, *[0, 1, 2, 3, 9] * 5])
    written = written_by_ngrams(train, vocab_size=10, order=3, end=9, count=200, length=6, seed=1)
    assert len(written) == 200 and sum(ids[:1] == [0] for ids, _ in written) > 150
