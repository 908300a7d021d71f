from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from octavo.errors import TokenizerError
from octavo.tokenizers import UnknownTextError
from octavo.tokenizers.config import Word
from octavo.tokenizers.word import WordTokenizer


def build(text: str, **options) -> WordTokenizer:
    return Word(**options).build(lambda: iter([text]), documents=True)


def words(text: str, **options) -> list[str]:
    tokenizer = build(text, **options)
    return [tokenizer.token_text(id) for id in tokenizer.encode(text).tolist()]


def again(text: str, **options) -> str:
    tokenizer = build(text, **options)
    return tokenizer.decode(tokenizer.encode(text))


def test_words_and_marks():
    assert words("One day, small bird fly ing sky.") == [
        "One",
        "day",
        ",",
        "small",
        "bird",
        "fly",
        "ing",
        "sky",
        ".",
    ]
    assert words("I don’t, don't (ever) stop...") == [
        *["I", "don’t", ",", "don't", "(", "ever", ")", "stop", ".", ".", "."]
    ]
    assert words("well-known 3.14 1,000 10:30 3.x a--b") == [
        *["well-known", "3.14", "1,000", "10:30", "3", ".", "x", "a", "-", "-", "b"]
    ]
    assert words("हिन्दी cafe\u0301 snake_case") == ["हिन्दी", "cafe\u0301", "snake", "_", "case"]


@pytest.mark.parametrize(
    "text",
    [
        "one day, small bird fly ing sky. bird see big tree.",
        "tree say, ha bird ing come at me? bird say, yes, i ing come at you. the end.",
        'She said: "Don\'t go (yet)!" Then "stop" twice; he [almost] left.',
        "“Ça va?” – «oui», it cost $5, 20% of £25 at 10:30…",
        "a well-known mother-in-law -- really",
        "'quoted' and _stressed_ words",
        "¿Qué? ¡Nada!",
    ],
)
def test_well_spaced_text_comes_back(text):
    assert again(text) == text


@pytest.mark.parametrize(
    ("text", "spaced"),
    [
        ("one  day ,\tsmall\n\nbird .", "one day, small bird."),
        (" ( yes ) ! ", "(yes)!"),
        ("word--word", "word -- word"),
        ("a - - b", "a -- b"),
    ],
)
def test_spacing_is_set_anew(text, spaced):
    assert again(text) == spaced


def test_lines_are_kept_on_request():
    assert again("ROMEO:\nAy me!\n\n\nSo,  so.\n", lines="keep") == "ROMEO:\nAy me!\n\n\nSo, so.\n"
    assert words("a\nb", lines="keep") == ["a", "\\n", "b"]


def test_lower_case():
    tokenizer = build("The bird. the BIRD, The tree", lowercase=True)
    assert tokenizer.words == ("the", "bird", ",", ".", "tree")
    assert tokenizer.decode(tokenizer.encode("THE Bird.")) == "the bird."
    with pytest.raises(UnknownTextError, match=r"'Cat' \(1×\)"):
        tokenizer.encode("the Cat")


def test_most_frequent_with_ties_in_alphabetical_order():
    text = "b b b a a c c d"
    assert build(text).words == ("b", "a", "c", "d")
    assert build(text, size=2).words == ("b", "a")
    tokenizer = build(text, size=2, unknown="token")
    assert tokenizer.vocab_size == 5 and tokenizer.encode("a b c").tolist() == [4, 3, 2]
    assert tokenizer.decode([4, 2, 3]) == "a <unk> b"
    with pytest.raises(UnknownTextError) as raised:
        build(text, size=2).encode(text)
    assert raised.value.counts == {"c": 2, "d": 1}


def test_specials_of_report_a():
    tokenizer = build("the end.")
    assert (tokenizer.start, tokenizer.end) == (0, 1)
    assert [tokenizer.token_text(id) for id in tokenizer.encode_document("the end.").tolist()] == [
        *["<sos>", "the", "end", ".", "<eos>"]
    ]


def test_closed_list(tmp_path):
    listed = build("ignored", words=["bird", "fly", ".", "bird", "<sos>", "<eos>"])
    assert listed.words == ("bird", "fly", ".")
    path = tmp_path / "words.txt"
    path.write_text("\ufeffbird\r\nfly \n\n.\n", encoding="utf-8", newline="")
    assert build("ignored", words=str(path)).fingerprint() == listed.fingerprint()
    assert build("ignored", words=["I", "i"], lowercase=True).words == ("i",)


def test_wrong_lists(tmp_path):
    with pytest.raises(TokenizerError, match=r"2 entries .*'ice cream', 'end.'"):
        build("", words=["ice cream", "end.", "bird"])
    with pytest.raises(TokenizerError, match="cannot be read"):
        build("", words=str(tmp_path / "none.txt"))
    with pytest.raises(TokenizerError, match="no words"):
        build("  \n ")
    with pytest.raises(ValidationError, match="`size` has no effect"):
        Word(size=5, words=["a"])


def test_basic_english(test_data):
    tokenizer = build("", words=str(test_data / "basic_english_850.txt"))
    assert tokenizer.vocab_size == 852


# Anything that the patterns treat in a way of its own, often side by side.
_mixed = st.text(alphabet="ab1.,:'’-‐_\"“”()<>$%!? \n\u0301é日—", max_size=40) | st.text(max_size=30)


@given(_mixed, st.booleans(), st.sampled_from(["fold", "keep"]))
def test_encoding_what_was_decoded_gives_the_same_ids(text, lowercase, lines):
    tokenizer = build(text + " x", lowercase=lowercase, lines=lines)
    ids = tokenizer.encode(text)
    np.testing.assert_array_equal(tokenizer.encode(tokenizer.decode(ids)), ids)


@given(_mixed)
def test_only_spacing_is_lost(text):
    tokenizer = build(text + " x")
    assert "".join(tokenizer.decode(tokenizer.encode(text)).split()) == "".join(text.split())


@given(st.lists(st.sampled_from(["a", "<unk>", "zz", ".", "'", "-", '"']), max_size=12))
def test_unknown_token_survives_the_round_trip(atoms):
    tokenizer = build("a . ' - \"", unknown="token")
    ids = tokenizer.encode(" ".join(atoms))
    np.testing.assert_array_equal(tokenizer.encode(tokenizer.decode(ids)), ids)


def test_real_text(test_data):
    text = (test_data / "tinyshakespeare.txt").read_text(encoding="utf-8")
    tokenizer = build(text)
    ids = tokenizer.encode(text)
    np.testing.assert_array_equal(tokenizer.encode(tokenizer.decode(ids)), ids)
    assert tokenizer.decode(ids).startswith("First Citizen: Before we proceed any further, hear me speak.")


@pytest.mark.parametrize("vocabulary", [["a", "a"], ["a b"], ["a", "B"]])
def test_impossible_vocabularies_are_refused(vocabulary):
    with pytest.raises(ValueError):
        WordTokenizer(vocabulary, lowercase=True, lines="fold", unknown=False)
