"""What counts as a word in correction."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from octavo.correction.words import WORD, count_words, known_form, share_known


def test_words_are_letters_with_apostrophes_inside() -> None:
    text = "'Tis well-known: o’er 3 captain's e\u0301t\u00e9 x2 3rd a1b 'quoted'"
    assert WORD.findall(text) == [
        "Tis",
        "well",
        "known",
        "o’er",
        "captain's",
        "e\u0301t\u00e9",
        "quoted",
    ]


def test_counts_fold_case_and_apostrophes() -> None:
    assert count_words(["The the o’er ", "O'er THE"]) == {"the": 3, "o'er": 2}


@given(st.text("ab' \n", max_size=60), st.lists(st.integers(0, 60), max_size=5))
def test_counts_do_not_depend_on_where_pieces_are_cut(text: str, cuts: list[int]) -> None:
    edges = [0, *sorted(cuts), len(text)]
    pieces = [text[start:end] for start, end in pairwise(edges)]
    assert count_words(pieces) == count_words([text])


def test_the_share_says_when_there_is_nothing_to_share() -> None:
    assert share_known(["The", "zzz"], {"the": 1}) == 0.5
    assert share_known([], {"the": 1}) is None
    assert share_known(["The"], None) is None
    assert known_form("O’ER") == "o'er"
