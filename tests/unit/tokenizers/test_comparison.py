"""Tokenizers side by side."""

from __future__ import annotations

from pathlib import Path

import pytest

from octavo.errors import ConfigError, CorpusError
from octavo.tokenizers.comparison import Row, compare, divided, lost_by, tokenizer_of, tokenizers_of

TEXT = "The cat sat on the mat, and the dog ran.\n" * 60 + "the Zebra sat on ünder mat\n" * 6


def row(name: str, text: str = TEXT) -> Row:
    (found,) = compare(text, [name], width=10, repeats=1)
    assert found.name == name and found.problem is None
    return found


def test_short_forms() -> None:
    assert tokenizer_of("bpe:512").identity == {"kind": "bpe", "size": 512, "min_frequency": 2}
    assert tokenizer_of("bpe:size=300,min_frequency=5").model_dump()["min_frequency"] == 5
    words = tokenizer_of("word:5000,lines=keep").model_dump()
    assert (words["size"], words["lines"], words["unknown"]) == (5000, "keep", "token")
    assert tokenizer_of("char").identity == {"kind": "char", "unknown": "token"}
    assert tokenizer_of("char:error").model_dump()["unknown"] == "error"
    assert tokenizer_of("gpt2:some/folder").model_dump()["files"] == Path("some/folder").absolute()


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("chr", "did you mean char"),
        ("bpe:5", "257"),
        ("bpe:sise=512", "did you mean tokenizer.size"),
        ("bpe:512,7", "reads option=value"),
        ("bpe:", "colon without an option"),
        ("", "there is no tokenizer ''"),
    ],
)
def test_wrong_short_forms(name: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        tokenizer_of(name)


def test_all_wrong_ones_are_said_at_once() -> None:
    with pytest.raises(ConfigError) as caught:
        tokenizers_of(["char", "chr", "bpe:5"])
    assert "did you mean char" in str(caught.value) and "257" in str(caught.value)


def test_the_text_is_divided_between_words() -> None:
    train, held = divided(TEXT)
    assert train + held == TEXT and train[-1].isspace() and not held[0].isspace()
    assert 0.9 <= len(train) / len(TEXT) < 0.91
    for text in ("", "a", "   "):
        with pytest.raises(CorpusError, match="too few"):
            divided(text)


def test_bytes_and_characters_by_hand() -> None:
    _, held = divided(TEXT)
    byte, char = row("byte"), row("char")
    assert (byte.vocabulary, byte.tokens_per_byte, byte.bytes_per_token) == (256, 1.0, 1.0)
    assert (byte.unknown, byte.loses, byte.embedding) == (0.0, (), 2560)
    assert byte.fertility == len(held.encode()) / len(held.split())
    missing = sum(c in "Zebraü" and c not in divided(TEXT)[0] for c in held)
    assert missing and char.unknown == missing / len(held)
    assert char.loses == ("what it does not know",)
    assert char.tokens_per_byte == len(held) / len(held.encode())


def test_words_lose_spacing_and_what_they_do_not_know() -> None:
    words = row("word:lowercase=true")
    assert words.loses == ("what it does not know", "case", "spacing")
    assert words.unknown is not None and words.fertility is not None
    tokens = words.fertility * len(divided(TEXT)[1].split())
    assert words.unknown * tokens == pytest.approx(12)  # zebra and ünder, six times each
    assert row("word", "a b, c\n" * 99).loses == ("spacing",)
    assert row("word:lines=keep", "a b, c\n" * 99).loses == ()


def test_a_byte_pair_encoding_is_shorter_and_exact() -> None:
    pairs = row("bpe:300")
    assert pairs.vocabulary is not None and 257 < pairs.vocabulary <= 300
    assert pairs.bytes_per_token is not None and pairs.bytes_per_token > 1.5 and pairs.loses == ()
    assert pairs.encode_speed is not None and pairs.encode_speed > 0


def test_one_that_cannot_be_built_is_a_row_that_says_why(tmp_path: Path) -> None:
    missing, there = compare(TEXT, [f"gpt2:{tmp_path}", "byte"], repeats=1)
    assert missing.problem is not None and "vocab.bpe" in missing.problem and missing.vocabulary is None
    assert there.problem is None
    (refused,) = compare(TEXT, ["char:error"], repeats=1)
    assert refused.problem is not None and "lacks" in refused.problem
    assert missing.loses == ()


def test_gpt2_on_real_text(test_data: Path) -> None:
    text = (test_data / "tinyshakespeare.txt").read_text(encoding="utf-8")
    (gpt2,) = compare(text, [f"gpt2:{test_data / 'gpt2'}"], width=768, repeats=1)
    assert (gpt2.vocabulary, gpt2.embedding, gpt2.loses) == (50257, 50257 * 768, ())
    assert gpt2.bytes_per_token == pytest.approx(3.09, abs=0.005)


@pytest.mark.parametrize(
    ("text", "back", "lost"),
    [
        ("a B", "a B", ()),
        ("a  B", "a B", ("spacing",)),
        ("a B", "a b", ("case",)),
        ("a  B", "a b", ("case", "spacing")),
        ("a B", "a", ("characters",)),
    ],
)
def test_what_is_lost(text: str, back: str, lost: tuple[str, ...]) -> None:
    assert lost_by(text, back) == lost
