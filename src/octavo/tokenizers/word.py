"""Words: every word and every punctuation mark is a token (report A).

What a word is stands in `octavo.corpus.words`; every mark is a token by itself. Spacing is not kept: `decode` sets it
anew by the rules at `CLOSING`, so decode(encode(text)) is the text well spaced, and encode(decode(ids)) gives the
same ids again, since no two tokens are glued that would be read as one.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from octavo.corpus.words import MARKS, WORD
from octavo.tokenizers.base import (
    UNKNOWN,
    StreamDecoder,
    Tokenizer,
    UnknownTextError,
    printable,
)

START, END = "<sos>", "<eos>"
LINE_BREAK = "\n"

PATTERNS = {
    "fold": re.compile(rf"{WORD}|{UNKNOWN}|[{MARKS}]"),
    "keep": re.compile(rf"{WORD}|{UNKNOWN}|[{MARKS}]|{LINE_BREAK}"),
}

# How tokens are spaced: none before a closing mark nor after an opening one; a paired mark is both in turn.
CLOSING = frozenset(".,?!;:)]}”’»…%°、。〉》」』】！），．：；？")
OPENING = frozenset("([{“‘«„‚¿¡$£€#@`〈《「『【（")
PAIRED = frozenset("\"'_")
DASH = "-"  # spaced, but two in a row stay together


class WordTokenizer(Tokenizer):
    """Words and punctuation marks; `<sos>` 0, `<eos>` 1, `<unk>` (if any) 2, then the words.

    Args:
        words: the vocabulary without those three; each must be one token, and they must differ.
        lowercase: whether texts are put into lower case.
        lines: "fold" treats a line break as a space; "keep" makes it a token.
        unknown: whether `<unk>` stands for what the vocabulary lacks; otherwise that is an error.
    """

    kind = "word"

    def __init__(self, words: Sequence[str], *, lowercase: bool, lines: str, unknown: bool) -> None:
        self._find = PATTERNS[lines].findall
        for word in words:
            if self._find(word) != [word] or (lowercase and word != word.lower()):
                raise ValueError(f"{word!r} is not a word as this tokenizer reads words")
        if len(set(words)) != len(words) or (unknown and UNKNOWN in words):
            raise ValueError("a word stands in the vocabulary twice")
        specials = [START, END, *[UNKNOWN] * unknown]
        self._tokens = [*specials, *words]
        super().__init__(vocab_size=len(self._tokens), start=0, end=1)
        self.words = tuple(words)
        self.lowercase, self.lines, self.unknown = lowercase, lines, 2 if unknown else None
        ids = {word: id for id, word in enumerate(self._tokens) if id > 1}
        self._ids = _WordIds(ids, lowercase=lowercase, unknown=-1 if self.unknown is None else self.unknown)

    def encode(self, text: str) -> np.ndarray:
        words = self._find(text)
        ids = np.fromiter(map(self._ids.__getitem__, words), np.int32, len(words))
        if self.unknown is None and ids.size and ids.min() < 0:
            missing = Counter(word for word, id in zip(words, ids.tolist(), strict=True) if id < 0)
            raise UnknownTextError(missing, "words")
        return ids

    def decoder(self) -> StreamDecoder:
        return _WordDecoder(self)

    def token_text(self, id: int) -> str:
        return printable(self._tokens[self._check(id)])

    def _data(self) -> dict[str, Any]:
        return {
            "words": list(self.words),
            "lowercase": self.lowercase,
            "lines": self.lines,
            "unknown": self.unknown is not None,
        }

    @classmethod
    def _restore(cls, data: dict[str, Any], files: dict[str, bytes]) -> Self:
        return cls(
            data["words"],
            lowercase=bool(data["lowercase"]),
            lines=data["lines"],
            unknown=bool(data["unknown"]),
        )


class _WordIds(dict[str, int]):
    """Ids by word. Spellings that differ in case are added as they are met, so most look-ups are one step."""

    def __init__(self, ids: dict[str, int], *, lowercase: bool, unknown: int) -> None:
        super().__init__(ids)
        self.lowercase = lowercase
        self.unknown = unknown

    def __missing__(self, word: str) -> int:
        lower = word.lower()
        if not self.lowercase or lower not in self:
            return self.unknown
        self[word] = self[lower]
        return self[word]


class _WordDecoder(StreamDecoder):
    """Puts the space before a token, not after it, so that nothing has to be held back."""

    def __init__(self, tokenizer: WordTokenizer) -> None:
        self.tokenizer = tokenizer
        self.glued = True  # whether the next token follows without a space
        self.last = ""
        self.open: set[str] = set()  # paired marks that are open

    def push(self, id: int) -> str:
        token = self.tokenizer._tokens[self.tokenizer._check(id)]
        if id in (self.tokenizer.start, self.tokenizer.end):
            self.open.clear()
            return ""
        before, after = self._spacing(token)
        text = token if self.glued or before else " " + token
        self.glued, self.last = after, token
        return text

    def _spacing(self, token: str) -> tuple[bool, bool]:
        """Whether the token is glued to the one before it, and to the one after it."""
        if token in PAIRED:
            closing = token in self.open
            self.open ^= {token}
            return closing, not closing
        if token == LINE_BREAK:
            self.open.clear()
            return True, True
        return token in CLOSING or (token == self.last == DASH), token in OPENING
