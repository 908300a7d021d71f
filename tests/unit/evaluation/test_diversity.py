"""Repetition and drift: right on texts whose figures are known beforehand."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from octavo.evaluation.diversity import Mean, distinct, diversity, grams, unit_of, units

TOPICS = [[f"{name}{number}" for number in range(12)] for name in ("ship", "cook", "star", "farm", "coin")]


def story(first: list[str], last: list[str], seed: int) -> str:
    """Two halves of 30 words, each about something, half of them filling words."""
    rng = random.Random(seed)
    filling = ["the", "a", "and", "of", "to"]
    halves = [[rng.choice(rng.choice([filling, topic])) for _ in range(30)] for topic in (first, last)]
    return " ".join(halves[0] + halves[1])


def test_a_text_that_goes_round_in_circles_repeats_itself() -> None:
    circling = diversity(["boots and boots and " * 20], unit="word")
    assert circling.repeated[0] == pytest.approx(1 - 2 / 77)
    assert circling.distinct[1] == pytest.approx(2 / 80)
    fresh = diversity([" ".join(f"w{number}" for number in range(80))], unit="word")
    assert fresh.repeated == [0.0]
    assert set(fresh.distinct.values()) == {1.0}


def test_texts_that_are_the_same_are_alike() -> None:
    same = diversity(["one two three four five"] * 3, unit="word")
    assert same.alike == [1.0, 1.0, 1.0]
    other = diversity(["one two three four five", "six seven eight nine ten"], unit="word")
    assert other.alike == [0.0, 0.0]


def test_drift_is_seen_in_what_the_halves_share() -> None:
    steady = [story(topic, topic, seed) for seed, topic in enumerate(TOPICS)]
    drifting = [story(topic, TOPICS[(seed + 1) % 5], seed) for seed, topic in enumerate(TOPICS)]
    held, lost = (diversity(texts, unit="word").means.thread for texts in (steady, drifting))
    assert held.mean is not None and lost.mean is not None and lost.error is not None
    assert held.mean > 0.3
    assert lost.mean < 3 * lost.error


def test_words_where_there_are_words() -> None:
    assert unit_of(["It isn't far."]) == "word"
    assert unit_of(["日本語の文章には空白がありません。そのまま続きます。"]) == "character"
    assert units("It isn't FAR, no.", "word") == ["it", "isn't", "far", ",", "no", "."]
    assert units("日 本", "character") == ["日", "本"]


@given(st.lists(st.text("ab ", max_size=30), max_size=5))
def test_shares_are_shares(texts: list[str]) -> None:
    for unit in ("word", "character"):
        found = diversity(texts, unit=unit)
        for share in [*found.distinct.values(), *found.repeated, *found.alike]:
            assert 0 <= share <= 1
        assert found.means.texts == len(texts)


@given(st.lists(st.sampled_from("abc"), max_size=12), st.integers(1, 4))
def test_grams_are_all_windows(words: list[str], order: int) -> None:
    windows = [tuple(words[at : at + order]) for at in range(len(words) - order + 1)]
    assert grams(words, order) == windows
    assert distinct([windows]) == (len(set(windows)) / len(windows) if windows else 1.0)


def test_what_a_text_repeats_is_not_what_another_has_too() -> None:
    own = ["one two three four one two three four", "red blue red blue red blue red blue"]
    found = diversity(own, unit="word")
    assert found.alike == [0.0, 0.0] and min(found.repeated) > 0
    assert diversity([*own, own[0]], unit="word").alike == [1.0, 0.0, 1.0]


def test_the_error_of_a_mean_is_that_of_a_sample() -> None:
    assert Mean.of([1.0, 2.0, 3.0]).error == pytest.approx(1 / 3**0.5)
    assert Mean.of([1.0]) == Mean(1.0, None)


def test_a_text_is_held_against_other_texts_not_against_itself() -> None:
    """Halves that are the same, of two texts that have nothing in common."""
    texts = [" ".join([f"{name}{number}" for number in range(10)] * 2) for name in ("ship", "cook")]
    assert diversity(texts, unit="word").thread == pytest.approx([1.0, 1.0])
