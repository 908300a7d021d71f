"""Tokenizers of other models: the library's ids, no special token out of a text, streams in any decoder's form."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from octavo.corpus.sources import FilesSource
from octavo.data import prepare, prepare_text
from octavo.errors import TokenizerError
from octavo.tokenizers import encode_pieces, load_tokenizer
from octavo.tokenizers.base import UnknownTextError
from octavo.tokenizers.huggingface import HuggingFace, HuggingFaceTokenizer, read_huggingface

library = pytest.importorskip("tokenizers")

TEXT = "One day, a small bird: «Größe» 日本語 😀 don't ask! " * 3


def byte_level(*special: str, size: int = 300) -> Any:
    encoder = library.Tokenizer(library.models.BPE())
    encoder.pre_tokenizer = library.pre_tokenizers.ByteLevel(add_prefix_space=False)
    encoder.decoder = library.decoders.ByteLevel()
    alphabet = library.pre_tokenizers.ByteLevel.alphabet()
    trainer = library.trainers.BpeTrainer(
        vocab_size=size, special_tokens=list(special), initial_alphabet=alphabet, show_progress=False
    )
    encoder.train_from_iterator([TEXT], trainer)
    return encoder


def sentence_piece() -> Any:
    """Llama 2's form: ▁ for spaces, one before the text, bytes for what the vocabulary lacks."""
    letters = sorted(set(TEXT.replace(" ", "▁")) - {"日", "😀"})
    vocabulary = {"<unk>": 0, "<s>": 1, "</s>": 2} | {f"<0x{byte:02X}>": 3 + byte for byte in range(256)}
    vocabulary |= {letter: 259 + index for index, letter in enumerate([*letters, "da", "day", "▁day"])}
    merges = [("d", "a"), ("da", "y"), ("▁", "day")]
    encoder = library.Tokenizer(
        library.models.BPE(vocabulary, merges, unk_token="<unk>", fuse_unk=True, byte_fallback=True)
    )
    normalizers, decoders = library.normalizers, library.decoders
    encoder.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    encoder.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    encoder.add_special_tokens(["<unk>", "<s>", "</s>"])
    return encoder


def words() -> Any:
    """Its vocabulary holds the names of its special tokens as words."""
    names = ["[UNK]", "[END]", "a", "[", "]", "END", "E", "ND]", "small", "bird"]
    model = library.models.WordLevel({name: id for id, name in enumerate(names)}, unk_token="[UNK]")
    encoder = library.Tokenizer(model)
    encoder.pre_tokenizer = library.pre_tokenizers.WhitespaceSplit()
    encoder.add_special_tokens(["[UNK]", "[END]"])
    return encoder


FORMS = {"bytes": lambda: byte_level("<|endoftext|>"), "sentence": sentence_piece, "words": words}


@pytest.fixture(params=FORMS)
def encoder(request: pytest.FixtureRequest) -> Any:
    return FORMS[request.param]()


def test_ids_are_the_librarys(encoder: Any) -> None:
    tokenizer = HuggingFaceTokenizer(encoder.to_str())
    for text in (TEXT, "", " a", "small bird ", "\n\n", "日"):
        found = tokenizer.encode(text)
        assert found.tolist() == encoder.encode(text, add_special_tokens=False).ids
        assert tokenizer.decode(found) == encoder.decode(found.tolist(), skip_special_tokens=False)


def test_a_text_in_pieces_has_the_ids_of_the_whole(encoder: Any) -> None:
    tokenizer = HuggingFaceTokenizer(encoder.to_str())
    pieces = [TEXT[at : at + 7] for at in range(0, len(TEXT), 7)]
    np.testing.assert_array_equal(
        np.concatenate(list(encode_pieces(tokenizer, pieces))), tokenizer.encode(TEXT)
    )


@pytest.mark.parametrize("form", FORMS)
def test_a_stream_says_what_decoding_says(form: str) -> None:
    tokenizer = HuggingFaceTokenizer(FORMS[form]().to_str())

    @given(st.lists(st.integers(0, tokenizer.vocab_size - 1), max_size=120))
    def check(ids: list[int]) -> None:
        decoder = tokenizer.decoder()
        assert "".join(map(decoder.push, ids)) + decoder.finish() == tokenizer.decode(ids)

    check()


def test_a_stream_speaks_before_its_end() -> None:
    tokenizer = HuggingFaceTokenizer(sentence_piece().to_str())
    decoder, ids = tokenizer.decoder(), tokenizer.encode(TEXT).tolist()
    pieces = [decoder.push(id) for id in ids]
    assert "".join(pieces) == TEXT.removeprefix(" ") and sum(map(bool, pieces)) > len(ids) / 2
    assert "\ufffd" not in "".join(pieces)


@pytest.mark.parametrize("special", ["<|endoftext|>", "<|im_start|>"])
def test_special_tokens_in_a_text_are_text(special: str) -> None:
    tokenizer = HuggingFaceTokenizer(byte_level("<|endoftext|>", "<|im_start|>").to_str(), end=0)
    ids = tokenizer.encode(f"a{special}b")
    assert not {0, 1} & set(ids.tolist()) and tokenizer.decode(ids) == f"a{special}b"
    assert tokenizer.decode([0, *ids, 1]) == f"a{special}b"
    assert dict(tokenizer.special) == {"<|endoftext|>": 0, "<|im_start|>": 1}


