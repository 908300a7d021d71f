"""Symbols: what is a number, and what is not."""

from __future__ import annotations

import pytest

from octavo.config.parts import parts
from octavo.tasks.records.symbols import SymbolTokenizer
from octavo.tokenizers import UnknownTextError, load_tokenizer

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


def test_an_alphabet_of_characters_or_words():
    bases = parts("tokenizer")["symbols"](alphabet="ACGT").build(lambda: iter(()), documents=True)
    assert bases.encode("GATTACA").tolist() == [2, 0, 3, 3, 0, 1, 0] and bases.end == 4
    assert bases.decode([2, 0, 4, 3]) == "GAT" and bases.cuts_anywhere
    moves = parts("tokenizer")["symbols"](alphabet=["e4", "e5", "Nf3"]).build(
        lambda: iter(()), documents=False
    )
    assert moves.encode("Nf3 e5\te4").tolist() == [2, 1, 0]
    assert moves.decode([2, 1]) == "Nf3 e5" and not moves.cuts_anywhere


@pytest.mark.parametrize(
    ("alphabet", "text", "missing"), [("ACGT", "GA TU", " U"), (["a", "b"], "a ab", ["ab"])]
)
def test_what_an_alphabet_lacks(alphabet, text, missing):
    tokenizer = parts("tokenizer")["symbols"](alphabet=alphabet).build(lambda: iter(()), documents=True)
    with pytest.raises(UnknownTextError) as caught:
        tokenizer.encode(text)
    assert set(caught.value.counts) == set(missing) and "tokenizer.alphabet" in caught.value.remedy


@pytest.mark.parametrize(
    "options",
    [
        {"alphabet": ""},
        {"alphabet": "ABA"},
        {"alphabet": ["a b"]},
        {"alphabet": [""]},
        {"alphabet": "AB", "size": 3},
    ],
)
def test_what_is_no_alphabet(options):
    with pytest.raises(ValueError, match=r"alphabet|twice|no symbol|leave size out"):
        parts("tokenizer")["symbols"].model_validate(options)


def test_an_alphabet_is_saved_with_the_tokenizer(tmp_path):
    tokenizer = SymbolTokenizer(3, documents=True, names=("ü", "\u200b", "c"), spaced=False)
    tokenizer.save(tmp_path)
    again = load_tokenizer(tmp_path)
    assert again.decode([2, 0, 1]) == "cü\u200b" and again.fingerprint() == tokenizer.fingerprint()
    assert again.token_text(1) == "\\u200b"
