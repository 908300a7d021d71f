"""The offline corrector: the closest word of the corpus, the more frequent of equals, case and marks kept."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from octavo.correction import NearestWord, count_words
from octavo.correction.nearest import cased_like
from octavo.errors import CorpusError

CORPUS = "The captain sat upon the ground. The cat ran; the bat ran. A captain's hat! o'er cat"
WORDS = count_words([CORPUS])


def test_report_e_sentence_is_repaired_and_the_rest_stays() -> None:
    done = NearestWord(WORDS).correct("AThe captanch sat o’er the ground, GROUNT: Teh 3rd!")
    assert done.corrected == "The captain sat o’er the ground, GROUND: The 3rd!"
    assert done.original == "AThe captanch sat o’er the ground, GROUNT: Teh 3rd!"
    assert (done.known_before, done.known_after) == (4 / 8, 1.0)
    assert {change.rule for change in done.changes} == {"closest word"}
    assert "3 letters away" in done.changes[1].message


def test_of_equally_close_words_the_most_frequent_wins_then_the_first_of_the_alphabet() -> None:
    assert NearestWord(WORDS).correct("lat").corrected == "cat"  # bat, cat, hat, sat: cat twice
    assert NearestWord({"hat": 1, "bat": 1, "sat": 1}).correct("lat").corrected == "bat"


def test_two_swapped_letters_are_one_edit() -> None:
    assert NearestWord({"form": 1, "fog": 9}).correct("fomr").corrected == "form"


def test_a_vocabulary_is_needed() -> None:
    with pytest.raises(CorpusError, match="no words"):
        NearestWord({})


@pytest.mark.parametrize(
    ("pattern", "word", "expected"),
    [
        ("ROMEX", "romeo", "ROMEO"),
        ("Rom", "romeo", "Romeo"),
        ("rom", "romeo", "romeo"),
        ("X", "axe", "Axe"),
        ("é", "e", "e"),
    ],
)
def test_case_is_kept(pattern: str, word: str, expected: str) -> None:
    assert cased_like(pattern, word) == expected


def slow_distance(a: str, b: str) -> int:
    """Optimal string alignment, by its definition."""
    table = {(i, 0): i for i in range(len(a) + 1)} | {(0, j): j for j in range(len(b) + 1)}
    for i in range(1, len(a) + 1):
        for j in range(1, len(b) + 1):
            best = min(table[i - 1, j] + 1, table[i, j - 1] + 1, table[i - 1, j - 1] + (a[i - 1] != b[j - 1]))
            if i > 1 and j > 1 and a[i - 1] == b[j - 2] and a[i - 2] == b[j - 1]:
                best = min(best, table[i - 2, j - 2] + 1)
            table[i, j] = best
    return table[len(a), len(b)]


@given(
    st.text("abcd", min_size=1, max_size=6),
    st.dictionaries(st.text("abc", min_size=1, max_size=6), st.integers(1, 3), min_size=1),
)
def test_it_is_the_closest_by_a_slow_search(word: str, vocabulary: dict[str, int]) -> None:
    best = min(vocabulary, key=lambda known: (slow_distance(word, known), -vocabulary[known], known))
    assert NearestWord(vocabulary).correct(word).corrected == (word if word in vocabulary else best)


def test_many_unknown_words_at_once() -> None:
    text = " ".join(f"c{'at' * n}" for n in range(2, 150))
    assert NearestWord(WORDS).correct(text).known_after == 1.0
