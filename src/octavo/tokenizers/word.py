"""Words: every word and every punctuation mark is a token (report A).

What a word is stands in `octavo.corpus.words`; every mark is a token by itself. Spacing is not kept: `decode` sets it
anew by the rules at `CLOSING`, so decode(encode(text)) is the text well spaced, and encode(decode(ids)) gives the
same ids again, since no two tokens are glued that would be read as one.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from octavo.config.parts import MOST, FilePath, register
from octavo.corpus.words import MARKS, WORD
from octavo.errors import TokenizerError
from octavo.tokenizers.base import (
    UNKNOWN,
    StreamDecoder,
    Tokenizer,
    TokenizerConfig,
    UnknownTextError,
    printable,
)
from octavo.tokenizers.pieces import whole_words

START, END = "<sos>", "<eos>"
LINE_BREAK = "\n"

_PATTERNS = {
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
        self._find = _PATTERNS[lines].findall
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


@register("tokenizer")
class Word(TokenizerConfig):
    """Every word and every punctuation mark is a token, with <sos> and <eos> around each document."""

    kind: Literal["word"] = "word"
    size: int | None = Field(None, ge=1, le=MOST)
    """How many words and marks to keep, the most frequent first; null keeps all."""
    words: list[str] | FilePath | None = None
    """A closed vocabulary instead: a list of words, or a text file with one word a line."""
    lowercase: bool = False
    """Put the text into lower case."""
    lines: Literal["fold", "keep"] = "fold"
    """Line breaks: treated as spaces, or kept as tokens."""
    unknown: Literal["error", "token"] = "error"
    """What a word outside the vocabulary is: an error that names it, or the token <unk>."""

    tokenizer: ClassVar[type[Tokenizer]] = WordTokenizer
    trains_on: ClassVar[Literal["corpus", "train"] | None] = "corpus"

    @model_validator(mode="after")
    def _one_vocabulary(self) -> Self:
        if self.size is not None and self.words is not None:
            raise ValueError("`words` is the whole vocabulary, so `size` has no effect; give one of the two")
        return self

    def build(self, pieces: Callable[[], Iterator[str]], *, documents: bool) -> WordTokenizer:
        """Take the closed list, or count the words of the text; ties are broken alphabetically.

        Raises TokenizerError when there are no words, or when a listed one is not one token.
        """
        words = self._frequent(pieces()) if self.words is None else self._listed(self.words)
        if not words:
            raise TokenizerError("There are no words to make a vocabulary of.")
        return WordTokenizer(
            words, lowercase=self.lowercase, lines=self.lines, unknown=self.unknown == "token"
        )

    def _frequent(self, pieces: Iterable[str]) -> list[str]:
        find = _PATTERNS[self.lines].findall
        spelled: Counter[str] = Counter()
        for piece in whole_words(pieces):
            spelled.update(find(piece))
        counts: Counter[str] = Counter()
        for word, count in spelled.items():
            counts[word.lower() if self.lowercase else word] += count
        if self.unknown == "token":
            counts.pop(UNKNOWN, None)
        return sorted(counts, key=lambda word: (-counts[word], word))[: self.size]

    def _listed(self, words: list[str] | Path) -> list[str]:
        find = _PATTERNS[self.lines].findall
        listed = _read_words(words) if isinstance(words, Path) else words
        if self.lowercase:
            listed = [word.lower() for word in listed]
        specials = {START, END} | ({UNKNOWN} if self.unknown == "token" else set())
        kept = [word for word in dict.fromkeys(listed) if word not in specials]
        wrong = [word for word in kept if find(word) != [word]]
        if wrong:
            shown = ", ".join(f"'{printable(word)}'" for word in wrong[:10])
            raise TokenizerError(
                f"{len(wrong)} entries of the word list are not one word or one punctuation mark: {shown}.",
                remedy="List each word and each mark by itself, without spaces.",
            )
        return kept


def _read_words(path: Path) -> list[str]:
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise TokenizerError(
            f"The word list {path} cannot be read: {error}.",
            remedy="Give tokenizer.words a UTF-8 text file with one word a line.",
        ) from error
    return [line.strip() for line in text.split("\n") if line.strip()]
