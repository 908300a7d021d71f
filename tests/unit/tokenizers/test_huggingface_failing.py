"""Tokenizers of other models that make the library fail, or encode at random."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from octavo.errors import TokenizerError
from octavo.tokenizers import load_tokenizer
from octavo.tokenizers.huggingface import HuggingFaceTokenizer, read_huggingface

library = pytest.importorskip("tokenizers")

LETTERS = {"a": 0, "b": 1, " ": 2, "!": 3, "\n": 4}
STRIP = {"type": "Strip", "content": " ", "start": 0, "stop": 5}


def letters(**parts: Any) -> str:
    encoder = library.Tokenizer(library.models.WordLevel(LETTERS, unk_token="a"))
    encoder.pre_tokenizer = library.pre_tokenizers.Split("", "isolated")
    return json.dumps(json.loads(encoder.to_str()) | parts)


def split(pattern: str) -> dict[str, Any]:
    return {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}


@pytest.mark.parametrize(
    "parts",
    [
        {"normalizer": {"type": "Precompiled", "precompiled_charsmap": "AAAA"}},
        {"pre_tokenizer": {"type": "FixedLength", "length": 0}},
        {"decoder": STRIP},
    ],
    ids=str,
)
def test_what_makes_the_library_panic_is_refused_when_it_is_read(tmp_path: Path, parts: Any) -> None:
    (tmp_path / "tokenizer.json").write_text(letters(**parts))
    with pytest.raises(
        TokenizerError, match=r"cannot be used as a tokenizer: the library 'tokenizers' fails: .*[^.]\.\n"
    ):
        read_huggingface(tmp_path / "tokenizer.json")


def test_a_text_that_makes_the_library_panic_is_refused() -> None:
    found = HuggingFaceTokenizer(letters(pre_tokenizer=split("(a+)+$")))
    assert found.encode("a").tolist() == [0]
    with pytest.raises(TokenizerError, match="cannot read the text"):
        found.encode("a" * 40 + "!")


def test_ids_that_make_the_library_panic_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("octavo.tokenizers.huggingface._TRIED", 0)
    found = HuggingFaceTokenizer(letters(decoder=STRIP))
    assert found.decode([0, 1]) == "ab"
    with pytest.raises(TokenizerError, match="cannot write the text"):
        found.decode([0, 2])
    stream = found.decoder()
    with pytest.raises(TokenizerError, match="cannot write the text"):
        stream.push(2)


def test_an_interrupt_is_none_of_the_librarys_failures(monkeypatch: pytest.MonkeyPatch) -> None:
    found = HuggingFaceTokenizer(letters())

    def interrupted(*args: Any, **options: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(found, "_encoder", type("Encoder", (), {"encode_batch_fast": interrupted})())
    with pytest.raises(KeyboardInterrupt):
        found.encode("a")


@pytest.mark.parametrize("id", [1 << 24, (1 << 31) - 1, 1 << 31, (1 << 32) - 1])
def test_ids_that_no_model_has_are_refused(id: int) -> None:
    model = {"type": "WordLevel", "vocab": LETTERS | {"c": id}, "unk_token": "a"}
    with pytest.raises(ValueError, match="ids up to"):
        HuggingFaceTokenizer(letters(model=model))


def test_no_merge_is_left_out_at_random(tmp_path: Path) -> None:
    vocabulary = {"a": 0, "b": 1, "ab": 2, "abab": 3}
    encoder = library.Tokenizer(library.models.BPE(vocabulary, [("a", "b"), ("ab", "ab")], dropout=0.5))
    encoder.save(str(tmp_path / "tokenizer.json"))
    found = read_huggingface(tmp_path / "tokenizer.json")
    found.save(tmp_path / "saved")
    loaded = load_tokenizer(tmp_path / "saved")
    for each in (found, loaded):
        for _ in range(10):
            np.testing.assert_array_equal(each.encode("abab" * 20), [3] * 20)
    assert loaded.fingerprint() == found.fingerprint()
