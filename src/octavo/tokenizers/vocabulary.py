"""How many ids there are, and of pairs whose sides have tokenizers of their own, how many are the source's."""

from __future__ import annotations

from typing import Self


class Vocabulary(int):
    """The number of ids. Those of the `source` are the last ones; 0: it has none of its own."""

    source: int

    def __new__(cls, ids: int, *, source: int = 0) -> Self:
        found = super().__new__(cls, ids)
        found.source = source
        return found


def of_sides(vocab_size: int) -> tuple[int, int]:
    """Ids of the source and of the target; where they have one vocabulary, each has all of it."""
    source = vocab_size.source if isinstance(vocab_size, Vocabulary) else 0
    return (source, vocab_size - source) if source else (vocab_size, vocab_size)
