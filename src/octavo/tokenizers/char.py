"""Characters: every Unicode character of the corpus is a token, in code point order so that builds agree."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any, Self

import numpy as np

from octavo.tokenizers.base import (
    CODE_POINTS,
    END_OF_TEXT,
    UNKNOWN,
    StreamDecoder,
    Tokenizer,
    UnknownTextError,
    code_points,
    printable,
)


class CharTokenizer(Tokenizer):
    """One id per character, in code point order; then the end of text and `<unk>`, where there are any.

    Args:
        characters: the vocabulary, each character once, sorted by code point.
        documents: whether a special token stands between documents.
        unknown: whether `<unk>` stands for what the vocabulary lacks; otherwise that is an error.
    """

    kind = "char"
    cuts_anywhere = True

    def __init__(self, characters: str, *, documents: bool, unknown: bool) -> None:
        if sorted(set(characters)) != list(characters):
            raise ValueError("the characters are not sorted, or one stands there twice")
        # Every token's text, as decoded and as shown.
        special = [END_OF_TEXT] * documents
        self._texts = [*characters, *("" for _ in special), *[UNKNOWN] * unknown]
        self._names = [*map(printable, characters), *special, *[UNKNOWN] * unknown]
        end = len(characters) if documents else None
        super().__init__(vocab_size=len(self._texts), start=end, end=end)
        self.characters = characters
        self.unknown = self.vocab_size - 1 if unknown else None
        self._codes = code_points(characters)
        self._ids = np.full(CODE_POINTS, -1 if self.unknown is None else self.unknown, np.int32)
        self._ids[self._codes] = np.arange(len(characters), dtype=np.int32)
        # Text that is ASCII alone, and has no other characters than the vocabulary, is encoded by a table of bytes.
        known = [code for code in self._codes.tolist() if code < 128]
        self._ascii = bytes(known) if self.vocab_size <= 256 else b""
        self._table = bytes.maketrans(self._ascii, bytes(self._ids[list(self._ascii)].tolist()))

    def encode(self, text: str) -> np.ndarray:
        if text.isascii() and self._ascii:
            raw = text.encode("ascii")
            if not raw.translate(None, self._ascii):
                return np.frombuffer(raw.translate(self._table), np.uint8).astype(np.int32)
        codes = code_points(text)
        ids = self._ids[codes]
        if self.unknown is None and ids.size and ids.min() < 0:
            missing, counts = np.unique(codes[ids < 0], return_counts=True)
            raise UnknownTextError(
                Counter({chr(c): n for c, n in zip(missing.tolist(), counts.tolist(), strict=True)}),
                "characters",
            )
        return ids

    def decode(self, ids: Iterable[int]) -> str:
        array = self._checked(ids)
        if array.size and array.max() >= len(self.characters):
            return "".join(map(self._texts.__getitem__, array.tolist()))
        return str(self._codes[array].data, "utf-32-le", "surrogatepass")

    def decoder(self) -> StreamDecoder:
        return _CharDecoder(self)

    def token_text(self, id: int) -> str:
        return self._names[self._check(id)]

    def _data(self) -> dict[str, Any]:
        return {
            "characters": self.characters,
            "documents": self.end is not None,
            "unknown": self.unknown is not None,
        }

    @classmethod
    def _restore(cls, data: dict[str, Any], files: dict[str, bytes]) -> Self:
        return cls(data["characters"], documents=bool(data["documents"]), unknown=bool(data["unknown"]))


class _CharDecoder(StreamDecoder):
    def __init__(self, tokenizer: CharTokenizer) -> None:
        self.tokenizer = tokenizer

    def push(self, id: int) -> str:
        return self.tokenizer._texts[self.tokenizer._check(id)]
