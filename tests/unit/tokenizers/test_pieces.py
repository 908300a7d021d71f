from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from octavo.tokenizers import UnknownTextError, encode_pieces
from octavo.tokenizers.char import CharTokenizer
from octavo.tokenizers.pieces import whole_words

texts = st.text(alphabet="ab \n\t.", max_size=60)


@given(st.lists(texts, max_size=6), st.integers(1, 10))
def test_cut_before_white_space_and_nothing_lost(pieces, window):
    cut = list(whole_words(pieces, window))
    assert "".join(cut) == "".join(pieces)
    for left, right in pairwise(cut):
        assert not left[-1].isspace() and right[0] in " \n"


@given(texts, st.integers(1, 10))
def test_no_piece_is_longer_than_it_must_be(text, window):
    places = [i for i in range(1, len(text)) if not text[i - 1].isspace() and text[i] in " \n"]
    gaps = [b - a for a, b in zip([0, *places], [*places, len(text)], strict=True)]
    assert all(len(piece) <= 2 * window + max(gaps) for piece in whole_words([text], window))


def test_text_without_white_space_is_one_piece():
    assert list(whole_words(["abc"] * 100, 10)) == ["abc" * 100]


def test_pieces_are_encoded_as_they_come():
    came = []

    def pieces():
        for n in range(3):
            came.append(n)
            yield "ab"

    tokenizer = CharTokenizer("ab", documents=False, unknown=False)
    assert next(encode_pieces(tokenizer, pieces())).tolist() == [0, 1]
    assert came == [0]


def test_everything_missing_is_counted_over_all_pieces():
    tokenizer = CharTokenizer("ab", documents=False, unknown=False)
    encoded = encode_pieces(tokenizer, ["ab", "xa", "ab", "xy"])
    assert next(encoded).tolist() == [0, 1]
    try:
        next(encoded)
    except UnknownTextError as error:
        assert error.counts == {"x": 2, "y": 1}
    else:
        raise AssertionError("no error")
