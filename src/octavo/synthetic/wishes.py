"""Wishes for a story, and stories that keep them: "tell of snail. in forest. end happy."

The storyteller writes first, and the wish is read off its story: who is in it, where it goes, how it ends. So every
pair is right, and a model that learns them learns to keep wishes.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from random import Random
from typing import Any, ClassVar, Literal

from pydantic import Field

from octavo.config.parts import MOST, PartConfig, SplitBy, register
from octavo.corpus import Document, Report, Source
from octavo.corpus.records.base import refuse_as_text
from octavo.corpus.records.turns import Message, Turns
from octavo.errors import InputError
from octavo.synthetic.checker import Verdict, check
from octavo.synthetic.grammar import TOKEN
from octavo.synthetic.storyteller import Storyteller
from octavo.synthetic.universe import UNIVERSE

WHO = frozenset(UNIVERSE["critter"] + UNIVERSE["hero_kind"] + UNIVERSE["friend_kind"])
CRITTERS = frozenset(UNIVERSE["critter"])
FRIENDS = frozenset(UNIVERSE["friend_kind"])
WHERE = frozenset(UNIVERSE["place"])
HOW = frozenset(UNIVERSE["glad"])
LAST = 3
"""Sentences that are the end of a story, its last one (the end.) among them."""

_WISH = re.compile(r"(?:tell of (\w+)\. ?)?(?:in (\w+)\. ?)?(?:end (\w+)\.)?")
_SHARE = 10  # of so many combinations one is held out
_COMMON = 1 / 3
"""Share of the wishes for neither a critter nor an end that are asked for. Both are rare in stories, and what is seldom
asked for is learned too late: so two wishes in five name an end, and one in four a critter."""

_FRIENDS = 4
"""How many times as often as a hero a friend is asked for. Friends are named late in a story, and to look back so far
is learned late: asked for as often as heroes, some seeds never learn it."""


@dataclass(frozen=True)
class Wish:
    """What a story is to have: somebody, a place, a feeling at its end. None: anything will do."""

    who: str | None = None
    where: str | None = None
    how: str | None = None

    @property
    def text(self) -> str:
        """As it is asked for."""
        parts = {"tell of": self.who, "in": self.where, "end": self.how}
        return " ".join(f"{words} {value}." for words, value in parts.items() if value)

    @classmethod
    def of(cls, text: str) -> Wish:
        """The inverse. Raises InputError for what is no wish."""
        found = _WISH.fullmatch(text.strip())
        wish = cls(*found.groups()) if found else cls()
        lists = zip((wish.who, wish.where, wish.how), (WHO, WHERE, HOW), strict=True)
        if wish == cls() or any(one is not None and one not in words for one, words in lists):
            raise InputError(
                f"This is no wish for a story: {text[:60]!r}.",
                remedy="for example: tell of snail. in forest. end happy.",
            )
        return wish

    def kept(self, story: str) -> float:
        """The share of the wishes that a story keeps."""
        has = features(story)
        lists = zip((self.who, self.where, self.how), has, strict=True)
        wanted = [(one, there) for one, there in lists if one is not None]
        return sum(one in there for one, there in wanted) / len(wanted)

    @property
    def held_out(self) -> bool:
        """Whether this combination is one of those that no training story is asked for by: one in ten, of wishes for
        more than one thing."""
        if sum(one is not None for one in (self.who, self.where, self.how)) < 2:
            return False
        return hashlib.sha256(self.text.encode()).digest()[0] % _SHARE == 0


def features(story: str) -> tuple[frozenset[str], frozenset[str], frozenset[str]]:
    """Who is in a story, where it goes, and how it ends."""
    words = frozenset(TOKEN.findall(story))
    sentences = [one for one in re.split(r"(?<=[.?])\s+", story.strip()) if one]
    end = frozenset(TOKEN.findall(" ".join(sentences[-LAST:])))
    return words & WHO, words & WHERE, end & HOW


def wish_of(story: str, random: Random) -> Wish:
    """A wish that a story keeps: one, two or three things that are true of it. Of those who are in it, a critter if
    there is one: the others are in every story. Else it is more often the friend than the hero, who is named at once.
    Of the places it is where the story goes first: else nothing tells at which of its places a story is to name the one
    that was wished for."""
    those, _, how = map(sorted, features(story))
    critters = [one for one in those if one in CRITTERS]
    others = [one for one in those for _ in range(_FRIENDS if one in FRIENDS else 1)]
    true = [critters or others, [word for word in TOKEN.findall(story) if word in WHERE][:1], how]
    chosen = [random.choice(words) if words and random.random() < 0.75 else None for words in true]
    if not any(chosen):
        at = random.choice([at for at, words in enumerate(true) if words])
        chosen[at] = random.choice(true[at])
    return Wish(*chosen)


class WishedStories(Source):
    """Wishes and stories that keep them. Combinations that are held out are in none, or in all of them."""

    def __init__(self, *, stories: int, seed: int, first: int, held_out: bool) -> None:
        self._storyteller, self._seed = Storyteller(seed), seed
        self._stories, self._first, self._held_out = stories, first, held_out

    def pairs(self) -> Iterator[tuple[Wish, str]]:
        """As many as were asked for."""
        number, found = self._first, 0
        while found < self._stories:
            story = self._storyteller.story(number).text
            random = Random(f"{self._seed} {number}")
            wish = wish_of(story, random)
            asked = wish.who in CRITTERS or wish.how is not None or random.random() < _COMMON
            if asked and wish.held_out == self._held_out:
                found += 1
                yield wish, story
            number += 1

    def documents(self) -> Iterator[Document]:
        for number, (wish, story) in enumerate(self.pairs(), start=1):
            turns = Turns((Message("user", wish.text), Message("assistant", story)))
            yield Document(f"wish {number}", iter([turns.text()]))

    def describe(self) -> dict[str, Any]:
        return {
            "kind": "wishes",
            "stories": self._stories,
            "seed": self._seed,
            "first": self._first,
            "held_out": self._held_out,
        }


@register("source")
class WishesSource(PartConfig):
    """Wishes for a story, and stories of the built-in storyteller that keep them; needs no text and no network."""

    kind: Literal["wishes"] = "wishes"
    stories: int = Field(5000, ge=1, le=MOST)
    """How many."""
    seed: int = Field(0, ge=0, le=MOST)
    """Which stories: the same seed gives the same ones."""
    first: int = Field(0, ge=0, le=MOST)
    """Number of the first story that is looked at."""
    held_out: bool = False
    """Only combinations of wishes that are otherwise never among them, one in ten: to see whether wishes are kept that
    were never asked for together."""

    form: ClassVar[str] = "conversations"
    splits: ClassVar[tuple[SplitBy, ...]] = ("documents", "prompts")

    def refuse(self, recipe: Any) -> str | None:
        return refuse_as_text(self.form, recipe)

    def build(self, report: Report | None = None) -> WishedStories:
        """Make the source; stories are written as they are read."""
        return WishedStories(stories=self.stories, seed=self.seed, first=self.first, held_out=self.held_out)

    def checker(self) -> Callable[[str], Verdict]:
        return check
