"""What the tests of cleaning share."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from octavo.config import load_recipe
from octavo.corpus import Document, Source
from octavo.corpus.cleaning import Cleaned


class Texts(Source):
    """Texts in memory, each a document, given in pieces."""

    def __init__(self, *texts: str, piece: int = 1 << 20) -> None:
        self._texts, self._piece = texts, piece

    def documents(self) -> Iterator[Document]:
        for text in self._texts:
            pieces = (text[at : at + self._piece] for at in range(0, len(text), self._piece))
            yield Document("texts", pieces)

    def describe(self) -> dict[str, Any]:
        return {"kind": "texts"}


class Result:
    """Texts after steps, and what was counted."""

    def __init__(self, steps: object, *texts: str, piece: int = 1 << 20) -> None:
        self.said: list[str] = []
        configs = load_recipe({"cleaning": steps}).cleaning
        self.source = Cleaned(Texts(*texts, piece=piece), configs, report=self.said.append)
        self.texts = self.read()

    def read(self) -> list[str]:
        return ["".join(document.pieces) for document in self.source.documents()]

    @property
    def tally(self) -> dict[str, Any]:
        """What the last step counted."""
        return list(self.source.cleaning().values())[-1]


def one(step: object, text: str) -> str:
    """One text after one step; empty if it was dropped."""
    return "".join(Result([step], text).texts)
