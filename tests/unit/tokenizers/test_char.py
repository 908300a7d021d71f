from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from octavo.errors import TokenizerError
from octavo.tokenizers import UnknownTextError, load_tokenizer
from octavo.tokenizers.char import CharTokenizer
from octavo.tokenizers.config import Char


def build(text: str, *, documents: bool = False, **options) -> CharTokenizer:
    return Char(**options).build(lambda: iter([text]), documents=documents)


def test_characters_are_numbered_in_code_point_order():
    tokenizer = build("banana 😀é")
    assert tokenizer.characters == " abné😀"
    assert tokenizer.encode("ban😀").tolist() == [2, 1, 3, 5]
    assert tokenizer.vocab_size == 6 and tokenizer.start is None and tokenizer.end is None


def test_end_and_unknown_stand_after_the_characters():
    tokenizer = build("ab", documents=True, unknown="token")
    assert (tokenizer.start, tokenizer.end, tokenizer.unknown, tokenizer.vocab_size) == (2, 2, 3, 4)
    assert [tokenizer.token_text(id) for id in range(4)] == ["a", "b", "<|endoftext|>", "<unk>"]
    assert tokenizer.encode("azb").tolist() == [0, 3, 1]
    assert tokenizer.decode([0, 3, 2, 1]) == "a<unk>b"


@given(st.text(min_size=1, max_size=50))
def test_round_trip_on_any_text_it_was_built_from(text):
    tokenizer = build(text)
    assert tokenizer.decode(tokenizer.encode(text)) == text


@given(st.text(min_size=1, max_size=20), st.text(max_size=20))
def test_error_names_exactly_what_is_missing(known, text):
    tokenizer = build(known)
    missing = {c: text.count(c) for c in set(text) - set(known)}
    if not missing:
        assert tokenizer.decode(tokenizer.encode(text)) == text
        return
    with pytest.raises(UnknownTextError) as raised:
        tokenizer.encode(text)
    assert raised.value.counts == missing


def test_empty_corpus():
    with pytest.raises(TokenizerError, match="empty"):
        build("")


def test_regression_ids_are_numbers_after_loading(tmp_path):
    """The listing of report C kept a JSON object with ids as keys, which are strings after loading."""
    build("hello").save(tmp_path)
    assert load_tokenizer(tmp_path).decode([1, 0, 2, 2, 3]) == "hello"
    assert json.loads((tmp_path / "tokenizer.json").read_text())["data"]["characters"] == "ehlo"


@pytest.mark.parametrize("characters", ["ba", "aa"])
def test_unsorted_or_repeated_characters_are_refused(characters):
    with pytest.raises(ValueError, match="not sorted"):
        CharTokenizer(characters, documents=False, unknown=False)


def test_tiny_shakespeare_has_65_characters(test_data):
    text = (test_data / "tinyshakespeare.txt").read_text(encoding="utf-8")
    tokenizer = build(text)
    assert tokenizer.vocab_size == 65
    assert tokenizer.decode(tokenizer.encode(text)) == text


def test_ten_characters_of_report_e():
    assert len(build("Thank you!").encode("Thank you!")) == 10


@given(st.text(alphabet="abAB \n.é€", min_size=1), st.text(alphabet="abcAB \n.é", max_size=40))
def test_the_table_of_bytes_gives_what_the_slow_way_gives(corpus: str, text: str) -> None:
    tokenizer = Char().build(lambda: iter([corpus]), documents=False)
    slow = Char().build(lambda: iter([corpus]), documents=False)
    slow._ascii = b""  # as for a vocabulary that is too large for the table
    try:
        expected = slow.encode(text).tolist()
    except UnknownTextError as error:
        with pytest.raises(UnknownTextError) as caught:
            tokenizer.encode(text)
        assert caught.value.counts == error.counts
    else:
        ids = tokenizer.encode(text)
        assert ids.dtype == np.int32 and ids.tolist() == expected
