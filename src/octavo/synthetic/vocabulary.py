"""The closed vocabulary of pidgin: every word that the storyteller can write, by kind."""

from __future__ import annotations

from octavo.synthetic.storyteller import story_grammar
from octavo.synthetic.universe import UNIVERSE, VERBS

TENSES = frozenset({"ing", "ed", "will"})
"""Words that stand before a verb: now, past, future."""

QUESTION = "ha"
"""The word that starts a question."""

MARKS = frozenset(".,?")
"""The punctuation of pidgin; each mark stands directly behind a word."""


def vocabulary() -> tuple[str, ...]:
    """Every word of the stories, sorted; marks are not words."""
    return tuple(sorted(story_grammar().words() - MARKS))


def word_classes() -> dict[str, frozenset[str]]:
    """The words by class: `verb`, `tense`, one class for each other list of the universe, and `other`."""
    classes = {"verb": VERBS, "tense": TENSES}
    classes |= {name: frozenset(words) for name, words in UNIVERSE.items() if VERBS.isdisjoint(words)}
    return classes | {"other": frozenset(vocabulary()).difference(*classes.values())}
