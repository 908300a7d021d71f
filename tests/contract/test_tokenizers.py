"""What holds for every registered tokenizer."""

from __future__ import annotations

import json
import tempfile
from functools import cache
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from octavo.config.parts import parts
from octavo.errors import TokenizerError
from octavo.tokenizers import (
    Tokenizer,
    TokenizerConfig,
    base,
    build_tokenizer,
    encode_pieces,
    load_tokenizer,
    with_special,
)

KINDS = list(parts("tokenizer"))

TEXT = (
    "One day, small bird fly ing sky. It doesn't see 3.14 trees;  it asked: 'ha you ing leave?'\n\n"
    "Größe — naïve café “ça va”, 日本語 and 😀! <|endoftext|> <unk>\n\ttabs  \n and    runs of   spaces \n"
) * 4

# Of symbols, a text is their numbers.
NUMBERS = "0 7\n\n12  199 200\t255 254 3 9  1 0 17\n" * 20


def text_of(kind: str) -> str:
    """A text that a kind is built from, and covers."""
    return NUMBERS if kind == "symbols" else TEXT


def word_of(kind: str) -> str:
    """A word of that text."""
    return "17" if kind == "symbols" else "bird"


def covered(kind: str) -> st.SearchStrategy[str]:
    """What every tokenizer that is built from the text covers: its words and marks between any white space of it."""
    atoms = set(text_of(kind).split())
    atoms = {f"{number} " for number in atoms} if kind == "symbols" else atoms
    return st.lists(st.sampled_from(sorted(atoms | {" ", "  ", "\n", "\n\n", "\t", "   "})), max_size=30).map(
        "".join
    )


def spread(text: str, cuts: list[int]) -> list[str]:
    """The text in pieces, cut at the given places (modulo its length)."""
    places = sorted({0, len(text), *(cut % (len(text) + 1) for cut in cuts)})
    return [text[a:b] for a, b in pairwise(places)]


def config(kind: str, folder: Path) -> TokenizerConfig:
    """Options that let a kind cover every text, where it has such options."""
    options: dict[str, dict[str, object]] = {
        "gpt2": {"files": folder / "gpt2"},
        "bpe": {"size": 300},
        "word": {"unknown": "token"},
        "separate": {"source": {"kind": "bpe", "size": 290}, "target": {"kind": "bpe", "size": 300}},
    }
    if kind == "huggingface":
        options[kind] = {"file": foreign()}
    return parts("tokenizer")[kind](**options.get(kind, {}))


