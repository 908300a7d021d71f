"""The storyteller: repeatable, varied, within its bounds, and exact about its own probability."""

from __future__ import annotations

import hashlib
import math
import re
from pathlib import Path

import pytest

from octavo.errors import InputError
from octavo.synthetic.checker import FEWEST_WORDS, MOST_WORDS
from octavo.synthetic.storyteller import Story, Storyteller, entropy_rate, story_grammar
from octavo.synthetic.universe import UNIVERSE, VERBS
from octavo.synthetic.vocabulary import MARKS, TENSES, vocabulary, word_classes


@pytest.fixture(scope="module")
def told() -> list[Story]:
    return list(Storyteller(11).stories(2_000))


def test_story_is_a_function_of_seed_and_number(told: list[Story]) -> None:
    backwards = [Storyteller(11).story(i) for i in (1_999, 7, 0)]
    assert backwards == [told[1_999], told[7], told[0]]
    assert list(Storyteller(11).stories(5, start=40)) == told[40:45]
    assert Storyteller(12).story(0) != told[0]
    assert Storyteller(0).story(1) != Storyteller(1).story(0)


def test_the_stories_stay_the_same_from_release_to_release(told: list[Story]) -> None:
    """A changed plan is a changed corpus: change this line knowingly."""
    digest = hashlib.sha256("\n".join(s.text for s in told[:100]).encode()).hexdigest()
    assert digest[:16] == "d8d370a2bcc51f88"


def test_probability_agrees_with_the_slow_twin(told: list[Story]) -> None:
    teller = Storyteller()
    for story in told[:400]:
        assert story.log_probability == pytest.approx(teller.log_probability(story.text), abs=1e-9)
    assert teller.log_probability(told[0].text.replace("the end.", "the end")) == -math.inf


def test_entropy_is_the_mean_of_the_drawn_stories(told: list[Story]) -> None:
    mean = -sum(s.log_probability for s in told) / len(told)
    spread = math.sqrt(sum((-s.log_probability - mean) ** 2 for s in told) / len(told))
    assert abs(mean - story_grammar().entropy()) < 5 * spread / math.sqrt(len(told))


def test_the_rate_of_all_stories_is_exact(told: list[Story]) -> None:
    """The demo's limit: nats of a story over its tokens, both as means over the whole grammar."""
    assert entropy_rate() == pytest.approx(0.7247, abs=5e-5)
    lengths = [story.tokens for story in told]
    mean = sum(lengths) / len(lengths)
    spread = math.sqrt(sum((length - mean) ** 2 for length in lengths) / len(lengths))
    assert abs(mean - story_grammar().tokens() - 1) < 5 * spread / math.sqrt(len(lengths))
    assert abs(-sum(story.log_probability for story in told) / sum(lengths) - entropy_rate()) < 0.01


def test_counts_of_words_and_tokens(told: list[Story]) -> None:
    for story in told[:200]:
        assert story.words == len(story.text.split())
        assert story.tokens == len(re.findall(r"[a-z]+|[.,?]", story.text)) + 1


def test_lengths_by_construction(told: list[Story]) -> None:
    fewest, _, most = story_grammar().lengths()
    assert fewest >= FEWEST_WORDS
    assert most <= MOST_WORDS
    assert all(fewest <= s.words <= most for s in told)


def test_all_different_and_millions_possible(told: list[Story]) -> None:
    assert len({s.text for s in told}) == len(told)
    assert story_grammar().size() > 10**30


def test_characters_keep_their_names(told: list[Story]) -> None:
    for story in told[:300]:
        words = re.findall("[a-z]+", story.text)
        assert len({w for w in words if w in UNIVERSE["hero_name"]}) == 1
        assert len({w for w in words if w in UNIVERSE["friend_name"]}) == 1


def test_vocabulary_is_exactly_what_is_told(told: list[Story]) -> None:
    words = {w for s in told for w in re.findall("[a-z]+", s.text)}
    assert tuple(sorted(words)) == vocabulary()
    assert 250 <= len(vocabulary()) <= 450


def test_each_word_has_one_class() -> None:
    everything = [word for words in UNIVERSE.values() for word in words]
    assert len(everything) == len(set(everything))
    classes = word_classes()
    assert sum(len(words) for words in classes.values()) == len(frozenset().union(*classes.values()))
    assert frozenset().union(*classes.values()) == frozenset(vocabulary())


def test_verbs_are_what_follows_a_tense_word(told: list[Story]) -> None:
    after = {b for s in told for a, b in zip(s.text.split(), s.text.split()[1:], strict=False) if a in TENSES}
    assert {word.strip("".join(MARKS)) for word in after} <= VERBS


def test_write_gives_one_story_a_line(tmp_path: Path, told: list[Story]) -> None:
    path = tmp_path / "stories.txt"
    Storyteller(11).write(path, 25, start=10)
    assert path.read_bytes().decode().splitlines() == [s.text for s in told[10:35]]


def test_write_goes_over_nothing_unasked(tmp_path: Path, told: list[Story]) -> None:
    path = tmp_path / "stories.txt"
    path.write_text("mine")
    with pytest.raises(InputError, match=r"(?s)exists.*force=True"):
        Storyteller(11).write(path, 25)
    assert path.read_text() == "mine"
    Storyteller(11).write(path, 2, force=True)
    assert path.read_text().splitlines() == [s.text for s in told[:2]]


def test_wrong_numbers_are_refused() -> None:
    with pytest.raises(InputError, match="seed is -1"):
        Storyteller(-1)
    with pytest.raises(InputError, match="story number -3"):
        Storyteller().story(-3)
