"""Wishes that are read off stories: always kept, always spelt alike, and some combinations never among them."""

from __future__ import annotations

from random import Random

import pytest

from octavo.config import load_recipe
from octavo.corpus.records.turns import Turns
from octavo.errors import InputError
from octavo.synthetic.grammar import TOKEN
from octavo.synthetic.storyteller import Storyteller
from octavo.synthetic.vocabulary import vocabulary
from octavo.synthetic.wishes import CRITTERS, FRIENDS, WHO, Wish, WishesSource, wish_of
from octavo.tokenizers.chat import CHAT_TOKENS
from octavo.tuning.rewards.wishes import WishesConfig

HEROES = WHO - CRITTERS - FRIENDS
STORY = "in spring, shy cat pip like to rest near river. pip ed see snail. now pip feel happy. they rest. the end."


def test_what_is_wished_is_true_and_in_the_storytellers_words() -> None:
    known = set(vocabulary()) | {"."}
    asked = set()
    for wish, story in WishesSource(stories=200, seed=3).build().pairs():
        assert wish.kept(story) == 1 and Wish.of(wish.text) == wish and not wish.held_out
        assert set(TOKEN.findall(wish.text)) <= known
        asked.add(wish.text)
    assert len(asked) > 80
    held_out = [wish for wish, _ in WishesSource(stories=30, seed=3, held_out=True).build().pairs()]
    assert all(wish.held_out for wish in held_out) and not {wish.text for wish in held_out} & asked


def test_what_is_rare_in_stories_is_asked_for_often() -> None:
    wishes = [wish for wish, _ in WishesSource(stories=400, seed=5).build().pairs()]
    ends = sum(wish.how is not None for wish in wishes)
    critters = sum(wish.who in CRITTERS for wish in wishes)
    friends, heroes = (sum(wish.who in kind for wish in wishes) for kind in (FRIENDS, HEROES))
    assert 140 < ends < 200 and 70 < critters < 120
    assert 3 * heroes < friends < 6 * heroes


def test_a_place_that_is_wished_for_is_the_first_of_the_story() -> None:
    story = "in spring, shy cat pip like to rest near river. pip ed walk to forest and garden. the end."
    assert {wish_of(story, Random(seed)).where for seed in range(20)} == {"river", None}


def test_documents_are_conversations() -> None:
    source = WishesSource(stories=3, seed=1).build()
    texts = ["".join(document.pieces) for document in source.documents()]
    pairs = [(wish.text, story) for wish, story in source.pairs()]
    assert [tuple(message.content for message in Turns.of(text).messages) for text in texts] == pairs
    assert source.describe() == {"kind": "wishes", "stories": 3, "seed": 1, "first": 0, "held_out": False}


@pytest.mark.parametrize(
    ("wish", "kept"),
    [
        ("tell of snail. in river. end happy.", 1),
        ("tell of snail.", 1),
        ("tell of bee. in river.", 0.5),
        ("in forest. end merry.", 0),
        ("tell of cat. end proud.", 0.5),
    ],
)
def test_the_share_that_is_kept(wish: str, kept: float) -> None:
    assert Wish.of(wish).kept(STORY) == kept == WishesConfig().build().of(wish, STORY)


def test_happy_in_the_middle_is_no_happy_end() -> None:
    assert Wish(how="happy").kept("pip feel happy. pip run. pip fall. pip cry. the end.") == 0


@pytest.mark.parametrize("text", ["", "tell of river.", "hello", "in forest", "end happy. in forest."])
def test_what_is_no_wish(text: str) -> None:
    with pytest.raises(InputError, match="no wish for a story"):
        Wish.of(text)


def test_a_wish_depends_on_the_seed_alone() -> None:
    story = Storyteller(0).story(0).text
    assert wish_of(story, Random("4")) == wish_of(story, Random("4"))
    assert len({wish_of(story, Random(str(seed))) for seed in range(20)}) > 3


@pytest.mark.parametrize("name", ["pidgin-wishes", "pidgin-wishes-rl"])
def test_the_recipes_have_the_templates_tokens(name: str) -> None:
    recipe = load_recipe(name)
    assert tuple(recipe.tokenizer.special) == CHAT_TOKENS and recipe.form == "conversations"
