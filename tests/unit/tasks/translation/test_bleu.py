"""BLEU and chrF with their signatures; the paired bootstrap."""

from __future__ import annotations

import pytest

from octavo.errors import InputError
from octavo.tasks.translation.bleu import bootstrap, judged

pytest.importorskip("sacrebleu")
REFERENCES = [
    f"the {a} cat sees the {b} dog near house {n}."
    for n, (a, b) in enumerate([("old", "red"), ("big", "wet")] * 20)
]


def test_what_is_the_same_has_a_hundred() -> None:
    found = judged(REFERENCES, REFERENCES)
    assert found.bleu.score == pytest.approx(100) and found.chrf.score == pytest.approx(100)
    assert "tok:13a" in found.bleu.signature and "case:mixed" in found.bleu.signature
    assert "tok:intl" in found.tokenized_bleu.signature and "case:lc" in found.tokenized_bleu.signature
    upper = judged([one.upper() for one in REFERENCES], REFERENCES)
    assert upper.tokenized_bleu.score == pytest.approx(100) and upper.bleu.score < 10


def test_counts_must_fit() -> None:
    for written in ([], REFERENCES[:3]):
        with pytest.raises(InputError, match="cannot be compared"):
            judged(written, REFERENCES)


def test_bootstrap_tells_a_better_system_and_no_difference_from_none() -> None:
    worse = [one.replace("sees", "sees not") if n % 2 else one for n, one in enumerate(REFERENCES)]
    found = bootstrap(REFERENCES, worse, REFERENCES, samples=200)
    scores = [judged(one, REFERENCES).bleu.score for one in (REFERENCES, worse)]
    assert found.difference == pytest.approx(scores[0] - scores[1])
    assert 0 < found.interval[0] < found.difference < found.interval[1] and found.not_better == 0
    assert found == bootstrap(REFERENCES, worse, REFERENCES, samples=200)
    same = bootstrap(worse, worse, REFERENCES, samples=50)
    assert same.difference == 0 and same.interval == [0, 0] and same.not_better == 1


def test_the_interval_holds_95_of_100_draws() -> None:
    """One system is wrong in four sentences, the other in ten: it is better in 94 of 100 draws, which is not enough."""

    def wrong_in(places: range) -> list[str]:
        return [one.replace("sees", "sees not") if n in places else one for n, one in enumerate(REFERENCES)]

    few, many = wrong_in(range(4)), wrong_in(range(20, 30))
    found, mirrored = (bootstrap(*two, REFERENCES, samples=400) for two in ((few, many), (many, few)))
    low, high = found.interval
    assert 0.025 < found.not_better < 0.1 and low < 0 < high
    assert mirrored.interval == pytest.approx([-high, -low])
