from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from octavo.tokenizers.byte import Byte, ByteTokenizer

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
