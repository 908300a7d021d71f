from __future__ import annotations

import json

import pytest

from octavo.errors import TokenizerError
from octavo.tokenizers import UnknownTextError, load_tokenizer
from octavo.tokenizers.byte import ByteTokenizer


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
