"""Symbols: what is a number, and what is not."""

from __future__ import annotations

import pytest

from octavo.config.parts import parts
from octavo.tokenizers import UnknownTextError
from octavo.tokenizers.symbols import SymbolTokenizer

NOTES = SymbolTokenizer(128, documents=True)


def test_numbers_between_any_white_space():
    assert NOTES.encode("60 62\n\n\t64  007 127\r\n0").tolist() == [60, 62, 64, 7, 127, 0]
    assert NOTES.decode([60, 128, 62, 0]) == "60 62 0"
    assert (NOTES.vocab_size, NOTES.start, NOTES.end) == (129, 128, 128)
    assert SymbolTokenizer(5, documents=False).vocab_size == 5


@pytest.mark.parametrize(
    "word", ["128", "-1", "+1", "1.0", "1_0", "x", "٣", "<|endoftext|>", "9" * 400, "0x1", "²"]
)
def test_anything_else_is_refused_with_its_name(word):
    with pytest.raises(UnknownTextError, match="lacks 1 symbol of this text") as caught:
        NOTES.encode(f"1 {word} 2")
    assert caught.value.counts == {word: 1}
    assert "below tokenizer.size" in str(caught.value) and len(str(caught.value)) < 400


def test_a_recipe_sets_their_number():
    config = parts("tokenizer")["symbols"](size=300)
    assert config.build(lambda: iter(()), documents=False).encode("299").tolist() == [299]
