"""The tokenizers as parts: their options, and how one is learned from a text. A model writes without any of this."""

from __future__ import annotations

import re
from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np
from pydantic import AfterValidator, Field, model_validator

from octavo.config.parts import MOST, FilePath, PartConfig, register
from octavo.errors import TokenizerError
from octavo.tokenizers.base import (
    CODE_POINTS,
    END_OF_TEXT,
    UNKNOWN,
    Tokenizer,
    code_points,
    printable,
    utf8,
    whole_words,
    with_special,
)
from octavo.tokenizers.bpe import PIECE, BPETokenizer
from octavo.tokenizers.byte import ByteTokenizer, byte_alphabet
from octavo.tokenizers.char import CharTokenizer
from octavo.tokenizers.word import END, PATTERNS, START, WordTokenizer

_ENDLESS = re.compile(r"\S{256}")


def _special_name(name: str) -> str:
    if not name.isprintable() or any(character.isspace() for character in name):
        raise ValueError(f"{name!r} cannot name a special token: use visible characters without spaces")
    if name == UNKNOWN:
        raise ValueError(f"{UNKNOWN} stands for text, so it is not special; see the option `unknown`")
    return name


SpecialName = Annotated[str, Field(min_length=1, max_length=64), AfterValidator(_special_name)]


def _each_once(names: tuple[str, ...]) -> tuple[str, ...]:
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(f"given twice: {', '.join(twice)}")
    return names


class TokenizerConfig(PartConfig):
    """Base of every tokenizer's options."""

    special: Annotated[tuple[SpecialName, ...], Field(max_length=1000), AfterValidator(_each_once)] = ()
    """Names of special tokens, such as <|user|>, that are added after the vocabulary, those of them that the tokenizer
    has not anyway. No text gives them: in a text their names are characters like any others."""

    tokenizer: ClassVar[type[Tokenizer]]
    trains_on: ClassVar[Literal["corpus", "train"] | None] = None
    """Which text `build` reads: all of it, the training split, or none."""
    merges: ClassVar[bool] = False
    """Whether its tokens are known as merges of others (`Tokenizer.halves`)."""

    @property
    def sides(self) -> tuple[TokenizerConfig, TokenizerConfig]:
        """The source's and the target's, of pairs."""
        return self, self

    def unfit(self, *, corpus: Any, batches: Any, model: Any, split: str, cleaned: bool) -> str | None:
        """Why a recipe with these parts cannot have it, if it cannot."""
        if getattr(batches, "merge_dropout", 0) and not any(side.merges for side in self.sides):
            return "it has no merges that batches.merge_dropout could leave out; take tokenizer=bpe"
        return None

    @property
    def identity(self) -> dict[str, Any]:
        """What decides the tokenizer besides the text, as plain data."""
        plain = self.model_dump(mode="json")
        return plain if self.special else {key: value for key, value in plain.items() if key != "special"}

    @abstractmethod
    def build(self, pieces: Callable[[], Iterator[str]], *, documents: bool) -> Tokenizer:
        """Make the tokenizer, without what is to be added to it: `special.build_tokenizer` does both.

        Args:
            pieces: starts a fresh pass over the text, in pieces of bounded size that may be cut anywhere.
            documents: whether the corpus has more than one document, so that a special token between them is needed.
        """


def build_tokenizer(
    config: TokenizerConfig, pieces: Callable[[], Iterator[str]], *, documents: bool
) -> Tokenizer:
    """The tokenizer of a text with the special tokens that its options name. Arguments as for `config.build`."""
    return with_special(config.build(pieces, documents=documents), config.special)


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


@register("tokenizer")
class Char(TokenizerConfig):
    """Every character of the corpus is a token, numbered in code point order."""

    kind: Literal["char"] = "char"
    unknown: Literal["error", "token"] = "error"
    """What a character outside the vocabulary is: an error that names it, or the token <unk>."""

    tokenizer: ClassVar[type[Tokenizer]] = CharTokenizer
    trains_on: ClassVar[Literal["corpus", "train"] | None] = "corpus"

    def build(self, pieces: Callable[[], Iterator[str]], *, documents: bool) -> CharTokenizer:
        """Collect the characters of the text. Raises TokenizerError for an empty text."""
        seen = np.zeros(CODE_POINTS, bool)
        ascii = b""  # those of it that were seen: nearly always all that a piece has
        for piece in pieces():
            if not piece.isascii():
                seen[code_points(piece)] = True
            elif new := set(piece.encode("ascii").translate(None, ascii)):
                ascii += bytes(new)
        seen[list(ascii)] = True
        characters = "".join(map(chr, np.flatnonzero(seen).tolist()))
        if not characters:
            raise TokenizerError("The corpus is empty, so a char tokenizer has no characters to learn.")
        return CharTokenizer(characters, documents=documents, unknown=self.unknown == "token")


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
        find = PATTERNS[self.lines].findall
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
        find = PATTERNS[self.lines].findall
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


@register("tokenizer")
class BPE(TokenizerConfig):
    """Byte-level byte-pair encoding, learned from the training split; covers every text."""

    kind: Literal["bpe"] = "bpe"
    size: int = Field(4096, ge=257, le=2**20)
    """Vocabulary: 256 bytes, the end of text and the merges; fewer where the text gives no more merges."""
    min_frequency: int = Field(2, ge=1, le=MOST)
    """How often a pair must occur to be merged."""

    tokenizer: ClassVar[type[Tokenizer]] = BPETokenizer
    trains_on: ClassVar[Literal["corpus", "train"] | None] = "train"
    merges: ClassVar[bool] = True

    def build(self, pieces: Callable[[], Iterator[str]], *, documents: bool) -> BPETokenizer:
        """Learn the merges from the text."""
        from tokenizers import Tokenizer as Encoder
        from tokenizers import decoders, models, pre_tokenizers, trainers

        encoder = Encoder(models.BPE())
        encoder.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
        encoder.decoder = decoders.ByteLevel()
        trainer = trainers.BpeTrainer(
            vocab_size=self.size,
            min_frequency=self.min_frequency,
            special_tokens=[END_OF_TEXT] if documents else [],
            initial_alphabet=sorted(byte_alphabet()),
            show_progress=False,
        )
        encoder.train_from_iterator(_short_words(whole_words(pieces(), PIECE)), trainer)
        return BPETokenizer(encoder.to_str())


def _short_words(pieces: Iterator[str]) -> Iterator[str]:
    """The same text with cuts in words of hundreds of characters, such as a genome's: the time that the library takes
    to learn goes with the square of a word's length."""
    for piece in pieces:
        utf8(piece)
        begin = 0
        for run in _ENDLESS.finditer(piece):
            yield piece[begin : run.end()]
            begin = run.end()
        yield piece[begin:]
