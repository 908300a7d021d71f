"""What a validator is: it reads a record symbol by symbol, and says which one is wrong, and why.

The same reading serves twice: it judges records that are whole, and while a model writes it says which symbols may come
next (`generation.referee`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from octavo.config.parts import PartConfig, register


class WrongSymbol(Exception):
    """A symbol that may not stand where it stands, or an end that may not; its text says why."""


@dataclass(frozen=True)
class Verdict:
    """Whether a record is valid.

    Attributes:
        wrong: the number of the first wrong symbol, counted from 1; one more than there are where the record ends too
            early; None of a valid one.
        why: in a few words; empty of a valid one.
    """

    valid: bool
    wrong: int | None = None
    why: str = ""


class Validator(ABC):
    """Reads records. What it has read is a state, a value that is never changed; any value will do.

    Every beginning that it accepts must be one of a valid record, or a referee may run into a dead end.
    """

    @abstractmethod
    def start(self) -> Any:
        """The state before the first symbol."""

    @abstractmethod
    def after(self, state: Any, symbol: str) -> Any:
        """The state after one more symbol. Raises WrongSymbol where that may not stand there."""

    @abstractmethod
    def end(self, state: Any) -> None:
        """Raise WrongSymbol where a record may not end."""

    def check(self, record: Sequence[str]) -> Verdict:
        """Read a whole record; its end counts too."""
        state, number = self.start(), 0
        try:
            for number, symbol in enumerate(record, 1):  # noqa: B007 — it counts
                state = self.after(state, symbol)
            number += 1
            self.end(state)
        except WrongSymbol as error:
            return Verdict(False, number, str(error))
        return Verdict(True)

    def allowed(self, state: Any, symbols: Sequence[str]) -> list[bool]:
        """Which of these may come next."""

        def may(symbol: str) -> bool:
            try:
                self.after(state, symbol)
            except WrongSymbol:
                return False
            return True

        return list(map(may, symbols))

    def may_end(self, state: Any) -> bool:
        """Whether a record may end here."""
        try:
            self.end(state)
        except WrongSymbol:
            return False
        return True


class ValidatorConfig(PartConfig):
    """Base of the kinds. Symbols are those of the tokenizer `symbols`, or the characters of `char`."""

    @abstractmethod
    def build(self, corpus: PartConfig) -> Validator | None:
        """The validator. `corpus`: the recipe's source of records, for one that must know it; ConfigError where it is
        of no use there."""


@register("validator")
class NoValidatorConfig(ValidatorConfig):
    """Nothing is checked."""

    kind: Literal["none"] = "none"

    def build(self, corpus: PartConfig) -> None:
        """None."""
