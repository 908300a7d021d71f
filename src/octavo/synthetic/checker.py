"""Says whether a text is good pidgin, and if not, why.

The checker knows the language, not the storyteller: another author's story in the same vocabulary passes.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from itertools import pairwise

from octavo.synthetic.grammar import TOKEN
from octavo.synthetic.universe import VERBS
from octavo.synthetic.vocabulary import MARKS, QUESTION, TENSES
from octavo.synthetic.vocabulary import vocabulary as own_vocabulary

FEWEST_WORDS, MOST_WORDS = 60, 160
"""The length of a story."""

ENDING = ("the", "end", ".")
"""How every story closes; the one sentence that needs no verb."""

# A clause cannot break off after these: they wait for another word.
_WAITING = frozenset(
    ("and", "but", "of", "to", "at", "in", "with", "from", "for", "my", "under", "behind", "the", "on")
)


@dataclass(frozen=True)
class Verdict:
    """Whether a text is good pidgin, and every problem found, each a sentence."""

    ok: bool
    problems: tuple[str, ...]


def check(
    text: str,
    *,
    vocabulary: Collection[str] | None = None,
    words: tuple[int, int] = (FEWEST_WORDS, MOST_WORDS),
) -> Verdict:
    """Check one story.

    Args:
        text: the story, without markers of its start and end.
        vocabulary: the closed list of words; by default the storyteller's.
        words: the fewest and the most that a story may have.
    """
    known = frozenset(own_vocabulary() if vocabulary is None else vocabulary)
    tokens = TOKEN.findall(text)
    problems = [
        *_spelling(text),
        *_unknown(tokens, known),
        *_length(tokens, words),
        *_ending(tokens, ENDING),
        *_neighbours(tokens),
    ]
    for sentence in _sentences(tokens):
        problems += _sentence(sentence)
    return _verdict(problems)


def first_fault(text: str) -> int | None:
    """Where the first word ends, in characters, that is no good pidgin after what stands before it: one that nobody
    knows, one that is wrong after its neighbour, or the mark of a wrong sentence. None where all whole sentences are
    good."""
    known, begin = frozenset(own_vocabulary()), 0
    for mark in re.finditer(r"[.?]", text):
        found = list(TOKEN.finditer(text, begin, mark.end()))
        tokens = [one[0] for one in found]
        for before, one in zip([None, *tokens], found, strict=False):
            if any(_unknown([one[0]], known)) or (before and any(wrong_neighbours(before, one[0]))):
                return one.end()
        if any(_sentence(tokens)):
            return mark.end()
        begin = mark.end()
    return None


def check_plain(
    text: str, *, vocabulary: Collection[str] | None, words: tuple[int, int], ending: str
) -> Verdict:
    """Check a story in any language: its words, its length and its end.

    Args:
        text: the story, cleaned.
        vocabulary: the closed list of words; None if any may stand.
        words: the fewest and the most that a story may have.
        ending: its last sentence; empty for any that is whole.
    """
    tokens = TOKEN.findall(text)
    problems = list(_length(tokens, words))
    if vocabulary is not None:
        problems += _unknown(tokens, vocabulary)
    if ending:
        problems += _ending(tokens, tuple(TOKEN.findall(ending)))
    elif not text.rstrip("\"')»”’ ").endswith((".", "?", "!", "…", "。", "؟")):
        problems.append("The story does not end with a whole sentence.")
    return _verdict(problems)


def _verdict(problems: list[str]) -> Verdict:
    unique = tuple(dict.fromkeys(problems))
    return Verdict(not unique, unique)


def _unknown(tokens: list[str], words: Collection[str]) -> Iterator[str]:
    unknown = sorted({t for t in tokens if t not in MARKS and t.lower() not in words})
    if unknown:
        yield f"Not in the vocabulary: {', '.join(unknown)}."


def _spelling(text: str) -> Iterator[str]:
    if text != text.lower():
        yield "There are capital letters; pidgin is lower case."
    if re.search(r"(?:^|\s)[.,?]", text):
        yield "A punctuation mark stands alone; it must follow a word directly."
    if re.search(r"[.,?](?=[^\s.,?])", text):
        yield "A space is missing after a punctuation mark."
    if re.search(r"[.,?]{2}", text):
        yield "Two punctuation marks stand in a row."


def _length(tokens: list[str], words: tuple[int, int]) -> Iterator[str]:
    count = sum(t not in MARKS for t in tokens)
    if not words[0] <= count <= words[1]:
        yield f"The story has {count} words; it should have {words[0]} to {words[1]}."


def _ending(tokens: list[str], ending: tuple[str, ...]) -> Iterator[str]:
    n = len(ending)
    ends = [i for i in range(len(tokens)) if tuple(tokens[i : i + n]) == ending]
    if not ends or ends[-1] != len(tokens) - n or (len(tokens) > n and tokens[-n - 1] not in (".", "?")):
        yield f"The story does not close with the sentence '{' '.join(ending[:-1])}{ending[-1]}'."
    if len(ends) > 1:
        yield "The story ends more than once."


def _neighbours(tokens: list[str]) -> Iterator[str]:
    for before, word in pairwise([*tokens, "."]):
        yield from wrong_neighbours(before, word)


def wrong_neighbours(before: str, word: str) -> Iterator[str]:
    """What is wrong with a word that stands right after another."""
    if before == word and word not in MARKS:
        yield f"The word '{word}' stands twice in a row."
    if before in TENSES and word in TENSES:
        yield f"Two tense words stand together: '{before} {word}'."
    elif before in TENSES and word not in VERBS:
        yield f"The tense word '{before}' needs a verb after it, not '{word}'."
    if word in TENSES and before in VERBS:
        yield f"The tense word '{word}' stands after the verb '{before}'; it belongs before it."
    if before in _WAITING and word in MARKS:
        yield f"A clause breaks off after '{before}'."


def _sentences(tokens: list[str]) -> Iterator[list[str]]:
    """The sentences, each with the mark that ends it; the last may lack it."""
    sentence: list[str] = []
    for word in tokens:
        sentence.append(word)
        if word in (".", "?"):
            yield sentence
            sentence = []
    if sentence:
        yield sentence


def _sentence(sentence: list[str]) -> Iterator[str]:
    shown = " ".join(sentence)
    if sentence[-1] not in (".", "?"):
        yield f"The last sentence has no '.' or '?': {shown}"
    starts = [i for i, word in enumerate(sentence) if word == QUESTION]
    if any(i and sentence[i - 1] != "," for i in starts):
        yield f"'{QUESTION}' stands inside a clause; a question starts with it: {shown}"
    if starts and sentence[-1] != "?":
        yield f"A question does not end with '?': {shown}"
    if sentence[-1] == "?" and not starts:
        yield f"A '?' without '{QUESTION}': {shown}"
    if tuple(sentence) != ENDING and not VERBS.intersection(sentence):
        yield f"A sentence has no verb: {shown}"
