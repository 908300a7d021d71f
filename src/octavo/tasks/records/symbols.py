"""Symbols: ids that stand for no characters, such as the values of pixels, the pitches of notes or the moves of a game.

Where there must be a text of them, it is their numbers with white space between, `60 62 64`, or their names from an
alphabet: words with white space between, or characters without.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np
from pydantic import AfterValidator, Field, model_validator

from octavo.config.parts import register
from octavo.tokenizers.base import END_OF_TEXT, StreamDecoder, Tokenizer, UnknownTextError, printable
from octavo.tokenizers.config import TokenizerConfig

_DIGITS = 10  # more than the largest vocabulary has


class SymbolTokenizer(Tokenizer):
    """Id = the symbol's number; then the end of text.

    Args:
        size: how many symbols there are.
        documents: whether a special token stands between documents.
        names: of the symbols, in the order of their ids; without them, they are called by their numbers.
        spaced: whether white space stands between the symbols of a text; else each name is one character.
    """

    kind = "symbols"

    def __init__(self, size: int, *, documents: bool, names: Sequence[str] = (), spaced: bool = True) -> None:
        if size < 1:
            raise ValueError("there are no symbols")
        if names and (len(names) != size or len(set(names)) != size):
            raise ValueError("a symbol has no name, or two have one")
        end = size if documents else None
        super().__init__(vocab_size=size + documents, start=end, end=end)
        self.size, self.names, self.spaced = size, tuple(names), spaced
        self.cuts_anywhere = not spaced
        self._ids = {name: id for id, name in enumerate(self.names)}

    def encode(self, text: str) -> np.ndarray:
        words = text.split() if self.spaced else text
        known = self._ids.__contains__ if self.names else self._is_symbol
        wrong = Counter(word for word in words if not known(word))
        if wrong:
            raise UnknownTextError(wrong, "symbols")
        return np.fromiter(map(self._ids.__getitem__ if self.names else int, words), np.int32, len(words))

    def _is_symbol(self, word: str) -> bool:
        return word.isascii() and word.isdecimal() and len(word) <= _DIGITS and int(word) < self.size

    def decoder(self) -> StreamDecoder:
        return _SymbolDecoder(self)

    def name_of(self, id: int) -> str:
        """What a text calls a symbol."""
        return self.names[id] if self.names else str(id)

    def token_text(self, id: int) -> str:
        return END_OF_TEXT if self._check(id) == self.end else printable(self.name_of(id))

    def _data(self) -> dict[str, Any]:
        named = {"names": list(self.names), "spaced": self.spaced} if self.names else {}
        return {"size": self.size, "documents": self.end is not None, **named}

    @classmethod
    def _restore(cls, data: dict[str, Any], files: dict[str, bytes]) -> Self:
        names, spaced = data.get("names", ()), bool(data.get("spaced", True))
        if not all(isinstance(name, str) for name in names) or (not spaced and max(map(len, names)) > 1):
            raise ValueError("a symbol has no name, or one that no text can hold")
        return cls(int(data["size"]), documents=bool(data["documents"]), names=names, spaced=spaced)


class _SymbolDecoder(StreamDecoder):
    """Puts the space before a symbol, so that nothing has to be held back."""

    def __init__(self, tokenizer: SymbolTokenizer) -> None:
        self.tokenizer, self.first = tokenizer, True

    def push(self, id: int) -> str:
        if self.tokenizer._check(id) == self.tokenizer.end:
            return ""
        space = "" if self.first or not self.tokenizer.spaced else " "
        self.first = False
        return space + self.tokenizer.name_of(id)


def _names(value: tuple[str, ...] | str | None) -> tuple[str, ...] | str | None:
    names = value or ()
    if value is not None and not names:
        raise ValueError("an alphabet has at least one symbol")
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise ValueError(f"given twice: {', '.join(twice)}")
    if isinstance(value, str):
        return value
    if wrong := [name for name in names if not name or any(map(str.isspace, name))]:
        raise ValueError(f"{wrong[0]!r} cannot be a symbol of a list: white space separates symbols")
    return value


@register("tokenizer")
class Symbols(TokenizerConfig):
    """Symbols that are no text: numbers below `size` (pixels, notes), or those of an `alphabet` (moves, bases)."""

    kind: Literal["symbols"] = "symbols"
    size: int = Field(256, ge=1, le=2**24)
    """How many symbols there are, where they are numbers, with white space between; else as many as the alphabet
    has."""
    alphabet: Annotated[str | tuple[str, ...] | None, AfterValidator(_names)] = None
    """The symbols where they are no numbers: a text, each of whose characters is one and follows the other without a
    space (ACGT), or a list of words, with white space between ([e4, e5, Nf3])."""

    tokenizer: ClassVar[type[Tokenizer]] = SymbolTokenizer

    @model_validator(mode="before")
    @classmethod
    def _size_of_the_alphabet(cls, given: Any) -> Any:
        """The alphabet says how many there are, so what is written of both agrees and can be read again. A size of 256
        beside an alphabet is the default, which earlier versions wrote there."""
        alphabet = given.get("alphabet") if isinstance(given, dict) else None
        known = isinstance(alphabet, Sequence)
        return {**given, "size": len(alphabet)} if known and given.get("size", 256) == 256 else given

    @model_validator(mode="after")
    def _one_of_both(self) -> Symbols:
        if self.alphabet is not None and self.size != len(self.alphabet):
            raise ValueError(
                f"the alphabet has {len(self.alphabet)} symbols, and size says {self.size}: leave size out, or give "
                f"size {len(self.alphabet)}"
            )
        return self

    def build(self, pieces: Callable[[], Iterator[str]], *, documents: bool) -> SymbolTokenizer:
        """Make the tokenizer; the text is not read."""
        if self.alphabet is None:
            return SymbolTokenizer(self.size, documents=documents)
        return SymbolTokenizer(
            len(self.alphabet),
            documents=documents,
            names=tuple(self.alphabet),
            spaced=not isinstance(self.alphabet, str),
        )
