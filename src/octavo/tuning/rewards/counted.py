"""Rewards that go by words alone, which a grammar can count: their ceiling is exact for the storyteller."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from octavo.config.parts import MOST, register
from octavo.synthetic.counting import Automaton, Sign, State
from octavo.synthetic.grammar import TOKEN
from octavo.synthetic.vocabulary import MARKS
from octavo.tuning.rewards.base import Reward, RewardConfig

Word = str


class Counted(Reward):
    """A reward that an automaton reads off."""

    def __init__(self, automaton: Automaton) -> None:
        self._automaton = automaton

    def of(self, prompt: str, text: str) -> float:
        return self._automaton.read(text)

    def automaton(self) -> Automaton:
        return self._automaton


class SeenWords(Automaton):
    """The share of some wishes that a text keeps: words that must stand in it, and words that must not."""

    start: State = frozenset()

    def __init__(self, must: frozenset[Word], never: frozenset[Word]) -> None:
        self._must, self._never = must, never

    def sign(self, word: str) -> Sign:
        """The word where it counts."""
        return word.lower() if word.lower() in self._must | self._never else None

    def step(self, state: State, sign: Sign) -> State:
        """The words seen so far."""
        assert isinstance(state, frozenset)
        return state if sign is None or sign in state else state | {sign}

    def value(self, state: State) -> float:
        """Wishes kept, as a share."""
        assert isinstance(state, frozenset)
        kept = len(self._must & state) + len(self._never - state)
        return kept / (len(self._must) + len(self._never))


class LateWords(Automaton):
    """1 if one of some words stands in the last sentences. The state: the sentence that it last stood in, counted from
    the end, or as many as count where it stands in none of them; and whether words follow the last mark."""

    def __init__(self, words: frozenset[Word], sentences: int) -> None:
        self._words, self._sentences = words, sentences
        self.start: State = (sentences, True)

    def sign(self, word: str) -> Sign:
        """A word that counts, the end of a sentence, another word, or a comma."""
        if word.lower() in self._words:
            return "found"
        return {".": "end", "?": "end", ",": None}.get(word, "word")

    def step(self, state: State, sign: Sign) -> State:
        """One sentence further from where it was found as soon as the next one begins."""
        assert isinstance(state, tuple)
        ago, ended = state
        if sign == "end":
            return ago, True
        if sign is None:
            return state
        if ended:
            ago = min(ago + 1, self._sentences)
        return (0 if sign == "found" else ago), False

    def value(self, state: State) -> float:
        """Whether it was found late enough."""
        assert isinstance(state, tuple)
        return float(state[0] < self._sentences)


class Seen(Automaton):
    """1 if some word or mark stands in a text."""

    start: State = False

    def __init__(self, word: Word) -> None:
        self._word = word

    def sign(self, word: str) -> Sign:
        return word == self._word

    def step(self, state: State, sign: Sign) -> State:
        """Seen it now or before."""
        return bool(state or sign)

    def value(self, state: State) -> float:
        return float(bool(state))


class NumberOfWords(Automaton):
    """1 for a number of words in a range; a word less for each of `slack` words that it is away from it."""

    def __init__(self, least: int, most: int, slack: int) -> None:
        self._least, self._most, self._slack = least, most, slack

    def sign(self, word: str) -> Sign:
        """Whether it is a word; marks are not."""
        return word not in MARKS

    def step(self, state: State, sign: Sign) -> State:
        """Words so far; beyond those that count, no more."""
        assert isinstance(state, int)
        return min(state + bool(sign), self._most + self._slack)

    def value(self, state: State) -> float:
        """1 within the range, 0 beyond the slack, in between in a straight line."""
        assert isinstance(state, int)
        away = max(self._least - state, state - self._most, 0)
        return max(0.0, 1.0 - away / self._slack)


def _checked(words: tuple[str, ...]) -> frozenset[str]:
    for word in words:
        if TOKEN.findall(word) != [word]:
            raise ValueError(f"{word!r} is not one word")
    return frozenset(word.lower() for word in words)


@register("reward")
class WordsConfig(RewardConfig):
    """Words that must stand in the text, and words that must not: the share of them that is so. Capitals do not
    count."""

    kind: Literal["words"] = "words"
    must: tuple[str, ...] = ()
    """Words that are wanted."""
    never: tuple[str, ...] = ()
    """Words that are not."""

    @model_validator(mode="after")
    def _some_words(self) -> WordsConfig:
        must, never = _checked(self.must), _checked(self.never)
        if not must | never:
            raise ValueError("name a word in `must` or in `never`")
        if must & never:
            raise ValueError(f"{min(must & never)!r} stands in `must` and in `never`")
        return self

    def build(self) -> Reward:
        return Counted(SeenWords(_checked(self.must), _checked(self.never)))


@register("reward")
class EndsHappilyConfig(RewardConfig):
    """1 if a word such as *happy* stands in the last sentences, else 0. In the storyteller's language they are: how
    the help was thanked for, how it went on, and "the end."."""

    kind: Literal["ends-happily"] = "ends-happily"
    words: tuple[str, ...] = Field(("happy",), min_length=1)
    """One of them is enough."""
    sentences: int = Field(3, ge=1, le=100)
    """How many sentences count as the end."""

    @model_validator(mode="after")
    def _single_words(self) -> EndsHappilyConfig:
        _checked(self.words)
        return self

    def build(self) -> Reward:
        return Counted(LateWords(_checked(self.words), self.sentences))


@register("reward")
class QuestionConfig(RewardConfig):
    """1 if the text has a question mark, else 0."""

    kind: Literal["question"] = "question"

    def build(self) -> Reward:
        return Counted(Seen("?"))


@register("reward")
class LengthConfig(RewardConfig):
    """1 if the text has so many words, and less the further it is from that."""

    kind: Literal["length"] = "length"
    least: int = Field(0, ge=0, le=MOST)
    """Fewest words that get 1."""
    most: int = Field(80, ge=0, le=100_000)
    """Most words that get 1."""
    slack: int = Field(20, ge=1, le=100_000)
    """So many words beyond, the reward is 0; in between it falls in a straight line."""

    @model_validator(mode="after")
    def _a_range(self) -> LengthConfig:
        if self.least > self.most:
            raise ValueError(f"no number of words is at least {self.least} and at most {self.most}")
        return self

    def build(self) -> Reward:
        return Counted(NumberOfWords(self.least, self.most, self.slack))
