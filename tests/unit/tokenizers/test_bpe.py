from __future__ import annotations

import json
import unicodedata

import numpy as np
import pytest
import tokenizers as library
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from octavo.errors import TokenizerError
from octavo.tokenizers import bpe, config, load_tokenizer
from octavo.tokenizers.config import BPE

TEXT = "The bird's small nest stands high. It isn't 1984, they'll say:  the small bird flies!\n" * 20


def build(text: str = TEXT, *, documents: bool = True, **options) -> bpe.BPETokenizer:
    return BPE(**({"size": 290} | options)).build(lambda: iter([text]), documents=documents)


LEARNED = build()


def whole(text: str) -> list[int]:
    """The library's own ids of the uncut text."""
    return LEARNED._encoder.encode(text, add_special_tokens=False).ids


def test_vocabulary_has_the_bytes_the_end_of_text_and_merges():
    assert (LEARNED.vocab_size, LEARNED.start, LEARNED.end) == (290, 0, 0)
    assert len(LEARNED.encode(TEXT)) < len(TEXT) / 2
    single = build(documents=False, size=257)
    assert (single.vocab_size, single.start, single.end) == (257, None, None)


def test_small_text_gives_fewer_merges_than_asked():
    assert build("ab ab ab", size=4096).vocab_size < 4096
    assert build("abc", min_frequency=2).vocab_size == 257
    assert build("", documents=False).vocab_size == 256


def test_words_of_any_length_are_learned_in_short_ones():
    """A genome is one word, and the library's time goes with the square of a word's length: uncut, this takes hours."""
    random = np.random.default_rng(0)
    genome = "".join(random.choice(list("ACGT"), 300_000))
    learned = build(genome, size=300)
    assert learned.vocab_size == 300
    assert learned.decode(learned.encode(genome)) == genome
    pieces = ["a genome: " + genome[:1000], " and words\n", "", "é" * 300]
    cut = list(config._short_words(iter(pieces)))
    assert "".join(cut) == "".join(pieces)
    assert len(cut) == 8 and max(map(len, cut)) < 300
    assert list(config._short_words(iter([TEXT]))) == [TEXT]


def test_size_below_the_bytes_is_refused():
    with pytest.raises(ValidationError):
        BPE(size=256)


@given(st.text())
def test_round_trip_on_any_text(text):
    assert LEARNED.decode(LEARNED.encode(text)) == text


# Everything that GPT-2's pattern and the search for cuts treat in a way of their own.
_awkward = st.text(alphabet="ab1.'sl \n\t\r\u00a0\u1680\u180e\u2003\u3000\x1c\x85\u200b\u0301é", max_size=60)


@given(_awkward)
def test_cutting_never_changes_ids(text):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bpe, "PIECE", 3)
        patch.setattr(bpe, "_BATCH", 2)
        assert LEARNED.encode(text).tolist() == whole(text)


@given(
    st.lists(st.sampled_from([*map(chr, range(128)), "  ", "\n\n", "the", " bird", "'ll", "19"])).map("".join)
)
def test_words_met_before_give_the_librarys_ids(text):
    assert LEARNED.encode(text).tolist() == LEARNED.encode(text).tolist() == whole(text)


def test_few_words_are_kept_and_the_ids_stay(monkeypatch):
    monkeypatch.setattr(bpe, "_KEPT", 3)
    fresh = build()
    assert fresh.encode(TEXT).tolist() == whole(TEXT)
    assert len(fresh._words) == 3


def test_other_words_than_gpt2s_are_refused():
    for changed in ({"pre_tokenizer": None}, {"normalizer": {"type": "Lowercase"}}):
        saved = json.loads(LEARNED._encoder.to_str())
        with pytest.raises(ValueError, match="GPT-2's words"):
            bpe.BPETokenizer(json.dumps(saved | changed))


def test_every_unusual_character_may_stand_before_a_cut():
    """Python and the library need not agree on what white space is; a cut must be safe under both."""
    odd = [chr(c) for c in range(0x3100) if chr(c).isspace() or unicodedata.category(chr(c))[0] in "ZC"]
    assert len(odd) > 100
    for left in (c for c in odd if not c.isspace()):
        for right in (" x", "  x", "\n x", " \n"):
            assert whole("a" + left + right) == whole("a" + left) + whole(right), f"U+{ord(left):04X}"


def test_real_text_is_encoded_as_if_uncut(test_data):
    text = (test_data / "tinyshakespeare.txt").read_text(encoding="utf-8")[:300_000]
    assert LEARNED.encode(text).tolist() == whole(text)
    assert LEARNED.decode(LEARNED.encode(text)) == text


def test_a_special_token_in_the_users_text_is_text():
    ids = LEARNED.encode("a<|endoftext|>b")
    assert LEARNED.end not in ids and LEARNED.decode(ids) == "a<|endoftext|>b"


def test_saved_file_opens_in_the_library_alone(tmp_path):
    LEARNED.save(tmp_path)
    opened = library.Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    assert opened.encode(TEXT).ids == LEARNED.encode(TEXT).tolist()
    assert opened.decode(LEARNED.encode(TEXT).tolist()) == TEXT
    assert opened.token_to_id("<|endoftext|>") == LEARNED.end


def test_loaded_tokenizer_still_takes_a_special_token_as_text(tmp_path):
    LEARNED.save(tmp_path)
    loaded = load_tokenizer(tmp_path)
    np.testing.assert_array_equal(loaded.encode("<|endoftext|>"), LEARNED.encode("<|endoftext|>"))


def test_library_file_without_our_header_says_what_is_missing(tmp_path):
    LEARNED.save(tmp_path)
    (tmp_path / "octavo.json").unlink()
    with pytest.raises(TokenizerError, match=r"octavo\.json"):
        load_tokenizer(tmp_path)


@pytest.mark.parametrize("content", ["", "{}", '{"model": 1}'])
def test_content_that_the_library_refuses(content):
    with pytest.raises(ValueError):
        bpe.BPETokenizer(content)


def test_token_outside_the_byte_alphabet_is_refused():
    saved = json.loads(LEARNED._encoder.to_str())
    saved["added_tokens"] = []
    with pytest.raises((KeyError, ValueError)):
        bpe.BPETokenizer(json.dumps(saved).replace("<|endoftext|>", "€"))


def test_each_merge_is_of_two_tokens_that_were_there_before():
    halves = LEARNED.halves()
    merged = np.flatnonzero(halves[:, 0] >= 0)
    assert merged.tolist() == list(range(257, 290)) and (halves[:257] == -1).all()
    for id in merged.tolist():
        assert (halves[id] < id).all()
        assert LEARNED._bytes[id] == b"".join(LEARNED._bytes[half] for half in halves[id])
