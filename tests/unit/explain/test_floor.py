"""Each token of a story beside the best possible probability."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from octavo.explain.floor import floors
from octavo.synthetic.grammar import Grammar
from octavo.synthetic.source import StorytellerSource
from octavo.synthetic.storyteller import Storyteller
from octavo.tokenizers.char import CharTokenizer
from octavo.tokenizers.word import WordTokenizer
from unit.explain.subjects import subject

GRAMMAR = Grammar(
    {
        "go": ["{who=name} see (the dog|a {thing}). {who} run."],
        "name": ["ann", "bob"],
        "thing": ["cat", "cow", "car"],
    },
    "go",
)
WORDS = ["ann", "bob", "see", "the", "dog", "a", "cat", "cow", "car", "run", "."]


def test_tokens_of_a_grammar_have_the_probability_of_what_they_choose() -> None:
    found = GRAMMAR.log_probabilities("bob see a cow. bob run.")
    assert [token for token, _ in found] == ["bob", "see", "a", "cow", ".", "bob", "run", "."]
    assert [math.exp(log) for _, log in found] == pytest.approx([1 / 2, 1, 1 / 2, 1 / 3, 1, 1, 1, 1])
    with pytest.raises(ValueError, match="does not write"):
        GRAMMAR.log_probabilities("bob see a cow. ann run.")


@pytest.mark.parametrize("number", range(3))
def test_a_story_is_as_probable_as_its_tokens_together(number: int) -> None:
    story = Storyteller(3).story(number)
    found = StorytellerSource().best_guesses(story.text)
    assert len(found) == story.tokens - 1  # the end is certain
    assert sum(log for _, log in found) == pytest.approx(story.log_probability)


def test_floors_stand_beside_the_model() -> None:
    words = WordTokenizer(
        ["ann", "bob", "see", "the", "dog", "a", "cat", "cow", "car", "run", "."],
        lowercase=False,
        lines="fold",
        unknown=False,
    )
    one = subject(words, text="bob see a cow . ann run . " * 20, positions="rotary")
    texts = ["bob see a cow. bob run.", "cow see bob.", "ann see the dog. ann run. " * 9]
    (found,) = floors(
        one.model, words, texts, GRAMMAR.log_probabilities
    )  # the others are none of its, or too long
    assert found["tokens"] == ["bob", "see", "a", "cow", ".", "bob", "run", "."]
    assert found["best"][3] == pytest.approx(1 / 3, abs=1e-4)
    ids = torch.tensor([[0, *words.encode(texts[0]).tolist()]])
    with torch.no_grad():
        own = one.model(ids)[0].softmax(-1)
    np.testing.assert_allclose(found["model"], [own[t, ids[0, t + 1]] for t in range(8)], atol=1e-4)


def test_other_tokens_have_no_floor() -> None:
    one = subject()
    letters = CharTokenizer("".join(sorted(set("bob see a cow. run"))), documents=True, unknown=False)
    assert floors(one.model, letters, ["bob see a cow. bob run."], GRAMMAR.log_probabilities) == []
