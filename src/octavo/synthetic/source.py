"""The storyteller as a source of documents: a corpus that needs no text and no network."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar, Literal

from pydantic import Field

from octavo.config.parts import MOST, PartConfig, SplitBy, register
from octavo.corpus import Document, Report, Source
from octavo.synthetic.bilingual import Bilingual, text_of
from octavo.synthetic.checker import Verdict, check
from octavo.synthetic.storyteller import Storyteller, entropy_rate


class StorytellerDocuments(Source):
    """Stories `first` to `first + stories - 1` of a seed, each a document."""

    def __init__(self, *, stories: int, seed: int, first: int) -> None:
        self._storyteller = Storyteller(seed)
        self._numbers = range(first, first + stories)
        self._seed = seed

    def documents(self) -> Iterator[Document]:
        for number in self._numbers:
            yield Document(f"story {number}", iter([self._storyteller.story(number).text]))

    def describe(self) -> dict[str, Any]:
        return {
            "kind": "storyteller",
            "stories": len(self._numbers),
            "seed": self._seed,
            "first": self._numbers.start,
        }


@register("source")
class StorytellerSource(PartConfig):
    """Stories in pidgin, written by the built-in storyteller; needs no text and no network."""

    kind: Literal["storyteller"] = "storyteller"
    stories: int = Field(5000, ge=1, le=MOST)
    """How many."""
    seed: int = Field(0, ge=0, le=MOST)
    """Which stories: the same seed gives the same ones."""
    first: int = Field(0, ge=0, le=MOST)
    """Number of the first story; stories of other numbers are new ones."""

    def build(self, report: Report | None = None) -> StorytellerDocuments:
        """Make the source; stories are written as they are read."""
        return StorytellerDocuments(stories=self.stories, seed=self.seed, first=self.first)

    def in_words(self) -> str:
        return f"{self.stories:,} stories of the built-in storyteller"

    def checker(self) -> Callable[[str], Verdict]:
        return check

    def least_loss(self, text: Path, tokens: int) -> tuple[float, float]:
        teller, held_out = Storyteller(self.seed), set(text.read_text(encoding="utf-8").splitlines())
        numbers = range(self.first, self.first + self.stories)
        stories = [story for story in map(teller.story, reversed(numbers)) if story.text in held_out]
        loss = -sum(story.log_probability for story in stories) / sum(story.tokens for story in stories)
        return entropy_rate(), loss

    def best_guesses(self, text: str) -> list[tuple[str, float]]:
        return Storyteller(self.seed).log_probabilities(text)


class BilingualDocuments(Source):
    """Pairs `first` to `first + pairs - 1` of a seed, each a document of two lines."""

    def __init__(self, *, pairs: int, seed: int, first: int, to: str) -> None:
        self._bilingual, self._numbers = Bilingual(seed), range(first, first + pairs)
        self._facts = {"kind": "bilingual", "pairs": pairs, "seed": seed, "first": first, "to": to}
        self._to = to

    def documents(self) -> Iterator[Document]:
        for number in self._numbers:
            pair = self._bilingual.pair(number)
            sides = [text_of(pair.source), text_of(pair.target)]
            yield Document(
                f"pair {number}", iter(["\n".join(sides if self._to == "english" else sides[::-1])])
            )

    def describe(self) -> dict[str, Any]:
        return self._facts


@register("source")
class BilingualSource(PartConfig):
    """Sentences in pidgin and in plain English, written by a grammar that knows how probable each translation is, and
    which word comes from which; needs no text and no network."""

    kind: Literal["bilingual"] = "bilingual"
    splits: ClassVar[tuple[SplitBy, ...]] = (*PartConfig.splits, "sources")
    split_by: ClassVar[SplitBy] = "documents"
    in_files: ClassVar[str] = "pairs"
    pairs: int = Field(20_000, ge=1, le=MOST)
    """How many."""
    seed: int = Field(0, ge=0, le=MOST)
    """Which pairs: the same seed gives the same ones."""
    first: int = Field(0, ge=0, le=MOST)
    """Number of the first pair; pairs of other numbers are new ones."""
    to: Literal["english", "pidgin"] = "english"
    """What is the target. English says one thing in several ways; of each English sentence there is one in pidgin, so
    the floor of that loss is 0."""

    def build(self, report: Report | None = None) -> BilingualDocuments:
        """Make the source; pairs are written as they are read."""
        return BilingualDocuments(pairs=self.pairs, seed=self.seed, first=self.first, to=self.to)
