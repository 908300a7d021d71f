"""Symbols: ids that stand for no characters, such as the values of pixels or the pitches of notes.

Where there must be a text of them, it is their numbers with white space between: `60 62 64`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, ClassVar, Literal, Self

import numpy as np
from pydantic import Field

from octavo.config.parts import register
from octavo.tokenizers.base import (
    END_OF_TEXT,
    StreamDecoder,
    Tokenizer,
    TokenizerConfig,
    UnknownTextError,
)

_DIGITS = 10  # more than the largest vocabulary has


class SymbolTokenizer(Tokenizer):
    """Id = the symbol's number; then the end of text.

    Args:
        size: how many symbols there are.
        documents: whether a special token stands between documents.
    """

    kind = "symbols"

    def __init__(self, size: int, *, documents: bool) -> None:
        if size < 1:
            raise ValueError("there are no symbols")
        end = size if documents else None
        super().__init__(vocab_size=size + documents, start=end, end=end)
        self.size = size

    def encode(self, text: str) -> np.ndarray:
        words = text.split()
        wrong = Counter(word for word in words if not self._is_symbol(word))
        if wrong:
            raise UnknownTextError(wrong, "symbols")
        return np.fromiter(map(int, words), np.int32, len(words))

    def _is_symbol(self, word: str) -> bool:
        return word.isascii() and word.isdecimal() and len(word) <= _DIGITS and int(word) < self.size

    def decoder(self) -> StreamDecoder:
        return _SymbolDecoder(self)

    def token_text(self, id: int) -> str:
        return END_OF_TEXT if self._check(id) == self.end else str(id)

    def _data(self) -> dict[str, Any]:
        return {"size": self.size, "documents": self.end is not None}

    @classmethod
    def _restore(cls, data: dict[str, Any], files: dict[str, bytes]) -> Self:
        return cls(int(data["size"]), documents=bool(data["documents"]))


class _SymbolDecoder(StreamDecoder):
    """Puts the space before a number, so that nothing has to be held back."""

    def __init__(self, tokenizer: SymbolTokenizer) -> None:
        self.tokenizer, self.first = tokenizer, True

    def push(self, id: int) -> str:
        if self.tokenizer._check(id) == self.tokenizer.end:
            return ""
        text = str(id) if self.first else f" {id}"
        self.first = False
        return text


@register("tokenizer")
class Symbols(TokenizerConfig):
    """Numbers below `size` that stand for no characters: pixels, notes. A text of them has white space between."""

    kind: Literal["symbols"] = "symbols"
    size: int = Field(256, ge=1, le=2**24)
    """How many symbols there are."""

    tokenizer: ClassVar[type[Tokenizer]] = SymbolTokenizer

    def build(self, pieces: Callable[[], Iterator[str]], *, documents: bool) -> SymbolTokenizer:
        """Make the tokenizer; the text is not read."""
        return SymbolTokenizer(self.size, documents=documents)