def test_a_vocabulary_that_spells_its_special_token_is_taken_apart() -> None:
    tokenizer = HuggingFaceTokenizer(words().to_str(), end=1)
    ids = tokenizer.encode("a [END] bird").tolist()
    assert 1 not in ids and ids[0] == 2 and ids[-1] == 9
    assert tokenizer.unknown == 0 and tokenizer.encode("whale").tolist() == [0]
    short = json.loads(words().to_str().replace("[END]", "#"))
    with pytest.raises(TokenizerError, match="special token '#' of plain text"):
        HuggingFaceTokenizer(json.dumps(short), end=1).encode("a # bird")


def test_ids_beyond_the_file_are_nothing() -> None:
    plain = byte_level("<|endoftext|>")
    named = plain.get_vocab_size()
    tokenizer = HuggingFaceTokenizer(plain.to_str(), end=0, size=named + 7)
    assert tokenizer.vocab_size == named + 7 and tokenizer.decode([named + 6, 40]) == tokenizer.decode([40])
    assert tokenizer.token_text(named + 6) == f"<unused {named + 6}>"
    with pytest.raises(ValueError, match="has 5 tokens"):
        HuggingFaceTokenizer(plain.to_str(), size=5)


def test_the_end_is_what_the_settings_name(tmp_path: Path) -> None:
    file = tmp_path / "tokenizer.json"
    byte_level("<s>", "<|endoftext|>", "<|im_end|>").save(str(file))
    assert HuggingFace(file=file).build(lambda: iter(()), documents=True).end == 1
    settings = {"eos_token": {"content": "<|im_end|>"}, "bos_token": "<s>"}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(settings))
    found = HuggingFace(file=file).build(lambda: iter(()), documents=True)
    assert (found.start, found.end) == (0, 2)
    assert HuggingFace(file=file, end="<|endoftext|>").build(lambda: iter(()), documents=True).end == 1
    with pytest.raises(TokenizerError, match="no token 'stop'"):
        HuggingFace(file=file, end="stop").build(lambda: iter(()), documents=True)
    found.save(tmp_path / "saved")
    loaded = load_tokenizer(tmp_path / "saved")
    assert (loaded.start, loaded.end, loaded.fingerprint()) == (0, 2, found.fingerprint())
    assert (tmp_path / "saved" / "tokenizer.json").read_bytes() == file.read_bytes()


def test_ends_that_the_file_does_not_have_are_those_that_it_names(tmp_path: Path) -> None:
    file = tmp_path / "tokenizer.json"
    byte_level("<s>", "<|endoftext|>").save(str(file))
    found = read_huggingface(file, start=5_000, end=50_256, size=60_000)
    assert (found.start, found.end, found.vocab_size) == (1, 1, 60_000)


@pytest.mark.parametrize("content", ["", "{}", "[]", '{"model": 3}', "\udcff", None, "[" * 100_000])
def test_what_is_no_tokenizer(tmp_path: Path, content: str | None) -> None:
    file = tmp_path / "tokenizer.json"
    if content is not None:
        file.write_bytes(content.encode("utf-8", "surrogateescape"))
    with pytest.raises(TokenizerError, match="cannot be used as a tokenizer"):
        read_huggingface(file)


def test_settings_that_are_no_settings(tmp_path: Path) -> None:
    file = tmp_path / "tokenizer.json"
    byte_level("<|endoftext|>").save(str(file))
    for content in ("[3]", "{}", '{"eos_token": 3}'):
        (tmp_path / "tokenizer_config.json").write_text(content)
        assert read_huggingface(file).end == 0
    (tmp_path / "tokenizer_config.json").write_text("{")
    with pytest.raises(TokenizerError, match="tokenizer_config"):
        read_huggingface(file)


def source(path: Path, text: str) -> Any:
    path.write_text(text)
    return FilesSource(paths=(str(path),)).build(report=lambda said: None)


def test_a_dataset_knows_what_the_settings_beside_the_file_say(tmp_path: Path) -> None:
    byte_level("<s>", "</s>", "<eot>").save(str(tmp_path / "tokenizer.json"))
    for end in ("</s>", "<eot>", "</s>"):
        (tmp_path / "tokenizer_config.json").write_text(json.dumps({"eos_token": end}))
        config = HuggingFace(file=tmp_path / "tokenizer.json")
        text = source(tmp_path / "text.txt", "a fox\n<|endoftext|>\n" * 50)
        found = prepare(text, config, cache=tmp_path / "cache", validation=0.3)
        assert found.tokenizer.end == config.build(lambda: iter([]), documents=True).end


def test_a_long_text_is_not_cut_where_that_changes_ids(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sentence_piece().save(str(tmp_path / "tokenizer.json"))
    tokenizer = HuggingFace(file=tmp_path / "tokenizer.json", end="</s>").build(
        lambda: iter([]), documents=False
    )
    assert not tokenizer.cuts_at_words
    monkeypatch.setattr("octavo.data.text.SEGMENT", 1000)
    whole = TEXT * 40
    split = prepare_text(source(tmp_path / "long.txt", whole), tokenizer, cache=tmp_path / "cache")
    assert np.array_equal(split.tokens, tokenizer.encode(whole))


def test_a_character_that_has_no_token_is_named() -> None:
    """The library's own error has no name but Exception."""
    from tokenizers import Tokenizer, models, pre_tokenizers

    library = Tokenizer(models.WordLevel({"a": 0, "b": 1, " ": 2}))
    library.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    found = HuggingFaceTokenizer(library.to_str())
    assert found.encode("ab a").tolist() == [0, 1, 2, 0]
    with pytest.raises(UnknownTextError, match="lacks 2 characters") as caught:
        found.encode("a日本 日")
    assert caught.value.counts == {"日": 2, "本": 1}
    with pytest.raises(TokenizerError, match="cannot read the text"):
        found.encode("日本")
