"""A source of given documents, for tests."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from octavo.corpus import Document, Source


class Given(Source):
    """Documents as given, in pieces of `size` characters."""

    def __init__(self, *texts: str, size: int = 1 << 20) -> None:
        self.texts = texts
        self.size = size

    def documents(self) -> Iterator[Document]:
        for number, text in enumerate(self.texts):
            pieces = (text[at : at + self.size] for at in range(0, len(text), self.size))
            yield Document(f"document {number}", pieces)

    def describe(self) -> dict[str, Any]:
        return {"kind": "given"}
