"""Bytes: the 256 values of a UTF-8 byte are the vocabulary. It covers every text and learns nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, ClassVar, Literal, Self

import numpy as np

from octavo.config.parts import register
from octavo.tokenizers.base import Tokenizer, TokenizerConfig, utf8
from octavo.tokenizers.bytelevel import ByteLevelTokenizer


class ByteTokenizer(ByteLevelTokenizer):
    """Id = value of the byte; 256 is the mark between documents, where there is one."""

    kind = "byte"
    cuts_anywhere = True

    def __init__(self, *, documents: bool) -> None:
        super().__init__(
            [bytes([b]) for b in range(256)] + [b""] * documents, mark=256 if documents else None
        )

    def encode(self, text: str) -> np.ndarray:
        return np.frombuffer(utf8(text), np.uint8).astype(np.int32)

    def decode(self, ids: Iterable[int]) -> str:
        array = self._checked(ids)
        return array[array < 256].astype(np.uint8).tobytes().decode("utf-8", "replace")

    def _data(self) -> dict[str, Any]:
        return {"documents": self.end is not None}

    @classmethod
    def _restore(cls, data: dict[str, Any], files: dict[str, bytes]) -> Self:
        return cls(documents=bool(data["documents"]))


@register("tokenizer")
class Byte(TokenizerConfig):
    """The 256 byte values of UTF-8; covers every text."""

    kind: Literal["byte"] = "byte"

    tokenizer: ClassVar[type[Tokenizer]] = ByteTokenizer

    def build(self, pieces: Callable[[], Iterator[str]], *, documents: bool) -> ByteTokenizer:
        """Make the tokenizer; the text is not read."""
        return ByteTokenizer(documents=documents)
