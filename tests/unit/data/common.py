"""A source of given documents, for tests."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from octavo.corpus import Document, Source


class Given(Source):
    """Documents as given, in pieces of `size` characters; `files` names the file of each."""

    def __init__(self, *texts: str, size: int = 1 << 20, files: Sequence[str] = ()) -> None:
        self.texts = texts
        self.files = files or [""] * len(texts)
        self.size = size

    def documents(self) -> Iterator[Document]:
        for number, (text, file) in enumerate(zip(self.texts, self.files, strict=True)):
            pieces = (text[at : at + self.size] for at in range(0, len(text), self.size))
            yield Document(f"document {number}", pieces, file)

    def describe(self) -> dict[str, Any]:
        return {"kind": "given"}
