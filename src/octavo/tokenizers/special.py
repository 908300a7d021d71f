"""Special tokens that are added to any tokenizer, after its own ids. No tokenizer has to know of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, Self

import numpy as np

from octavo.errors import TokenizerError
from octavo.tokenizers.base import END_OF_TEXT, UNKNOWN, StreamDecoder, Tokenizer, TokenizerConfig


class Extended(Tokenizer):
    """A tokenizer with more special tokens; all else is the one inside.

    Where that has no end of text and `<|endoftext|>` is added, this becomes start and end.

    Args:
        inner: has no added tokens itself.
        added: their names, in the order of their ids.
    """

    def __init__(self, inner: Tokenizer, added: Sequence[str]) -> None:
        first = inner.vocab_size
        start, end = inner.start, inner.end
        if end is None and END_OF_TEXT in added:
            start = end = first + list(added).index(END_OF_TEXT)
        super().__init__(vocab_size=first + len(added), start=start, end=end)
        self.inner, self.added = inner, tuple(added)
        self.kind, self.header = inner.kind, inner.header
        self.cuts_anywhere, self.cuts_at_words = inner.cuts_anywhere, inner.cuts_at_words
        self.unknown = inner.unknown

    @cached_property
    def special(self) -> Mapping[str, int]:
        """Those inside, and the added ones."""
        first = self.inner.vocab_size
        return {**self.inner.special, **{name: first + at for at, name in enumerate(self.added)}}

    def encode(self, text: str) -> np.ndarray:
        return self.inner.encode(text)

    def encode_source(self, text: str) -> np.ndarray:
        return self.inner.encode_source(text)

    def halves(self) -> np.ndarray | None:
        known = self.inner.halves()
        return None if known is None else np.pad(known, ((0, len(self.added)), (0, 0)), constant_values=-1)

    def decode(self, ids: Iterable[int]) -> str:
        array = self._checked(ids)
        return self.inner.decode(array[array < self.inner.vocab_size])

    def decoder(self) -> StreamDecoder:
        return _Decoder(self)

    def token_text(self, id: int) -> str:
        at = self._check(id) - self.inner.vocab_size
        return self.inner.token_text(id) if at < 0 else self.added[at]

    def _data(self) -> dict[str, Any]:
        return self.inner._data()

    def _files(self) -> dict[str, bytes]:
        return self.inner._files()

    @classmethod
    def _restore(cls, data: dict[str, Any], files: dict[str, bytes]) -> Self:
        raise TypeError("the tokenizer inside is restored, and extended again")


class _Decoder(StreamDecoder):
    """The decoder of the tokenizer inside, which hears nothing of what was added."""

    def __init__(self, tokenizer: Extended) -> None:
        self.tokenizer, self.inner = tokenizer, tokenizer.inner.decoder()

    def push(self, id: int) -> str:
        return self.inner.push(id) if self.tokenizer._check(id) < self.tokenizer.inner.vocab_size else ""

    def finish(self) -> str:
        return self.inner.finish()


def with_special(tokenizer: Tokenizer, names: Iterable[str]) -> Tokenizer:
    """A tokenizer that has these special tokens: those that it lacks get ids after all others, in this order.

    Raises TokenizerError for a name that stands for text.
    """
    lacking = [name for name in dict.fromkeys(names) if name not in tokenizer.special]
    if not lacking:
        return tokenizer
    if UNKNOWN in lacking:
        raise TokenizerError(f"{UNKNOWN} stands for text, so it is no special token.")
    inner = tokenizer.inner if isinstance(tokenizer, Extended) else tokenizer
    return Extended(inner, [*tokenizer.added, *lacking])


def build_tokenizer(
    config: TokenizerConfig, pieces: Callable[[], Iterator[str]], *, documents: bool
) -> Tokenizer:
    """The tokenizer of a text with the special tokens that its options name. Arguments as for `config.build`."""
    return with_special(config.build(pieces, documents=documents), config.special)
