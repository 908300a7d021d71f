"""Bytes: the 256 values of a UTF-8 byte cover every text. Frequent characters of several bytes can be tokens too."""

from __future__ import annotations

import codecs
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Self

import numpy as np

from octavo.tokenizers.base import (
    CODE_POINTS,
    END_OF_TEXT,
    StreamDecoder,
    Tokenizer,
    code_points,
    printable,
    utf8,
)


class ByteLevelTokenizer(Tokenizer):
    """A tokenizer whose tokens are byte strings, at most one of them special: the end of text.

    Args:
        token_bytes: the bytes of every id; those of the end of text are not looked at.
        end: id of `<|endoftext|>`, start and end at once, or None.
    """

    def __init__(self, token_bytes: Sequence[bytes], *, end: int | None) -> None:
        super().__init__(vocab_size=len(token_bytes), start=end, end=end)
        self._bytes = list(token_bytes)
        if end is not None:
            self._bytes[end] = b""

    def decode(self, ids: Iterable[int]) -> str:
        """The text of ids; bytes that are no UTF-8 become U+FFFD."""
        return b"".join(map(self._bytes.__getitem__, self._checked(ids).tolist())).decode("utf-8", "replace")

    def decoder(self) -> StreamDecoder:
        return ByteDecoder(self._bytes, self._check)

    def token_text(self, id: int) -> str:
        if self._check(id) == self.end:
            return END_OF_TEXT
        return printable(self._bytes[id].decode("utf-8", "backslashreplace"))


class ByteDecoder(StreamDecoder):
    """Holds back the bytes of a character that is not complete yet, so that never half of one is printed.

    Args:
        token_bytes: the bytes of every id.
        check: refuses an id outside the vocabulary.
    """

    def __init__(self, token_bytes: Sequence[bytes], check: Callable[[int], int]) -> None:
        self.token_bytes, self.check = token_bytes, check
        self.utf8 = codecs.getincrementaldecoder("utf-8")("replace")

    def push(self, id: int) -> str:
        return self.utf8.decode(self.token_bytes[self.check(id)])

    def finish(self) -> str:
        return self.utf8.decode(b"", final=True)


def byte_alphabet() -> dict[str, int]:
    """The printable character for each byte in GPT-2's files and in Hugging Face's, in GPT-2's order.

    Visible Latin-1 characters stand for themselves, the other 68 bytes for U+0100 onward
    (`bytes_to_unicode` in OpenAI's gpt-2/src/encoder.py).
    """
    visible = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    hidden = [byte for byte in range(256) if byte not in visible]
    return {chr(b): b for b in visible} | {chr(0x100 + n): b for n, b in enumerate(hidden)}


def from_alphabet(token: str, alphabet: dict[str, int]) -> bytes:
    """The bytes of a token that is written in `byte_alphabet`. Raises KeyError for a character outside it."""
    return bytes(alphabet[c] for c in token)


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
