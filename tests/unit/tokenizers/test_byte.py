from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from octavo.errors import TokenizerError
from octavo.tokenizers import load_tokenizer
from octavo.tokenizers.byte import ByteTokenizer
from octavo.tokenizers.config import Byte

BYTES = ByteTokenizer(documents=True)


def test_vocabulary():
    assert (BYTES.vocab_size, BYTES.start, BYTES.end) == (257, 256, 256)
    single = Byte().build(lambda: iter([]), documents=False)
    assert (single.vocab_size, single.start, single.end) == (256, None, None)
    assert BYTES.encode("aé").tolist() == [0x61, 0xC3, 0xA9]
    assert [BYTES.token_text(id) for id in (0x61, 0x0A, 0xC3, 256)] == ["a", "\\n", "\\xc3", "<|endoftext|>"]


@given(st.text())
def test_round_trip_on_any_text(text):
    assert BYTES.decode(BYTES.encode(text)) == text


@given(st.lists(st.integers(0, 256)))
def test_fast_decoding_equals_the_slow_one(ids):
    decoder = BYTES.decoder()
    assert BYTES.decode(ids) == "".join([decoder.push(id) for id in ids]) + decoder.finish()


def test_stream_waits_for_the_whole_character():
    decoder = BYTES.decoder()
    assert [decoder.push(id) for id in "aé😀".encode()] == ["a", "", "é", "", "", "", "😀"]
    assert decoder.push(0xF0) == "" and decoder.finish() == "\ufffd"


# Characters with a token of their own

GREEK = "Ἐν ἀρχῇ ἦν ὁ λόγος, καὶ ὁ λόγος ἦν πρὸς τὸν θεόν. 日本 😀 plain\n" * 3


def with_characters(text: str, **options: int) -> ByteTokenizer:
    return Byte(characters=100, min_frequency=3, **options).build(lambda: iter([text]), documents=True)


def test_frequent_characters_are_one_token_and_all_others_bytes():
    tokenizer = with_characters("λόγος λόγος λόγος, ὁ")
    assert tokenizer.characters == "γλοςό"  # ὁ is there once; ASCII is bytes in any case
    assert tokenizer.vocab_size == 256 + 5 + 1 == tokenizer.end + 1
    assert tokenizer.encode("λa ὁ").tolist() == [257, 0x61, 0x20, *"ὁ".encode()]
    assert [tokenizer.token_text(id) for id in (257, 0x61, 0xCE)] == ["λ", "a", "\\xce"]
    assert len(with_characters(GREEK).encode(GREEK)) == len(GREEK)


def test_the_most_frequent_characters_are_chosen_and_of_equal_ones_the_lower():
    build = Byte(characters=2, min_frequency=1).build
    assert build(lambda: iter(["δγβα", "δ"]), documents=False).characters == "αδ"


@given(st.text(st.sampled_from("ab λόγςὁ日本é😀\n")) | st.text())
def test_round_trip_with_characters(text):
    tokenizer = with_characters(GREEK)
    ids = tokenizer.encode(text)
    assert tokenizer.decode(ids) == text
    decoder = tokenizer.decoder()
    assert "".join(decoder.push(int(id)) for id in ids) + decoder.finish() == text
    own = {c: 256 + place for place, c in enumerate(tokenizer.characters)}
    slow = [id for c in text for id in ([own[c]] if c in own else c.encode())]
    assert ids.tolist() == slow


def test_characters_are_saved(tmp_path):
    tokenizer = with_characters(GREEK)
    tokenizer.save(tmp_path)
    assert load_tokenizer(tmp_path).fingerprint() == tokenizer.fingerprint() != BYTES.fingerprint()


@pytest.mark.parametrize("characters", ["βα", "αα", "aα"])
def test_characters_that_are_out_of_order_are_refused(characters):
    with pytest.raises(ValueError, match="not sorted"):
        ByteTokenizer(documents=True, characters=characters)


def test_half_a_surrogate_pair_gets_no_token_and_is_refused_in_words():
    tokenizer = with_characters("\ud800" * 20 + "ααα")
    assert tokenizer.characters == "α"
    with pytest.raises(TokenizerError, match="half a character"):
        tokenizer.encode("\ud800")
