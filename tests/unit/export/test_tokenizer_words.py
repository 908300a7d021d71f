"""Words in `tokenizer.json`: the run's ids of any text, the run's spacing of any ids."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from octavo.errors import InputError
from octavo.export.targets import targets
from octavo.export.tokenizer_json import tokenizer_json
from octavo.tokenizers.word import WordTokenizer

library = pytest.importorskip("tokenizers")

MARKS = list(".,?!;:)]}”’»…%°([{“‘«„‚¿¡$£€#@`\"'_-<>|/*+=~^&\\")
WORDS = ["the", "cat", "don't", "well-known", "3.14", "x’y", "ä", "i", "unk", *MARKS]


def both(*, lines: str, unknown: bool, lowercase: bool = False) -> tuple[WordTokenizer, Any]:
    words = WORDS if lines == "fold" else [*WORDS, "\n"]
    own = WordTokenizer(words, lowercase=lowercase, lines=lines, unknown=unknown)
    theirs = library.Tokenizer.from_str(json.dumps(tokenizer_json(own)))
    theirs.encode_special_tokens = True
    return own, theirs


@pytest.mark.parametrize("unknown", [False, True])
@pytest.mark.parametrize("lines", ["fold", "keep"])
def test_any_ids_are_spaced_alike_and_come_back(lines: str, unknown: bool) -> None:
    own, theirs = both(lines=lines, unknown=unknown)
    draw = random.Random(0)
    few = [own._tokens.index(one) for one in ('"', "'", "_", "-", own._tokens[-1])]
    for _ in range(1500):
        ids = [
            draw.choice(few) if draw.random() < 0.5 else draw.randrange(2, own.vocab_size)
            for _ in range(draw.randrange(30))
        ]
        text = own.decode(ids)
        assert theirs.decode(ids, skip_special_tokens=True) == text
        assert theirs.encode(text, add_special_tokens=False).ids == own.encode(text).tolist() == ids


@pytest.mark.parametrize("lowercase", [False, True])
def test_any_text_has_the_same_ids(lowercase: bool) -> None:
    own, theirs = both(lines="keep", unknown=True, lowercase=lowercase)
    pieces = [
        *WORDS,
        " ",
        "\n",
        "\t",
        "\x1c",
        "\x1f",
        "\xa0",
        "\u2003",
        "<unk>",
        "<UNK>",
        "<un\u212a>",
        "<sos>",
    ]
    pieces += ["THE", "Cat", "İ", "Σ", "1,5", "_", "a\u0301", "\ue000", "-", "'"]
    draw = random.Random(1)
    for _ in range(1500):
        text = "".join(draw.choice(pieces) for _ in range(draw.randrange(20)))
        assert theirs.encode(text, add_special_tokens=False).ids == own.encode(text).tolist(), text


def test_a_word_that_it_lacks_is_refused_as_in_the_run() -> None:
    own, theirs = both(lines="fold", unknown=False)
    with pytest.raises(InputError):
        own.encode("the dog")
    with pytest.raises(Exception, match="UNK"):
        theirs.encode("the dog")


def test_what_differs_is_no_promise() -> None:
    def said(words: list[str], *, lowercase: bool) -> str:
        made = WordTokenizer(words, lowercase=lowercase, lines="fold", unknown=True)
        return targets()["hf"].tokenizer("word", made).status

    assert said(["ὀδός"], lowercase=True) == "approximate"
    assert said(["ὀδός"], lowercase=False) == said(["way"], lowercase=True) == "exact"
