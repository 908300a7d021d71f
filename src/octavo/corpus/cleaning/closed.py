"""The closed vocabulary: a document with another word does not pass, or the word becomes the closest one."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import Field, field_validator, model_validator

from octavo.config.parts import MOST, FilePath, register
from octavo.corpus.cleaning.base import Dropped, Step, StepConfig
from octavo.corpus.words import IS_MARK, WORDS_AND_MARKS
from octavo.errors import CorpusError
from octavo.util.files import from_home

_NAMED = 5  # words that a message lists


def read_vocabulary(path: Path) -> list[str]:
    """The words of a text file with one word or mark a line. Raises CorpusError when it cannot be read or is empty."""
    try:
        text = from_home(path).read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise CorpusError(
            f"The word list {path} cannot be read: {why}.",
            remedy="Give a text file with one word a line; octavo corpus vocab makes one from a text.",
        ) from error
    words = [line.strip() for line in text.splitlines() if line.strip()]
    if not words:
        raise CorpusError(f"The word list {path} is empty.")
    return list(dict.fromkeys(words))


def distance(one: str, two: str, limit: int) -> int:
    """Letters to insert, drop, change or swap with their neighbour to make one word of the other (optimal string
    alignment); anything above `limit` is `limit + 1`.
    """
    if abs(len(one) - len(two)) > limit:
        return limit + 1
    before: list[int] = []
    last = list(range(len(two) + 1))
    for i, letter in enumerate(one, 1):
        row = [i]
        for j, other in enumerate(two, 1):
            best = min(last[j] + 1, row[-1] + 1, last[j - 1] + (letter != other))
            if i > 1 and j > 1 and letter == two[j - 2] and one[i - 2] == other:
                best = min(best, before[j - 2] + 1)
            row.append(best)
        if min(row) > limit:
            return limit + 1
        before, last = last, row
    return min(last[-1], limit + 1)


class Closest:
    """Finds the closest of many words, without looking at each: words at a distance of d share what is left of them
    after at most d letters are dropped.

    Args:
        words: of two equally close words the earlier is taken.
        limit: the largest distance.
    """

    def __init__(self, words: Iterable[str], limit: int) -> None:
        self._limit = limit
        self._by_rest: defaultdict[str, list[tuple[int, str]]] = defaultdict(list)
        self._found: dict[str, str | None] = {}
        for rank, word in enumerate(words):
            for rest in self._rests(word):
                self._by_rest[rest].append((rank, word))

    def _rests(self, word: str) -> set[str]:
        rests = level = {word}
        for _ in range(min(self._limit, len(word))):
            level = {each[:at] + each[at + 1 :] for each in level for at in range(len(each))}
            rests = rests | level
        return rests

    def __call__(self, word: str) -> str | None:
        """The closest word, or None when none is within the limit."""
        if word not in self._found:
            near = {pair for rest in self._rests(word) for pair in self._by_rest.get(rest, ())}
            ranked = [(distance(word, other, self._limit), rank, other) for rank, other in near]
            best = min(ranked, default=(self._limit + 1, 0, ""))
            self._found[word] = best[2] if best[0] <= self._limit else None
        return self._found[word]


class _ClosedVocabulary(Step):
    def __init__(self, words: list[str], *, ignore_case: bool, closest: Closest | None, most: int) -> None:
        super().__init__()
        self._fold = str.lower if ignore_case else str
        self._words = {self._fold(word) for word in words}
        # A list without a single mark says nothing about marks.
        self._marks_too = any(IS_MARK.fullmatch(word) for word in words)
        self._closest, self._most = closest, most

    def clean(self, text: str, number: int) -> str:
        foreign = list(self._foreign(text))
        if not foreign:
            return text
        if self._closest is None:
            raise Dropped("words outside the vocabulary", _listed(word for _, word in foreign))
        pieces, done, beyond = [], 0, []
        for start, word in foreign:
            near = self._closest(self._fold(word))
            if near is None:
                beyond.append(word)
                continue
            pieces += [text[done:start], near.capitalize() if word[0].isupper() else near]
            done = start + len(word)
        if beyond:
            raise Dropped("words with no close one in the vocabulary", _listed(beyond))
        if len(foreign) > self._most:
            raise Dropped("too many words to repair", _listed(word for _, word in foreign))
        self.found["words repaired"] += len(foreign)
        return "".join([*pieces, text[done:]])

    def _foreign(self, text: str) -> Iterator[tuple[int, str]]:
        for match in WORDS_AND_MARKS.finditer(text):
            word = match.group()
            if self._fold(word) in self._words:
                continue
            if self._marks_too or not IS_MARK.fullmatch(word):
                yield match.start(), word


def _listed(words: Iterable[str]) -> str:
    unique = list(dict.fromkeys(words))
    more = f" and {len(unique) - _NAMED} more" if len(unique) > _NAMED else ""
    return ", ".join(unique[:_NAMED]) + more


@register("cleaning")
class ClosedVocabulary(StepConfig):
    """Documents hold no word outside a list. A list with marks in it closes the marks as well."""

    kind: Literal["closed_vocabulary"] = "closed_vocabulary"
    words: list[str] | FilePath | None = None
    """The list, or a text file with one word a line, such as `octavo corpus vocab` writes."""
    unknown: Literal["reject", "repair"] = "reject"
    """What happens to a document with another word: it is dropped, or the word becomes the closest of the list."""
    ignore_case: bool = True
    """Whether Cat is cat."""
    distance: int = Field(1, ge=1, le=2)
    """For repair: letters that may differ (inserted, dropped, changed, or swapped)."""
    most: int = Field(5, ge=1, le=MOST)
    """For repair: a document with more foreign words is dropped."""

    @field_validator("words", mode="before")
    @classmethod
    def _words_as_text(cls, value: Any) -> Any:
        return [str(word) for word in value] if isinstance(value, list) else value

    @model_validator(mode="after")
    def _has_words(self) -> Self:
        if not self.words:
            raise ValueError(
                "closed_vocabulary needs `words`: a list of words, or a file with one word a line"
            )
        return self

    def build(self) -> Step:
        assert self.words
        words = read_vocabulary(self.words) if isinstance(self.words, Path) else self.words
        folded = [word.lower() for word in words] if self.ignore_case else words
        real = [word for word in folded if not IS_MARK.fullmatch(word)]
        return _ClosedVocabulary(
            words,
            ignore_case=self.ignore_case,
            closest=Closest(real, self.distance) if self.unknown == "repair" else None,
            most=self.most,
        )
