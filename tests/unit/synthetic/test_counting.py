"""The exact distribution of what an automaton reads: the same as every text of a small grammar, and as many of the
storyteller's, say."""

from __future__ import annotations

import math
from collections import defaultdict

import numpy as np
import pytest

from octavo.synthetic.counting import distribution
from octavo.synthetic.grammar import Grammar
from octavo.synthetic.storyteller import Storyteller, story_grammar
from octavo.tuning.rewards.base import Reward, RewardHolder

SMALL = Grammar(
    {
        "story": ("{opening} {who} ed find {thing} {end}", "{who=name} see {name}. ha {who} be (happy|sad)?"),
        "opening": ("once, {who=name} walk.", "there be {who=name}. {who} be {mood}."),
        "name": ("pip", "snail", "mina"),
        "mood": ("happy", "sad and happy", "glad"),
        "thing": ("a kite", "snail"),
        "end": ("and feel {mood}.", "but not {who}. the end.", "slowly. now {who} be {mood}. the end."),
    },
    "story",
)
REWARDS = {
    "happy": {"kind": "ends-happily", "sentences": 2},
    "happy at once": {"kind": "ends-happily", "sentences": 1, "words": ("happy", "glad")},
    "question": "question",
    "held words": {"kind": "words", "must": ("snail", "mina"), "never": ("pip",)},
    "length": {"kind": "length", "least": 8, "most": 9, "slack": 4},
    "sum": {
        "kind": "sum",
        "of": [{"reward": "question", "weight": -0.5}, {"reward": {"kind": "words", "must": ["snail"]}}],
    },
}


def made(options: object) -> Reward:
    return RewardHolder.model_validate({"reward": options}).reward.build()


@pytest.mark.parametrize("name", REWARDS)
def test_a_small_grammar_is_the_sum_over_all_its_texts(name: str) -> None:
    reward = made(REWARDS[name])
    expected: defaultdict[float, float] = defaultdict(float)
    for text, probability in SMALL.every():
        expected[reward.of("", text)] += probability
    automaton = reward.automaton()
    assert automaton is not None
    found = distribution(SMALL, automaton)
    assert len(found) > 1, "a reward that is always the same tests nothing"
    assert found == pytest.approx(dict(expected), abs=1e-12)
    assert list(found) == sorted(found)


def test_the_last_sentences_are_counted_from_the_end() -> None:
    reward = made({"kind": "ends-happily", "sentences": 2})
    for text, value in {
        "happy": 1,
        "happy.": 1,
        "be happy. so it be. the end.": 0,
        "be happy, so it be. the end.": 1,
        "be happy. the end": 1,
        "be happy? the end. no": 0,
        "Happy. x.": 1,
        "": 0,
        "...": 0,
    }.items():
        assert reward.of("", text) == value, text


@pytest.mark.parametrize(
    "options",
    [
        "ends-happily",
        {"kind": "words", "must": ("snail", "kite"), "never": ("pip",)},
        {"kind": "length", "least": 100, "most": 110, "slack": 30},
    ],
)
def test_the_storytellers_own_is_that_of_many_stories(options: object) -> None:
    reward = made(options)
    automaton = reward.automaton()
    assert automaton is not None
    found = distribution(story_grammar(), automaton)
    assert math.fsum(found.values()) == pytest.approx(1, abs=1e-12)
    drawn = np.array([reward.of("", story.text) for story in Storyteller(7).stories(3000)])
    mean = math.fsum(value * share for value, share in found.items())
    assert abs(drawn.mean() - mean) < 4 * drawn.std() / math.sqrt(len(drawn))
    for value, share in found.items():
        seen = (np.abs(drawn - value) < 1e-9).mean()
        assert abs(seen - share) < 4.5 * math.sqrt(share * (1 - share) / len(drawn)) + 1 / len(drawn)
