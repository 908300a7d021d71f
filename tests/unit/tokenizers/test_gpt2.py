from __future__ import annotations

import hashlib
import json
import shutil
import sys
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from octavo.errors import MissingExtra, TokenizerError
from octavo.tokenizers import gpt2, load_tokenizer
from octavo.tokenizers.byte import byte_alphabet, from_alphabet


@pytest.fixture(scope="module")
def tokenizer(test_data) -> gpt2.GPT2Tokenizer:
    return gpt2.GPT2(files=test_data / "gpt2").build(lambda: iter([]), documents=False)


@pytest.fixture
def offline(monkeypatch, tmp_path):
    """An empty cache and no network."""
    import requests

    def refuse(*_, **__):
        raise requests.ConnectionError("no network")

    monkeypatch.setattr(requests, "get", refuse)
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_golden_ids_of_report_e(tokenizer):
    assert tokenizer.encode("Thank you!").tolist() == [10449, 345, 0]
    assert (tokenizer.vocab_size, tokenizer.start, tokenizer.end) == (50257, 50256, 50256)
    assert tokenizer.token_text(10449) == "Thank" and tokenizer.token_text(345) == " you"
    assert tokenizer.token_text(50256) == "<|endoftext|>"


def test_every_id_is_that_of_the_other_file(tokenizer, test_data):
    ids = json.loads((test_data / "gpt2" / "encoder.json").read_text(encoding="utf-8"))
    assert ids.pop("<|endoftext|>") == tokenizer.end
    alphabet = byte_alphabet()
    assert {from_alphabet(token, alphabet): id for token, id in ids.items()} == {
        token: id for id, token in enumerate(tokenizer._bytes[:-1])
    }


def test_round_trip_on_any_text(tokenizer):
    @given(st.text())
    def check(text: str) -> None:
        assert tokenizer.decode(tokenizer.encode(text)) == text

    check()


def test_cutting_never_changes_ids(tokenizer, monkeypatch):
    monkeypatch.setattr("octavo.tokenizers.base.whole_words.__defaults__", (3,))

    @given(st.text(alphabet="ab1.'sl \n\t\r\u00a0\u1680\u180e\u2003\u3000\x1c\x85\u200b\u0301é", max_size=60))
    def check(text: str) -> None:
        assert tokenizer.encode(text).tolist() == tokenizer._encoding.encode_ordinary(text)

    check()


def test_a_special_token_in_the_users_text_is_text(tokenizer):
    ids = tokenizer.encode("a<|endoftext|>b")
    assert tokenizer.end not in ids and tokenizer.decode(ids) == "a<|endoftext|>b"


def test_long_runs_are_encoded(tokenizer):
    for text in ("a" * 100_000, " " * 100_000, "\n" * 100_000 + "x"):
        assert tokenizer.decode(tokenizer.encode(text)) == text


def test_saved_copy_needs_neither_network_nor_files(tokenizer, offline, tmp_path):
    tokenizer.save(tmp_path / "saved")
    assert load_tokenizer(tmp_path / "saved").encode("Thank you!").tolist() == [10449, 345, 0]
    assert not offline.exists()


def test_offline_says_what_to_do(offline):
    with pytest.raises(TokenizerError) as raised:
        gpt2.GPT2().build(lambda: iter([]), documents=False)
    for hint in ("tokenizer.files=FOLDER", "TIKTOKEN_CACHE_DIR", "https://", "vocab.bpe", "ConnectionError"):
        assert hint in str(raised.value)


def test_a_download_that_never_comes_is_not_waited_for(offline, monkeypatch):
    import requests

    never = threading.Event()
    monkeypatch.setattr(requests, "get", lambda *_, **__: never.wait())
    monkeypatch.setattr(gpt2, "SECONDS", 0.1)
    try:
        with pytest.raises(TokenizerError, match=r"not within 0\.1 seconds") as raised:
            gpt2.GPT2().build(lambda: iter([]), documents=False)
    finally:
        never.set()
    assert "tokenizer.files=FOLDER" in str(raised.value)


def test_filled_cache_is_used_offline(tokenizer, offline, test_data):
    offline.mkdir()
    name = hashlib.sha1((gpt2.ADDRESS + gpt2.MERGES).encode()).hexdigest()
    shutil.copyfile(test_data / "gpt2" / "vocab.bpe", offline / name)
    assert gpt2.GPT2().build(lambda: iter([]), documents=True).fingerprint() == tokenizer.fingerprint()


def test_given_folder_must_hold_the_real_file(tmp_path):
    config = gpt2.GPT2(files=tmp_path)
    with pytest.raises(TokenizerError, match="cannot be read"):
        config.build(lambda: iter([]), documents=False)
    (tmp_path / "vocab.bpe").write_text("#version: 0.2\na b\n")
    with pytest.raises(TokenizerError, match="SHA-256"):
        config.build(lambda: iter([]), documents=False)


def test_missing_package_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "tiktoken", None)
    monkeypatch.setitem(sys.modules, "tiktoken.load", None)
    with pytest.raises(MissingExtra, match=r"octavo\[gpt2\]"):
        gpt2.GPT2().build(lambda: iter([]), documents=False)
