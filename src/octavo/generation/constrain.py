"""A referee: of the symbols that a model could write next it lets only those through that a validator allows.

V vocabulary.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from octavo.corpus.validators.base import Validator, WrongSymbol
from octavo.errors import InputError
from octavo.tokenizers import Tokenizer

SYMBOLIC = ("symbols", "char")
"""Tokenizers whose tokens are symbols."""


def refuse_no_symbols(kind: str) -> None:
    """Raise InputError for a kind of tokenizer whose tokens no validator can read."""
    if kind not in SYMBOLIC:
        raise InputError(
            f"A validator reads symbols, and tokenizer={kind} has tokens that are not symbols.",
            remedy=f"tokenizer={' or tokenizer='.join(SYMBOLIC)}",
        )


class Referee:
    """A validator in the ids of a tokenizer. Raises InputError for one whose tokens are no symbols."""

    def __init__(self, validator: Validator, tokenizer: Tokenizer) -> None:
        refuse_no_symbols(tokenizer.kind)
        self.validator, self.end = validator, tokenizer.end
        special = set(tokenizer.special.values())
        self.ids = [id for id in range(tokenizer.vocab_size) if id not in special]
        self.symbols = [tokenizer.decode([id]) for id in self.ids]
        self._names = dict(zip(self.ids, self.symbols, strict=True))
        self._vocabulary = tokenizer.vocab_size

    def record(self, ids: Iterable[int]) -> list[str]:
        """The symbols of some ids; special tokens are none."""
        return [self._names[id] for id in ids if id in self._names]

    def game(self, prompt: Sequence[int]) -> Game:
        """What may follow a prompt. Raises InputError where no valid record begins with it."""
        game = Game(self)
        for number, symbol in enumerate(self.record(prompt), 1):
            try:
                game.state = self.validator.after(game.state, symbol)
            except WrongSymbol as error:
                raise InputError(
                    f"No valid record begins with this prompt: its symbol {number} is wrong, because {error}."
                ) from error
        return game

    def mask(self, state: object) -> np.ndarray:
        """Which ids may come next, (V,), bool; all false in a dead end."""
        mask = np.zeros(self._vocabulary, bool)
        mask[self.ids] = self.validator.allowed(state, self.symbols)
        if self.end is not None:
            mask[self.end] = self.validator.may_end(state)
        return mask

    def after(self, state: object, token: int) -> object:
        """The state after an id that the mask lets through."""
        return self.validator.after(state, self._names[token]) if token in self._names else state


class Game:
    """A referee's side of one text."""

    def __init__(self, referee: Referee) -> None:
        self.referee, self.state = referee, referee.validator.start()

    def mask(self) -> np.ndarray:
        """Which ids may come next, (V,), bool."""
        return self.referee.mask(self.state)

    def take(self, token: int) -> None:
        """Advance the record by an id that was written."""
        self.state = self.referee.after(self.state, token)
