from __future__ import annotations

import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from octavo.errors import TokenizerError
from octavo.tokenizers import UnknownTextError, encode_pieces, load_tokenizer
from octavo.tokenizers.base import whole_words
from octavo.tokenizers.byte import ByteTokenizer
from octavo.tokenizers.char import CharTokenizer


def test_error_lists_the_most_frequent_ten_and_counts_the_rest():
    message = str(UnknownTextError({chr(0x3B1 + n): n + 1 for n in range(12)} | {"\u200b": 99}, "characters"))
    assert "lacks 13 characters" in message
    assert "U+200B (99×), 'μ' (12×)" in message
    assert "and 3 more" in message and "'α'" not in message


def test_error_in_the_singular_and_for_words():
    assert "lacks 1 word of" in str(UnknownTextError({"tree": 2}, "words"))
    assert "'tree' (2×)" in str(UnknownTextError({"tree": 2}, "words"))


def test_folder_without_a_tokenizer(tmp_path):
    with pytest.raises(TokenizerError, match=r"holds no tokenizer: there is no tokenizer\.json"):
        load_tokenizer(tmp_path)


@pytest.mark.parametrize("content", ["[1]", "{}", '{"format": "other"}', '{"model": {"type": "BPE"}}'])
def test_json_of_another_program(tmp_path, content):
    (tmp_path / "tokenizer.json").write_text(content)
    with pytest.raises(TokenizerError, match="not a tokenizer that Octavo saved"):
        load_tokenizer(tmp_path)


def test_unknown_kind_lists_the_known_ones(tmp_path):
    ByteTokenizer(documents=True).save(tmp_path)
    path = tmp_path / "tokenizer.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"kind": "morse"}))
    with pytest.raises(
        TokenizerError, match=r"'morse'.*bpe, byte, char, gpt2, huggingface, separate, symbols, word"
    ):
        load_tokenizer(tmp_path)


@pytest.mark.parametrize("key", ["data", "files", "kind", "sha256", "version"])
def test_missing_key(tmp_path, key):
    ByteTokenizer(documents=True).save(tmp_path)
    path = tmp_path / "tokenizer.json"
    header = json.loads(path.read_text())
    del header[key]
    path.write_text(json.dumps(header))
    with pytest.raises(TokenizerError):
        load_tokenizer(tmp_path)


def test_a_file_outside_the_folder_is_not_read(tmp_path):
    (tmp_path / "secret").write_text("x")
    inside = tmp_path / "tokenizer"
    ByteTokenizer(documents=True).save(inside)
    path = inside / "tokenizer.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"files": {"../secret": "0"}}))
    with pytest.raises(TokenizerError, match="altered"):
        load_tokenizer(inside)


def test_fingerprint_tells_tokenizers_apart():
    assert ByteTokenizer(documents=True).fingerprint() != ByteTokenizer(documents=False).fingerprint()
    assert len(ByteTokenizer(documents=True).fingerprint()) == 64


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
