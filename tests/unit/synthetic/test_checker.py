"""The checker: passes good pidgin from any hand, and names each planted fault."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest

from octavo.synthetic.checker import check
from octavo.synthetic.storyteller import Storyteller
from octavo.synthetic.vocabulary import TENSES, vocabulary

STORIES = [story.text for story in Storyteller(21).stories(700)]

OWN = (
    "one day, small bird ed fly near forest. bird see huge tree. tree stand by river and be old. "
    "bird ed call, ha you be my friend? tree say, yes, come and sit by me. then cold wind ed come, and bird be afraid. "
    "tree say, i will hold you. they ed wait and sing. now wind be quick no more, and bird ed eat sweet plum. "
    "bird and tree be happy. the end."
)


def test_every_story_passes() -> None:
    assert [(text, found) for text in STORIES if (found := check(text).problems)] == []


def test_good_pidgin_from_another_hand_passes() -> None:
    assert check(OWN, vocabulary={*vocabulary(), "more"}).problems == ()


def test_the_bounds_of_the_length_are_inside() -> None:
    count = len(OWN.split())
    vocabulary_ = {*vocabulary(), "more"}
    for words, passes in (
        ((count, 999), True),
        ((1, count), True),
        ((count, count), True),
        ((count + 1, 999), False),
        ((1, count - 1), False),
    ):
        assert check(OWN, vocabulary=vocabulary_, words=words).ok is passes


GOOD = Storyteller(21).story(0).text


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda t: t.replace("the end", "the zebra end"), "Not in the vocabulary: zebra."),
        (lambda t: t.capitalize(), "capital letters"),
        (lambda t: t.replace(" ed ", " ed ed ", 1), "twice in a row"),
        (lambda t: t.replace(" ed ", " will ed ", 1), "Two tense words stand together"),
        (lambda t: t.replace(" ed ", " ed under ", 1), "needs a verb after it, not 'under'"),
        (lambda t: t.replace(", ha ", ", ", 1), "without 'ha'"),
        (lambda t: t.replace("?", ".", 1), "does not end with '?'"),
        (lambda t: t.replace(", ha ", " ha ", 1), "inside a clause"),
        (lambda t: t.removesuffix(" the end."), "does not close"),
        (lambda t: t.replace(".", ". the end.", 1), "ends more than once"),
        (lambda t: t.removesuffix("."), "no '.' or '?'"),
        (lambda t: t.replace(".", " .", 1), "stands alone"),
        (lambda t: t.replace(". ", ".", 1), "space is missing"),
        (lambda t: t.replace(".", ",.", 1), "in a row"),
        (lambda t: t.replace(",", ";", 1), "Not in the vocabulary"),
        (lambda t: t.replace("the end.", "small bird. the end."), "no verb"),
        (lambda t: t.replace("the end.", "bird ed go to. the end."), "breaks off after 'to'"),
        (lambda t: "pip ed go home. the end.", "it should have 60 to 160"),
        (lambda t: t.removesuffix("the end.") + t, "it should have 60 to 160"),
        (lambda t: "", "0 words"),
    ],
)
def test_planted_faults(change: Callable[[str], str], says: str) -> None:
    text = change(GOOD)
    assert text != GOOD
    verdict = check(text)
    assert not verdict.ok
    assert says in " ".join(verdict.problems)
    assert all(problem[0].isupper() or problem[0] == "'" for problem in verdict.problems)


def _shuffled(words: list[str], random: Random) -> list[str]:
    return random.sample(words, len(words))


def _shuffled_before_the_end(words: list[str], random: Random) -> list[str]:
    return [*random.sample(words[:-2], len(words) - 2), "the", "end."]


def _cut(words: list[str], random: Random) -> list[str]:
    return words[: random.randrange(1, len(words))]


def _tense_swapped(words: list[str], random: Random) -> list[str]:
    at = random.choice([i for i, word in enumerate(words) if word in TENSES])
    return [*words[:at], words[at + 1], words[at], *words[at + 2 :]]


@pytest.mark.parametrize("spoil", [_shuffled, _shuffled_before_the_end, _cut, _tense_swapped])
def test_spoiled_stories_fail(spoil: Callable[[list[str], Random], list[str]]) -> None:
    random = Random(3)
    passed = [text for text in STORIES[:500] if check(" ".join(spoil(text.split(), random))).ok]
    assert passed == []


def test_another_vocabulary() -> None:
    problems = check(GOOD, vocabulary=set(vocabulary()) - {"the"}).problems
    assert any(problem.startswith("Not in the vocabulary: ") and "the" in problem for problem in problems)
