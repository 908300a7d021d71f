"""Pidgin and plain English side by side: sentences drawn with their exact p(English | pidgin) and true alignment.

A sentence in pidgin has one reading, and each reading gives English by choices of known probability: which article,
which of two words, where the time stands, whether a negation is short. So the floor of a translator's loss is known
(`log_probability`), and so is which word came from which (`Parallel.sure`, `Parallel.possible`).

Grammar of the pidgin: (time) subject (`no`) tense verb object (`near` place) and a full stop, or `ha` before it and a
question mark behind it. Tense is `ing` (now), `ed` (past) or `will`. There is no article, and no inflection.
"""

from __future__ import annotations

import math
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from random import Random
from typing import NamedTuple

from octavo.errors import InputError


def _same(words: str) -> dict[str, tuple[str, ...]]:
    """Words that are the same in both."""
    return {word: (word,) for word in words.split()}


ENGLISH: dict[str, dict[str, tuple[str, ...]]] = {
    "time": {
        "today": ("today",),
        "yesterday": ("yesterday",),
        "tomorrow": ("tomorrow",),
        "soon": ("soon", "shortly"),
        "later": ("later", "afterwards"),
        "again": ("again",),
    },
    "trait": {
        "small": ("small", "little"),
        "big": ("big", "large"),
        "old": ("old",),
        "glad": ("happy", "merry"),
        "sad": ("sad", "unhappy"),
        "quick": ("quick", "fast"),
        "wise": ("wise", "clever"),
        "red": ("red",),
        "blue": ("blue",),
        "yellow": ("yellow",),
        "fine": ("fine", "pretty"),
    },
    "being": _same("bird cat mouse rabbit frog duck squirrel puppy lamb bear owl fox goat turtle horse cow")
    | {"mother": ("mother", "mum"), "father": ("father", "dad"), "child": ("child", "kid")},
    "thing": _same("ball kite drum hat key bag cup bell coat shoe lamp boat apple pear plum")
    | {"stone": ("stone", "rock"), "gift": ("gift", "present")},
    "place": _same("school forest river hill bridge garden barn tree gate")
    | {"house": ("house", "home"), "shop": ("shop", "store")},
}
"""What each word of the pidgin is in English, each way as likely as the other. No English word stands for two."""

VERBS = {
    "see": ("see", "saw", "seeing"),
    "find": ("find", "found", "finding"),
    "take": ("take", "took", "taking"),
    "bring": ("bring", "brought", "bringing"),
    "want": ("want", "wanted", "wanting"),
    "like": ("like", "liked", "liking"),
    "lose": ("lose", "lost", "losing"),
    "hide": ("hide", "hid", "hiding"),
    "carry": ("carry", "carried", "carrying"),
    "give": ("give", "gave", "giving"),
    "wash": ("wash", "washed", "washing"),
    "push": ("push", "pushed", "pushing"),
    "pull": ("pull", "pulled", "pulling"),
    "watch": ("watch", "watched", "watching"),
    "follow": ("follow", "followed", "following"),
}
"""Base, past and -ing form."""

PRONOUNS = {"i": "am", "you": "are", "they": "are", "she": "is"}
"""With the form of `be` that follows."""

TENSES = ("ing", "ed", "will")
SHORT = {"did": "didn't", "is": "isn't", "are": "aren't", "will": "won't"}
ARTICLES = ("the", "a")
VOWELS = "aeiou"


class Word(NamedTuple):
    """An English word, and the places of the pidgin that it comes from: surely, or as a helper of what stands there."""

    text: str
    source: int
    sure: bool = True


class Noun(NamedTuple):
    """A noun phrase of the pidgin, and where its first word stands."""

    trait: str | None
    head: str
    at: int


@dataclass(frozen=True)
class Reading:
    """What a sentence in pidgin says. `at` has the places of its words by their roles."""

    asks: bool
    time: str | None
    subject: Noun
    negated: bool
    tense: str
    verb: str
    object: Noun
    place: Noun | None
    at: dict[str, int]


