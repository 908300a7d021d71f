"""Two runs token by token: made-up losses whose place is known, and two runs on the same text."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

from octavo.errors import InputError
from octavo.evaluation.compare_tokens import Part, Where, cells, difference_text, error_of, parts, words_of
from octavo.evaluation.score import TokenLosses
from octavo.tokenizers.char import CharTokenizer
from octavo.tokenizers.config import Char
from octavo.util.records import plain

TEXT = ("the cat saw the dog. " * 60)[:1200]


def tokenizer() -> CharTokenizer:
    return Char().build(lambda: iter([TEXT]), documents=False)


def made(second: np.ndarray, ngram: np.ndarray | None = None) -> Where:
    count = len(second)
    before = np.arange(count) % 32 + 1
    words = words_of(np.array(tokenizer().encode(TEXT))[:count], tokenizer())
    sides = [[TokenLosses(np.ones(count), before)], [TokenLosses(second, before)]]
    return parts(sides, np.linspace(0, 3, count) if ngram is None else ngram, words, 4)


def test_words_of_characters_and_of_longer_tokens() -> None:
    ids = np.array(tokenizer().encode("the cat. "))
    assert words_of(ids, tokenizer()) == ["the"] * 3 + ["space"] + ["cat"] * 3 + [".", "space"]


def test_what_counting_cannot_predict_is_where_the_second_is_better() -> None:
    ngram = np.linspace(0, 3, 1000)
    found = made(np.where(ngram > 2.4, 0.5, 1.0), ngram)
    differences = [part.difference for part in found.by_ngram]
    assert differences == pytest.approx([0, 0, 0, 0, -0.5], abs=0.01)
    assert found.by_ngram[-1].share == pytest.approx(1) and found.whole.difference == pytest.approx(-0.1)
    assert found.whole.tokens == sum(part.tokens for part in found.by_ngram) == 1000
    assert "−0.5000" in cells(found.by_ngram[-1])[5]


def test_after_how_much_context_and_in_which_words() -> None:
    words = words_of(np.array(tokenizer().encode(TEXT)), tokenizer())
    second = np.array([1.2 if word == "dog" else 0.7 if word == "cat" else 1.0 for word in words])
    found = made(second)
    assert [part.name for part in found.first_better] == ["dog"]
    assert [part.name for part in found.second_better] == ["cat"]
    both = np.array([{"dog": 1.2, "saw": 1.5, "cat": 0.7, "the": 0.9}.get(word, 1.0) for word in words])
    assert [part.name for part in made(both).first_better] == ["saw", "dog"], "what adds most comes first"
    assert [part.name for part in made(both).second_better] == ["cat", "the"]
    before = np.arange(len(words)) % 32 + 1
    late = made(np.where(before >= 16, 0.4, 1.0)).by_context
    assert [part.name for part in late] == ["1 to 3", "4 to 15", "16 to 63"]
    assert [part.difference for part in late] == pytest.approx([0, 0, -0.6])


def test_a_difference_of_nothing_has_no_sign() -> None:
    nothing = Part("all", 10, 1.0, 1.0, 1.0, -1e-6, 0.0, -1e-4)
    assert difference_text(nothing, 3) == "+0.000 ± 0.000" and cells(nothing)[-1] == "0%"


def test_tokens_that_one_does_not_predict_are_left_out() -> None:
    second = np.full(500, 1.0)
    second[:100] = np.nan
    assert made(second).whole.tokens == 400
    with pytest.raises(InputError, match="No token"):
        made(np.full(50, np.nan))


def test_the_runs_of_a_side_count_by_their_mean_and_their_spread() -> None:
    """Four runs of the second side that are off from each other by a constant, which one text cannot tell."""
    count = 1000
    before, words = np.ones(count, np.int64), ["a"] * count
    random = np.random.default_rng(2)
    noise = random.standard_normal(count)
    shifts = np.array([-0.3, -0.1, 0.1, 0.3])
    second = [TokenLosses(1.5 + noise + shift, before) for shift in shifts]
    first = [TokenLosses(np.ones(count), before)]
    alone = parts([first, second[:1]], np.linspace(0, 3, count), words, 4).whole
    found = parts([first, second], np.linspace(0, 3, count), words, 4).whole
    assert alone.difference == pytest.approx(0.2 + noise.mean())
    assert found.difference == pytest.approx(0.5 + noise.mean()) and found.second == pytest.approx(
        1.5 + noise.mean()
    )
    between = float(shifts.std(ddof=1)) / 2
    assert found.error == pytest.approx(math.hypot(alone.error, between))
    assert found.error > 3 * alone.error


def test_neighbours_that_err_together_make_the_error_larger() -> None:
    random = np.random.default_rng(1)
    stretches = np.arange(1000) // 10
    apart = random.standard_normal(1000)
    together = np.repeat(random.standard_normal(100), 10)
    assert error_of(apart, stretches) == pytest.approx(1 / math.sqrt(1000), rel=0.2)
    assert error_of(together, stretches) == pytest.approx(1 / math.sqrt(100), rel=0.2)
    assert error_of(apart[:5], stretches[:5]) is None
    assert error_of(np.array([1.0, 1.0, 3.0, 3.0]), np.array([0, 0, 1, 1])) == pytest.approx(1.0)


def test_a_single_stretch_has_no_error_and_no_nan_in_its_json() -> None:
    """`compare --where --json` wrote NaN, which no reader of JSON takes."""
    assert error_of(np.ones(3), np.zeros(3)) is None
    before = np.where(np.arange(1000) < 5, 2000, 1)  # neighbours, all of one stretch
    sides = [[TokenLosses(np.full(1000, nats), before)] for nats in (1.0, 2.0)]
    found = parts(sides, np.ones(1000), ["a"] * 1000, 2)
    (late,) = [part for part in found.by_context if part.name == "1,024 or more"]
    assert late.error is None and difference_text(late, 4) == cells(late)[5] == "+1.0000"
    json.dumps(plain(found), allow_nan=False)
