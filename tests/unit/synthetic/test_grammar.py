"""The grammar engine: its probabilities are exact, and it refuses what would make them wrong."""

from __future__ import annotations

import math
import re
from collections import Counter
from random import Random

import pytest

from octavo.errors import ConfigError
from octavo.synthetic.grammar import Grammar

SMALL = {
    "start": ("{who=name} (ed|will) go to {place}. {end}", "once {who=name} ed sit.", "ha {question}?"),
    "name": ("pip", "mina", "pipa"),
    "place": ("school", "old {house}", "forest, and {other=name} come"),
    "house": ("house", "nest near {place_word}"),
    "place_word": ("tree", "pond"),
    "end": ("{who} be there.", "now it be late."),
    "question": ("you see {place_word}", "tree stand"),
}


def test_every_text_once_and_probabilities_sum_to_one() -> None:
    grammar = Grammar(SMALL, "start")
    texts = dict(grammar.every())
    assert len(list(grammar.every())) == len(texts) == grammar.size() > 50
    assert math.fsum(texts.values()) == pytest.approx(1.0, abs=1e-12)
    for text, probability in texts.items():
        assert grammar.log_probability(text) == pytest.approx(math.log(probability), abs=1e-12)


def test_exact_entropy_and_lengths_agree_with_the_enumeration() -> None:
    grammar = Grammar(SMALL, "start")
    texts = list(grammar.every())
    assert grammar.entropy() == pytest.approx(-math.fsum(p * math.log(p) for _, p in texts), abs=1e-12)
    counts = [len(text.split()) for text, _ in texts]
    mean = math.fsum(p * len(text.split()) for text, p in texts)
    assert grammar.lengths() == (min(counts), pytest.approx(mean), max(counts))
    assert grammar.tokens() == pytest.approx(
        math.fsum(p * len(re.findall(r"\w+|[.,?]", t)) for t, p in texts)
    )
    assert grammar.words() == {w.strip(".,?") for t, _ in texts for w in t.split()} | {".", ",", "?"}


def test_draws_follow_the_probabilities() -> None:
    grammar, random, n = Grammar(SMALL, "start"), Random(5), 40_000
    texts = dict(grammar.every())
    drawn = Counter(grammar.draw(random) for _ in range(n))
    for (text, log_probability), count in drawn.items():
        assert log_probability == pytest.approx(math.log(texts[text]), abs=1e-12)
        expected = n * texts[text]
        assert abs(count - expected) < 6 * math.sqrt(expected)
    assert len(drawn) == len(texts)


def test_the_slow_twin_adds_up_derivations() -> None:
    """The twin must not take the shortcut that it is there to check."""
    ambiguous = Grammar.__new__(Grammar)
    ambiguous.start = Grammar({"start": ("{first} go.",), "first": ("bird", "cat")}, "start").start
    whole, twin = ambiguous.start.options[0]
    first = type(ambiguous.start)((("bird",), ("bird",), ("cat",)))
    ambiguous.start = type(ambiguous.start)(((first, twin),))
    assert isinstance(whole, type(first))
    assert ambiguous.log_probability("bird go.") == pytest.approx(math.log(2 / 3))


def test_what_the_grammar_cannot_write() -> None:
    grammar = Grammar(SMALL, "start")
    for text in ("", "pip", "pip ed go to school. mina be there.", "once pip ed sit. ", "ha tree stand?."):
        assert grammar.log_probability(text) == -math.inf


@pytest.mark.parametrize(
    ("rules", "says"),
    [
        ({"start": ("bird go.", "bird sit.")}, "begin with 'bird'"),
        ({"start": ("{a} go.", "bird sit."), "a": ("cat", "bird")}, "begin with 'bird'"),
        ({"start": ("{x=a} ({x} sit|cat go).",), "a": ("cat", "bird")}, "begin with 'cat'"),
        ({"start": ("bird (go|).",)}, "empty"),
        ({"start": ("bird {way}.",)}, "'way'"),
        ({"start": ("bird {start}.",)}, "uses itself"),
        ({"start": ("(bird|{x=a}) see {x}.",), "a": ("cat", "dog")}, "may still be empty"),
        ({"start": ("{x=a} see {x=a}.",), "a": ("cat", "dog")}, "filled twice"),
        ({"start": ("{x=a} go.",), "a": ("big cat", "dog")}, "single words"),
        ({"start": ("{a=a} go.",), "a": ("cat", "dog")}, "both a slot and a rule"),
        ({"start": ("bird{a} go.",), "a": ("cat", "dog")}, "one word"),
        ({"start": ("bird (go|sit.",)}, "never closed"),
        ({"start": ("bird go) sit.",)}, "unexpected"),
        ({"start": ("bird {go sit.",)}, "stands alone"),
    ],
)
def test_refused_grammars(rules: dict[str, tuple[str, ...]], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        Grammar(rules, "start")