@dataclass(frozen=True)
class Parallel:
    """A pair with what is known of it.

    Attributes:
        source, target: words and marks.
        log_probability: of the target given the source, in nats.
        sure, possible: pairs of places (source, target); what is sure is possible too. Helpers, such as an article, are
            possible only.
    """

    source: tuple[str, ...]
    target: tuple[str, ...]
    log_probability: float
    sure: frozenset[tuple[int, int]]
    possible: frozenset[tuple[int, int]]


class Bilingual:
    """Writes pairs: pair `i` of a seed is a function of the two."""

    def __init__(self, seed: int = 0) -> None:
        if not 0 <= seed < 1 << 64:
            raise InputError(f"The seed of the pairs is {seed}; it must be from 0 to 2**64 - 1.")
        self.seed, self._random = seed, Random()

    def pair(self, i: int) -> Parallel:
        """Pair number `i` (from 0)."""
        self._random.seed(self.seed << 64 | i)
        source = draw_source(self._random)
        ways = list(realizations(read(source)))
        return known(source, self._random.choice(ways), ways)


def draw_source(random: Random) -> tuple[str, ...]:
    """Words of a sentence in pidgin, drawn from the grammar."""

    def noun(kind: str, often: float) -> list[str]:
        trait = [random.choice(list(ENGLISH["trait"]))] if random.random() < often else []
        return [*trait, random.choice(list(ENGLISH[kind]))]

    asks = random.random() < 0.25
    words = ["ha"] * asks
    words += [random.choice(list(ENGLISH["time"]))] if not asks and random.random() < 0.4 else []
    words += [random.choice(list(PRONOUNS))] if random.random() < 0.25 else noun("being", 0.6)
    words += ["no"] * (not asks and random.random() < 0.2)
    words += [random.choice(TENSES), random.choice(list(VERBS)), *noun("thing", 0.5)]
    words += ["near", *noun("place", 0.3)] if random.random() < 0.5 else []
    return (*words, "?" if asks else ".")


def read(source: Sequence[str]) -> Reading:
    """The one reading of a sentence in pidgin. Raises InputError where it has none."""
    words, at, place = list(source), dict[str, int](), 0

    def take(role: str, known: Container[str]) -> str | None:
        nonlocal place
        if place < len(words) and words[place] in known:
            at[role], place = place, place + 1
            return words[place - 1]
        return None

    def noun(kind: str, *, pronouns: bool = False) -> Noun | None:
        first = place
        if pronouns and (word := take("pronoun", PRONOUNS)):
            return Noun(None, word, first)
        trait, head = take("trait", ENGLISH["trait"]), take(kind, ENGLISH[kind])
        return None if head is None else Noun(trait, head, first)

    asks = take("ha", ["ha"]) is not None
    time = None if asks else take("time", ENGLISH["time"])
    subject = noun("being", pronouns=True)
    negated = not asks and take("no", ["no"]) is not None
    tense, verb = take("tense", TENSES), take("verb", VERBS)
    thing = noun("thing")
    near = take("near", ["near"])
    where = noun("place") if near else None
    mark = take("mark", ["?" if asks else "."])
    whole = None not in (subject, tense, verb, thing, mark) and place == len(words) and (where or not near)
    if not whole or subject is None or tense is None or verb is None or thing is None:
        raise InputError(f"Not a sentence of the pidgin: {' '.join(words)}")
    return Reading(asks, time, subject, negated, tense, verb, thing, where, at)


Phrase = tuple[Word, ...]


def realizations(reading: Reading) -> Iterator[Phrase]:
    """All ways to say it in English, each as probable as the others."""
    subjects = list(_noun(reading.subject))
    objects, times = list(_noun(reading.object)), list(_time(reading))
    places = [()] if reading.place is None else list(_place(reading))
    for subject, (group, rest), thing, place, (first, last) in product(
        subjects, list(_verb(reading)), objects, places, times
    ):
        mark = (Word("?" if reading.asks else ".", reading.at["mark"]),)
        start = (*group, *subject, *rest) if reading.asks else (*first, *subject, *group, *rest)
        yield (*start, *thing, *place, *last, *mark)


