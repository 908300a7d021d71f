"""A tokenizer for each side of pairs."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest

from octavo.config.parts import parts
from octavo.errors import TokenizerError
from octavo.tasks.translation.separate import SeparateTokenizer, every_second_line
from octavo.tokenizers import UnknownTextError
from octavo.tokenizers.base import Vocabulary, of_sides

TEXT = "der hund\nthe dog\ndie katze\nthe cat\n"
WORDS = {"source": {"kind": "word"}, "target": {"kind": "word", "lines": "keep"}}


def built(options: dict[str, Any], text: str = TEXT) -> SeparateTokenizer:
    pieces = [text[at : at + 3] for at in range(0, len(text), 3)]
    return parts("tokenizer")["separate"].model_validate(options).build(lambda: iter(pieces), documents=True)


def test_each_side_learns_from_its_own_lines_and_has_ids_of_its_own() -> None:
    tokenizer = built(WORDS)
    source, target = of_sides(tokenizer.vocab_size)
    names = [tokenizer.token_text(id) for id in range(tokenizer.vocab_size)]
    assert {"the", "dog", "cat"} <= set(names[:target]) and "hund" not in names[:target]
    assert {"der", "hund"} <= set(names[target:]) and source == len(names) - target
    ids = tokenizer.encode("der hund\nthe cat")
    assert ids.tolist() == [
        *tokenizer.encode_source("der hund"),
        tokenizer.line,
        *tokenizer.encode("the cat"),
    ]
    assert (ids[:2] >= target).all() and (ids[2:] < target).all()
    assert tokenizer.decode(ids) == "der hund\nthe cat"


def test_all_that_either_side_lacks_is_said_at_once() -> None:
    with pytest.raises(UnknownTextError) as caught:
        built(WORDS).encode("the hund\nder cat cat")
    assert caught.value.counts == {"the": 1, "der": 1}


def test_a_target_without_a_line_break_is_refused() -> None:
    with pytest.raises(TokenizerError, match=r"target\.lines=keep"):
        built({**WORDS, "target": {"kind": "word"}})


def test_special_tokens_are_the_targets() -> None:
    tokenizer = built({**WORDS, "special": ["<|user|>"]})
    target = of_sides(tokenizer.vocab_size)[1]
    assert tokenizer.special["<|user|>"] == target - 1


@pytest.mark.parametrize("text", [TEXT, TEXT[:-1], "a\n\nb\n", "", "one"])
def test_lines_take_turns(text: str) -> None:
    lines = text.removesuffix("\n").split("\n") if text else []
    for turn in (0, 1):
        for size in (1, 2, 100):
            pieces = (text[at : at + size] for at in range(0, len(text), size))
            assert "".join(every_second_line(pieces, turn)) == "".join(f"{line}\n" for line in lines[turn::2])


def test_the_size_is_known_where_both_sides_state_theirs() -> None:
    config = parts("tokenizer")["separate"].model_validate
    found = config({"source": {"size": 300}, "target": {"size": 400}}).size
    assert found == 700 and of_sides(found) == (300, 400)
    assert config({"source": "byte"}).size is None
    assert config({"source": "byte", "target": "char"}).trains_on == "corpus"
    assert config({"source": "byte", "target": "bpe"}).trains_on == "train"


def test_a_vocabulary_stays_one_wherever_it_goes() -> None:
    for found in (
        copy.deepcopy(Vocabulary(9, source=4)),
        pickle.loads(pickle.dumps(Vocabulary(9, source=4))),
    ):
        assert of_sides(found) == (4, 5) and found == 9
    assert of_sides(7) == (7, 7) and np.int64(Vocabulary(9, source=4)) == 9


def test_merges_of_each_side_are_among_its_own_ids() -> None:
    sides = {"source": {"kind": "bpe", "size": 260}, "target": {"kind": "bpe", "size": 262}}
    tokenizer = built({**sides, "special": ["<|user|>"]}, 3 * TEXT)
    halves, first = tokenizer.halves(), tokenizer.first
    assert halves is not None and len(halves) == tokenizer.vocab_size
    assert halves[:first].max() < first and (halves[first:][halves[first:] >= 0] >= first).all()
    assert (halves[first:] >= 0).any() and (halves[:first] >= 0).any()
    mixed = built({"source": {"kind": "word"}, "target": sides["target"]}).halves()
    assert mixed is not None and (mixed[262:] == -1).all()
    assert built(WORDS).halves() is None
