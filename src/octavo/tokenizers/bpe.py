"""Byte-pair encoding learned from the corpus, by Hugging Face `tokenizers`, in the byte-level form of GPT-2.

It starts from the 256 bytes and merges the most frequent pair of neighbouring tokens, again and again,
never across the borders of GPT-2's word pattern. It covers every text exactly: no normalizer, no added
space. Saved as a `tokenizer.json` that the library opens by itself, with Octavo's own header beside it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import groupby, islice
from json import loads
from typing import Any, Self

import numpy as np

from octavo.tokenizers.base import END_OF_TEXT, HEADER, SIDECAR, utf8, whole_words
from octavo.tokenizers.byte import ByteLevelTokenizer, byte_alphabet, from_alphabet

PIECE = 1 << 12  # characters encoded at a time: small enough to keep the library's bookkeeping small

# GPT-2's word pattern for text that is ASCII alone, where the standard library knows its classes of characters.
_WORDS = re.compile(
    r"'(?:[sdmt]|ll|ve|re)| ?[A-Za-z]+| ?[0-9]+| ?[^\sA-Za-z0-9]+|\s+(?!\S)|\s+", re.ASCII
).findall
_KEPT = 1 << 17  # words whose ids are kept, of at most so many characters
_LONGEST = 64
_BATCH = 64  # pieces given to the library at once, which spreads them over the cores


class BPETokenizer(ByteLevelTokenizer):
    """A byte-level byte-pair encoding.

    Args:
        json: content of the library's `tokenizer.json`.

    Raises:
        ValueError: the library cannot read it, or it is not byte-level.
    """

    kind = "bpe"
    header = SIDECAR

    def __init__(self, json: str) -> None:
        from tokenizers import Tokenizer as Encoder

        try:
            self._encoder = Encoder.from_str(json)
        except Exception as error:  # the library raises nothing more special
            raise ValueError(str(error)) from error
        found = loads(self._encoder.to_str())
        words = found["pre_tokenizer"] or {}
        if found["normalizer"] or not words.get("use_regex") or words.get("add_prefix_space"):
            raise ValueError("it does not take the text as it is, in GPT-2's words")
        # A special token's name in the user's text is text like any other. The library does not save this switch.
        self._encoder.encode_special_tokens = True
        tokens = sorted(self._encoder.get_vocab().items(), key=lambda item: item[1])
        if [id for _, id in tokens] != list(range(len(tokens))):
            raise ValueError("the ids are not 0, 1, 2, …")
        self._words = _WordIds(self._encoder)
        alphabet = byte_alphabet()
        end = self._encoder.token_to_id(END_OF_TEXT)
        super().__init__(
            [b"" if id == end else from_alphabet(token, alphabet) for token, id in tokens], end=end
        )

    def encode(self, text: str) -> np.ndarray:
        utf8(text)
        parts = [np.zeros(0, np.int32)]
        pieces = [text] if text.isascii() else whole_words([text], PIECE)
        for ascii, alike in groupby(pieces, str.isascii):
            parts += (self._by_words if ascii else self._by_library)(alike)
        return np.concatenate(parts)

    def halves(self) -> np.ndarray | None:
        model = loads(self._encoder.to_str())["model"]
        ids, found = model["vocab"], np.full((self.vocab_size, 2), -1)
        for pair in reversed(model["merges"]):  # of two ways to a token, the first made it
            left, right = pair.split(" ") if isinstance(pair, str) else pair
            found[ids[left + right]] = ids[left], ids[right]
        return found

    def _by_library(self, pieces: Iterator[str]) -> Iterator[np.ndarray]:
        while batch := list(islice(pieces, _BATCH)):
            for encoding in self._encoder.encode_batch_fast(batch, add_special_tokens=False):
                yield np.array(encoding.ids, np.int32)

    def _by_words(self, pieces: Iterator[str]) -> Iterator[np.ndarray]:
        """The same for ASCII: merges never cross a word's border, and most words were met before."""
        for piece in pieces:
            yield np.frombuffer(b"".join(map(self._words.__getitem__, _WORDS(piece))), np.int32)

    def _data(self) -> dict[str, Any]:
        return {"mark": self.end}  # the name that this format has for it

    def _files(self) -> dict[str, bytes]:
        return {HEADER: self._encoder.to_str(pretty=True).encode()}

    @classmethod
    def _restore(cls, data: dict[str, Any], files: dict[str, bytes]) -> Self:
        tokenizer = cls(files[HEADER].decode())
        if tokenizer.end != data["mark"]:
            raise ValueError(f"{END_OF_TEXT} has id {tokenizer.end}, not {data['mark']}")
        return tokenizer


class _WordIds(dict[str, bytes]):
    """A word's ids as bytes of int32, kept from the first time on that it was met."""

    def __init__(self, encoder: Any) -> None:
        super().__init__()
        self._encoder = encoder

    def __missing__(self, word: str) -> bytes:
        ids = np.array(self._encoder.encode(word, add_special_tokens=False).ids, np.int32).tobytes()
        if len(self) < _KEPT and len(word) <= _LONGEST:
            self[word] = ids
        return ids