def _noun(noun: Noun) -> Iterator[Phrase]:
    if noun.head in PRONOUNS:
        yield (Word(noun.head, noun.at),)
        return
    head = noun.at + (noun.trait is not None)
    kinds = (ENGLISH[kind] for kind in ("being", "thing", "place") if noun.head in ENGLISH[kind])
    traits = [None] if noun.trait is None else list(ENGLISH["trait"][noun.trait])
    for article, trait, text in product(ARTICLES, traits, next(kinds)[noun.head]):
        words = [] if trait is None else [Word(trait, noun.at)]
        words.append(Word(text, head))
        said = "an" if article == "a" and words[0].text[0] in VOWELS else article
        yield (Word(said, head, sure=False), *words)


def _place(reading: Reading) -> Iterator[Phrase]:
    assert reading.place is not None
    for text in ("near", "by"):
        for noun in _noun(reading.place):
            yield (Word(text, reading.at["near"]), *noun)


def _time(reading: Reading) -> Iterator[tuple[Phrase, Phrase]]:
    """What stands first, and what stands last."""
    if reading.time is None:
        yield (), ()
        return
    at = reading.at["time"]
    for text in ENGLISH["time"][reading.time]:
        yield (Word(text, at), Word(",", at, sure=False)), ()
        yield (), (Word(text, at),)


def _verb(reading: Reading) -> Iterator[tuple[Phrase, Phrase]]:
    """The finite verb, which stands before the subject of a question, and the rest of it."""
    base, past, going = VERBS[reading.verb]
    tense, verb = reading.at["tense"], reading.at["verb"]
    be = PRONOUNS.get(reading.subject.head, "is")
    helper = {"ing": be, "ed": "did", "will": "will"}[reading.tense]
    form = going if reading.tense == "ing" else base
    if reading.asks:
        yield (Word(helper, tense),), (Word(form, verb),)
    elif not reading.negated:
        if reading.tense == "ed":
            yield (Word(past, verb),), ()
        else:
            yield (Word(helper, tense),), (Word(form, verb),)
    else:
        no = reading.at["no"]
        yield (Word(helper, tense),), (Word("not", no), Word(form, verb))
        if helper in SHORT:
            yield (Word(SHORT[helper], no),), (Word(form, verb),)


def known(source: Sequence[str], target: Phrase, ways: Sequence[Phrase]) -> Parallel:
    """A pair with its probability, which is that of all ways that read the same, and the alignment of this one."""
    texts = tuple(word.text for word in target)
    same = sum(tuple(word.text for word in way) == texts for way in ways)
    links = [(word.source, place, word.sure) for place, word in enumerate(target)]
    return Parallel(
        tuple(source),
        texts,
        math.log(same / len(ways)),
        frozenset((one, other) for one, other, sure in links if sure),
        frozenset((one, other) for one, other, _ in links),
    )


def words_of(text: str) -> tuple[str, ...]:
    """Words and marks of a sentence; a mark stands at a word's end."""
    return tuple(text.replace(",", " ,").replace(".", " .").replace("?", " ?").split())


def text_of(words: Sequence[str]) -> str:
    """A sentence from its words; the inverse of `words_of`."""
    return " ".join(words).replace(" ,", ",").replace(" .", ".").replace(" ?", "?")


def explained(source: str, target: str) -> Parallel | None:
    """What is known of a pair of texts; None where the target is no translation of the source.

    Raises InputError where the source is no sentence of the pidgin.
    """
    words, wanted = words_of(source), words_of(target)
    ways = list(realizations(read(words)))
    found = next((way for way in ways if tuple(word.text for word in way) == wanted), None)
    return None if found is None else known(words, found, ways)
