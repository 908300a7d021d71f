"""Steps that drop documents which repeat an earlier one, exactly or nearly."""

from __future__ import annotations

import hashlib
from typing import Literal

from pydantic import Field

from octavo.config.parts import register
from octavo.corpus.cleaning.base import Dropped, Step, StepConfig
from octavo.corpus.minhash import NearDuplicates
from octavo.corpus.words import WORDS


def bare(text: str) -> bytes:
    """All of a text but its white space; that of its portions is together that of the whole."""
    return "".join(text.split()).encode()


def _digest(text: str, ignoring: Literal["spaces", "case_and_marks"]) -> bytes:
    rest = bare(text) if ignoring == "spaces" else " ".join(WORDS.findall(text.casefold())).encode()
    return hashlib.blake2b(rest, digest_size=16).digest()


class _ExactDuplicates(Step):
    def __init__(self, ignoring: Literal["spaces", "case_and_marks"]) -> None:
        super().__init__()
        self._ignoring: Literal["spaces", "case_and_marks"] = ignoring
        self._seen: dict[bytes, int] = {}

    def clean(self, text: str, number: int) -> str:
        key = _digest(text, self._ignoring)
        if key in self._seen:
            raise Dropped("repeats an earlier document", f"document {self._seen[key]:,}")
        self._seen[key] = number
        return text


@register("cleaning")
class ExactDuplicates(StepConfig):
    """Documents that repeat an earlier one word for word are dropped. Keeps about 150 bytes for each document."""

    kind: Literal["exact_duplicates"] = "exact_duplicates"
    ignoring: Literal["spaces", "case_and_marks"] = "spaces"
    """What makes no difference: white space; or also case and punctuation marks."""

    def build(self) -> Step:
        return _ExactDuplicates(self.ignoring)


class _NearDuplicates(Step):
    def __init__(self, index: NearDuplicates) -> None:
        super().__init__()
        self._index = index

    def clean(self, text: str, number: int) -> str:
        found = self._index.earlier(text, number)
        if found:
            first, share = found
            raise Dropped("nearly an earlier document", f"{share:.0%} like document {first:,}")
        return text


@register("cleaning")
class NearDuplicatesStep(StepConfig):
    """Documents that are nearly the same as an earlier one are dropped, by MinHash (extra: data). The index keeps some
    kilobytes for each document that stays: the one step whose memory grows with the corpus."""

    kind: Literal["near_duplicates"] = "near_duplicates"
    likeness: float = Field(0.8, gt=0, lt=1)
    """Share of common runs of words among all of both documents, from which on they count as the same."""
    words: int = Field(5, ge=1, le=1000)
    """Words in a run."""
    permutations: int = Field(128, ge=16, le=1024)
    """Hash functions: more estimate the likeness better, and cost more time and memory."""

    def build(self) -> Step:
        return _NearDuplicates(
            NearDuplicates(likeness=self.likeness, words=self.words, permutations=self.permutations)
        )
