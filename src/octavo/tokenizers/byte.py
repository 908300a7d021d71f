"""Bytes: the 256 values of a UTF-8 byte cover every text. Frequent characters of several bytes can be tokens too."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, ClassVar, Literal, Self

import numpy as np
from pydantic import Field

from octavo.config.parts import MOST, register
from octavo.tokenizers.base import CODE_POINTS, Tokenizer, TokenizerConfig, code_points, utf8
from octavo.tokenizers.bytelevel import ByteLevelTokenizer

BYTES = 256


class ByteTokenizer(ByteLevelTokenizer):
    """Id = value of the byte; then the characters that have an id of their own, then the end of text.

    Args:
        documents: whether a special token stands between documents.
        characters: beyond ASCII, sorted by code point; every other one is spelt in bytes.
    """

    kind = "byte"
    cuts_anywhere = True

    def __init__(self, *, documents: bool, characters: str = "") -> None:
        if sorted(set(characters)) != list(characters) or (characters and characters[0] < "\x80"):
            raise ValueError("the characters are not sorted, one stands there twice, or one is ASCII")
        tokens = [*(bytes([value]) for value in range(BYTES)), *map(str.encode, characters)]
        end = len(tokens) if documents else None
        super().__init__([*tokens, *[b""] * documents], end=end)
        self.characters = characters
        self._ids = np.zeros(CODE_POINTS if characters else 0, np.int32)  # 0: no id of its own
        self._ids[code_points(characters)] = np.arange(BYTES, BYTES + len(characters))

    def encode(self, text: str) -> np.ndarray:
        ids = np.frombuffer(utf8(text), np.uint8).astype(np.int32)
        if text.isascii() or not self.characters:
            return ids
        codes = code_points(text)
        lengths = 1 + (codes >= 0x80) + (codes >= 0x800) + (codes >= 0x10000)
        own = self._ids[codes]
        whole = own > 0
        begins = (np.cumsum(lengths) - lengths)[whole]
        ids[begins] = own[whole]
        kept = np.ones(len(ids), bool)
        for further in range(1, 4):
            kept[begins[lengths[whole] > further] + further] = False
        return ids[kept]

    def decode(self, ids: Iterable[int]) -> str:
        array = self._checked(ids)
        if self.characters:
            return super().decode(array)
        return array[array < BYTES].astype(np.uint8).tobytes().decode("utf-8", "replace")

    def _data(self) -> dict[str, Any]:
        own = {"characters": self.characters} if self.characters else {}
        return {"documents": self.end is not None, **own}

    @classmethod
    def _restore(cls, data: dict[str, Any], files: dict[str, bytes]) -> Self:
        return cls(documents=bool(data["documents"]), characters=data.get("characters", ""))


@register("tokenizer")
class Byte(TokenizerConfig):
    """The 256 byte values of UTF-8, and frequent characters of several bytes as one token each; covers every text."""

    kind: Literal["byte"] = "byte"
    characters: int = Field(0, ge=0, le=100_000)
    """Most characters beyond ASCII that get a token of their own: the most frequent ones of the training split. All
    others are spelt in bytes."""
    min_frequency: int = Field(10, ge=1, le=MOST)
    """How often such a character must occur."""

    tokenizer: ClassVar[type[Tokenizer]] = ByteTokenizer
    trains_on: ClassVar[Literal["corpus", "train"] | None] = "train"

    def build(self, pieces: Callable[[], Iterator[str]], *, documents: bool) -> ByteTokenizer:
        """Count the characters of the text, which is not read where none gets a token."""
        if not self.characters:
            return ByteTokenizer(documents=documents)
        counts = np.zeros(CODE_POINTS, np.int64)
        for piece in pieces():
            if not piece.isascii():
                codes, found = np.unique(code_points(piece), return_counts=True)
                counts[codes] += found
        counts[:0x80] = counts[0xD800:0xE000] = (
            0  # bytes already; halves of characters, which `encode` refuses
        )
        frequent = np.flatnonzero(counts >= self.min_frequency)
        order = np.argsort(-counts[frequent], kind="stable")  # of equal ones the lower code point
        chosen = np.sort(frequent[order[: self.characters]])
        return ByteTokenizer(documents=documents, characters="".join(map(chr, chosen.tolist())))
