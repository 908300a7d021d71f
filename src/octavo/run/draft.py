"""A text that a person and a model write in turns."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pydantic import ValidationError

from octavo.config import SamplingConfig, parse_yaml
from octavo.errors import InputError, OctavoError
from octavo.generation.sampling import SEEDS, seed_of
from octavo.run.run import Run

OPTIONS = ("tokens", "temperature", "top_k", "top_p", "min_p", "repetition_penalty", "seed")


class Draft:
    """The text so far, and how the model continues it. The same turns with the same seed give the same text."""

    def __init__(self, run: Run, *, seed: int = 0) -> None:
        self.run, self.seed, self.text = run, seed, ""
        self.sampling = run.config.sampling
        self._turns: list[tuple[str, str]] = []  # the text before each turn, and with what was typed in it

    def go_on(self, typed: str = "") -> Iterator[str]:
        """Add what was typed, and let the model continue, in pieces. A prompt that it cannot read adds nothing."""
        self._turns.append((self.text, self.text + typed))
        yield from self._write()

    def again(self) -> Iterator[str]:
        """Another continuation in place of the last one, with the next seed."""
        self._needs_a_turn()
        self.seed = (self.seed + 1) % SEEDS
        yield from self._write()

    def undo(self) -> None:
        """Take the last turn back."""
        self._needs_a_turn()
        self.text, _ = self._turns.pop()

    def restart(self) -> None:
        """Forget the text, keep the options."""
        self.text = ""
        self._turns.clear()

    def set(self, name: str, value: str) -> None:
        """Change an option. Raises InputError for a value that it cannot take."""
        if name not in OPTIONS:
            raise InputError(f"There is no option '{name}'; there are {', '.join(OPTIONS)}.")
        if name == "seed":
            self.seed = seed_of(value)
            return
        try:
            changed = self.sampling.model_dump() | {name: parse_yaml(value, name)}
            self.sampling = SamplingConfig.model_validate(changed)
        except ValidationError as error:
            raise InputError(f"{name} cannot be {value}: {error.errors()[0]['msg']}.") from error

    def options(self) -> dict[str, Any]:
        """The options as they are."""
        return {name: getattr(self if name == "seed" else self.sampling, name) for name in OPTIONS}

    @property
    def typed(self) -> str:
        """What was typed in the last turn."""
        before, begun = self._turns[-1] if self._turns else ("", "")
        return begun[len(before) :]

    def _needs_a_turn(self) -> None:
        if not self._turns:
            raise InputError("Nothing is written yet.")

    def _write(self) -> Iterator[str]:
        before, begun = self._turns[-1]
        try:
            pieces = self.run.stream(begun, **self.options())
            first = next(pieces, "")
        except OctavoError:
            self._turns.pop()
            self.text = before
            raise
        self.text = begun + first
        yield first
        for piece in pieces:
            self.text += piece
            yield piece