@cache
def foreign() -> Path:
    """A `tokenizer.json` that Octavo did not write."""
    library = pytest.importorskip("tokenizers")
    encoder = library.Tokenizer(library.models.BPE())
    encoder.pre_tokenizer = library.pre_tokenizers.ByteLevel(add_prefix_space=False)
    encoder.decoder = library.decoders.ByteLevel()
    trainer = library.trainers.BpeTrainer(
        vocab_size=320,
        special_tokens=["<|endoftext|>", "<|im_start|>"],
        initial_alphabet=library.pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    encoder.train_from_iterator([TEXT], trainer)
    encoder.enable_truncation(3)  # as many files have it
    encoder.enable_padding(length=5)
    path = Path(tempfile.mkdtemp()) / "tokenizer.json"
    encoder.save(str(path))
    return path


@cache
def built(kind: str, folder: Path, documents: bool = True) -> Tokenizer:
    return config(kind, folder).build(lambda: iter([text_of(kind)]), documents=documents)


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    if request.param == "gpt2":
        request.getfixturevalue("test_data")
    return request.param


@pytest.fixture
def data(request: pytest.FixtureRequest, kind: str) -> Path:
    return request.getfixturevalue("test_data") if kind == "gpt2" else Path()


@pytest.fixture(params=[True, False], ids=["documents", "one"])
def tokenizer(request: pytest.FixtureRequest, kind: str, data: Path) -> Tokenizer:
    return built(kind, data, request.param)


def readable(tokenizer: Tokenizer, text: str) -> str:
    """The text as a round trip gives it back."""
    return text if tokenizer.kind not in ("word", "symbols") else tokenizer.decode(tokenizer.encode(text))


def test_ids_are_int32_within_the_vocabulary_and_none_special(tokenizer):
    ids = tokenizer.encode(text_of(tokenizer.kind))
    assert ids.dtype == np.int32 and ids.ndim == 1 and ids.size > 0
    assert ids.min() >= 0 and ids.max() < tokenizer.vocab_size
    assert tokenizer.start not in ids and tokenizer.end not in ids
    assert tokenizer.encode("").dtype == np.int32 and tokenizer.encode("").shape == (0,)


def test_document_stands_between_its_special_tokens(tokenizer):
    word = word_of(tokenizer.kind)
    ids = tokenizer.encode_document(word).tolist()
    body = tokenizer.encode(word).tolist()
    before = [tokenizer.start] if tokenizer.start is not None and tokenizer.start != tokenizer.end else []
    after = [tokenizer.end] if tokenizer.end is not None else []
    assert ids == before + body + after
    assert tokenizer.encode_document(word).dtype == np.int32
    assert tokenizer.decode(ids) == word


def test_more_than_one_document_has_an_end(kind, data):
    assert built(kind, data, True).end is not None


def test_round_trip(kind, data):
    tokenizer = built(kind, data)

    @given(covered(kind))
    def check(text: str) -> None:
        ids = tokenizer.encode(text)
        assert tokenizer.decode(ids) == readable(tokenizer, text)
        np.testing.assert_array_equal(tokenizer.encode(tokenizer.decode(ids)), ids)

    check()


def test_stream_decoder_gives_what_decode_gives(tokenizer):
    @given(st.lists(st.integers(0, tokenizer.vocab_size - 1), max_size=40))
    def check(ids: list[int]) -> None:
        decoder = tokenizer.decoder()
        streamed = "".join([decoder.push(id) for id in ids]) + decoder.finish()
        assert streamed == tokenizer.decode(ids) == tokenizer.decode(np.array(ids, np.int32))

    check()
    assert tokenizer.decode(iter([])) == ""


def test_stream_decoder_prints_no_half_character(kind, data):
    if kind == "symbols":
        pytest.skip("has no characters")
    tokenizer = built(kind, data)
    decoder = tokenizer.decoder()
    assert "\ufffd" not in "".join(decoder.push(int(id)) for id in tokenizer.encode("Größe 日本語 😀"))


@pytest.mark.parametrize("wrong", [-1, "size"])
def test_id_outside_the_vocabulary(tokenizer, wrong):
    id = tokenizer.vocab_size if wrong == "size" else wrong
    for use in (
        lambda: tokenizer.decode([0, id]),
        lambda: tokenizer.decoder().push(id),
        lambda: tokenizer.token_text(id),
    ):
        with pytest.raises(TokenizerError, match=f"id {id} is outside"):
            use()


def test_every_token_has_a_printable_text(tokenizer):
    for id in range(tokenizer.vocab_size):
        text = tokenizer.token_text(id)
        assert text and text.isprintable()


def test_pieces_encode_like_the_whole(kind, data, monkeypatch):
    monkeypatch.setattr(base.whole_words, "__defaults__", (8,))
    tokenizer = built(kind, data)

    @given(covered(kind), st.lists(st.integers(0, 1000), max_size=12))
    def check(text: str, cuts: list[int]) -> None:
        parts_ = [*encode_pieces(tokenizer, iter(spread(text, cuts))), np.zeros(0, np.int32)]
        np.testing.assert_array_equal(np.concatenate(parts_), tokenizer.encode(text))

    check()


def test_build_does_not_depend_on_the_pieces(kind, data):
    whole, text = built(kind, data).fingerprint(), text_of(kind)
    for size in (1, 7, 64):
        cut = [text[at : at + size] for at in range(0, len(text), size)]
        assert config(kind, data).build(lambda cut=cut: iter(cut), documents=True).fingerprint() == whole


def test_saved_and_loaded_is_the_same(tokenizer, tmp_path):
    tokenizer.save(tmp_path / "new" / "tokenizer")
    loaded = load_tokenizer(tmp_path / "new" / "tokenizer")
    assert type(loaded) is type(tokenizer)
    assert loaded.fingerprint() == tokenizer.fingerprint()
    assert (loaded.vocab_size, loaded.start, loaded.end) == (
        tokenizer.vocab_size,
        tokenizer.start,
        tokenizer.end,
    )
    text = text_of(tokenizer.kind)
    np.testing.assert_array_equal(loaded.encode(text), tokenizer.encode(text))
    every = range(tokenizer.vocab_size)
    assert [loaded.token_text(id) for id in every] == [tokenizer.token_text(id) for id in every]
    assert loaded.decode(every) == tokenizer.decode(every)


def test_saving_over_another_tokenizer_leaves_nothing_of_it(tokenizer, tmp_path):
    built("bpe", Path()).save(tmp_path)
    tokenizer.save(tmp_path)
    assert load_tokenizer(tmp_path).fingerprint() == tokenizer.fingerprint()


@pytest.mark.parametrize("damage", ["truncated", "altered", "emptied", "missing"])
def test_damaged_file_is_refused(kind, data, tmp_path, damage):
    built(kind, data).save(tmp_path)
    for path in sorted(tmp_path.iterdir()):
        whole = path.read_bytes()
        at = whole.rindex(b'"') - 1 if b'"' in whole else len(whole) // 2  # inside a value, not in the layout
        altered = whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :]
        path.write_bytes({"truncated": whole[: len(whole) // 2], "altered": altered}.get(damage, b""))
        if damage == "missing":
            path.unlink()
        with pytest.raises(TokenizerError):
            load_tokenizer(tmp_path)
        path.write_bytes(whole)
    load_tokenizer(tmp_path)


def test_later_format_says_so(kind, data, tmp_path):
    tokenizer = built(kind, data)
    tokenizer.save(tmp_path)
    path = tmp_path / tokenizer.header
    path.write_text(json.dumps(json.loads(path.read_text()) | {"version": 3}))
    with pytest.raises(TokenizerError, match=r"version 3.*\n.*Update Octavo"):
        load_tokenizer(tmp_path)


def test_lone_surrogate_is_an_error_or_unknown(kind, data):
    tokenizer = built(kind, data)
    if kind == "word":
        assert tokenizer.encode("a \ud800").tolist()[-1] == tokenizer.unknown
    else:
        with pytest.raises(TokenizerError, match=r"U\+D800"):
            tokenizer.encode("a \ud800")


def test_build_from_half_a_character_is_an_error_or_a_character(kind, data):
    """A text that no file can hold must end in our own error, whichever library reads it."""
    make = config(kind, data)
    try:
        tokenizer = make.build(lambda: iter(["a \ud800 b"]), documents=True)
    except TokenizerError as error:
        assert "U+D800" in str(error)
    else:
        assert tokenizer.vocab_size > 2


ADDED = ("<|user|>", "<|assistant|>", "[PAD]")


@pytest.fixture
def extended(tokenizer: Tokenizer) -> Tokenizer:
    """The same with special tokens that were added to its finished vocabulary."""
    return with_special(tokenizer, ADDED)


def test_added_tokens_have_the_ids_after_all_others(tokenizer, extended):
    first = tokenizer.vocab_size
    assert extended.vocab_size == first + 3 and extended.added == ADDED and tokenizer.added == ()
    assert {name: extended.special[name] for name in ADDED} == {
        name: first + at for at, name in enumerate(ADDED)
    }
    assert dict(extended.special) == dict(tokenizer.special) | {
        name: extended.special[name] for name in ADDED
    }
    assert [extended.token_text(first + at) for at in range(3)] == list(ADDED)
    assert (extended.start, extended.end, extended.kind) == (tokenizer.start, tokenizer.end, tokenizer.kind)
    more = with_special(extended, ["<|tool|>", "<|user|>"])
    assert more.added == (*ADDED, "<|tool|>") and more.special["<|tool|>"] == first + 3
    assert with_special(extended, ADDED) is extended


def test_no_text_gives_a_special_token(kind, data):
    tokenizer = with_special(built(kind, data), ADDED)
    assert tokenizer.special.keys() > set(ADDED)
    special = set(tokenizer.special.values())

    @given(st.lists(st.sampled_from([*tokenizer.special, " ", "\n"]), max_size=6).map("".join))
    def check(text: str) -> None:
        try:
            ids = tokenizer.encode(text)
        except TokenizerError:  # its vocabulary lacks these characters
            return
        assert not special & set(ids.tolist())
        np.testing.assert_array_equal(ids, tokenizer.inner.encode(text))

    check()


def test_decode_leaves_special_tokens_out_wherever_they_stand(tokenizer, extended):
    ids = tokenizer.encode(text_of(tokenizer.kind))[:60]
    text = tokenizer.decode(ids)
    special = list(extended.special.values())[-3:]

    @given(st.lists(st.tuples(st.integers(0, len(ids)), st.sampled_from(special)), max_size=8))
    def check(placed: list[tuple[int, int]]) -> None:
        mixed = ids.tolist()
        for at, id in sorted(placed, reverse=True):
            mixed.insert(at, id)
        decoder = extended.decoder()
        assert extended.decode(mixed) == text == "".join(map(decoder.push, mixed)) + decoder.finish()

    check()


def test_decode_with_names_shows_them(extended):
    word = word_of(extended.kind)
    user, pad = extended.special["<|user|>"], extended.special["[PAD]"]
    ids = [user, *extended.encode(word).tolist(), pad, pad, *extended.encode(word).tolist()]
    assert extended.decode_with_names(ids) == f"<|user|>{word}[PAD][PAD]{word}"
    assert extended.decode_with_names(iter(ids[1:-1])) != "" and extended.decode_with_names([]) == ""
    for name, id in extended.special.items():
        assert extended.decode_with_names([id]) == name and extended.decode([id]) == ""


def test_added_tokens_are_saved_and_found_again(tokenizer, extended, tmp_path):
    extended.save(tmp_path)
    loaded = load_tokenizer(tmp_path)
    assert loaded.added == ADDED and loaded.special == extended.special
    assert loaded.fingerprint() == extended.fingerprint() != tokenizer.fingerprint()
    every = range(extended.vocab_size)
    assert [loaded.token_text(id) for id in every] == [extended.token_text(id) for id in every]
    assert loaded.decode(every) == extended.decode(every)
    path = tmp_path / tokenizer.header
    header = json.loads(path.read_text())
    assert header["version"] == 2  # which a version without added tokens refuses, instead of losing them
    for wrong in (["<|user|>"], "text", [1], None):
        path.write_text(json.dumps(header | {"added": wrong}))
        with pytest.raises(TokenizerError, match="damaged"):
            load_tokenizer(tmp_path)
    path.write_text(json.dumps({key: value for key, value in header.items() if key != "added"}))
    with pytest.raises(TokenizerError, match="damaged"):
        load_tokenizer(tmp_path)


def test_without_added_tokens_a_file_is_as_it_always_was(tokenizer, tmp_path):
    tokenizer.save(tmp_path)
    header = json.loads((tmp_path / tokenizer.header).read_text())
    assert header["version"] == 1 and "added" not in header


def test_options_name_special_tokens(kind, data):
    plain = config(kind, data)
    made = type(plain).model_validate(
        {**plain.model_dump(), "special": ["<|user|>", "<|endoftext|>", "<eos>"]}
    )
    for documents in (True, False):
        tokenizer = build_tokenizer(made, lambda: iter([text_of(kind)]), documents=documents)
        assert tokenizer.special.keys() >= {"<|user|>", "<|endoftext|>", "<eos>"}
        assert tokenizer.end is not None  # one that had none takes the end of text that was added
        assert len(tokenizer.around_document()[1]) == 1
    assert made.identity != plain.identity and "special" not in plain.identity


@pytest.mark.parametrize(
    "wrong", [[""], ["a b"], ["\u200b"], ["<unk>"], ["<a>", "<a>"], ["x" * 65], "<a>", [3]]
)
def test_names_of_special_tokens_are_checked(kind, wrong):
    with pytest.raises(ValidationError, match="special"):
        parts("tokenizer")[kind].model_validate({"kind": kind, "special": wrong})
