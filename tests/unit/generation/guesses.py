"""Drafts that know what comes, up to a place where they err."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import pytest

from octavo.generation.decoder import Decoder
from octavo.generation.drafts import Drafted, Drafts, Guess, Rate
from octavo.generation.streams import Stream


class Knowing(Drafts):
    """Proposes what `comes` of a stream, as long as it may, and with a mistake where chance has it.

    Attributes:
        right, wrong: tokens of drafts that were, and were not, what came.
    """

    right = wrong = 0

    def __init__(self, decoder: Decoder, comes: Callable[[Stream], Sequence[int]], *, seed: int = 0) -> None:
        super().__init__(decoder)
        self._comes, self._chance = comes, np.random.default_rng(seed)

    def begin(self, texts: int) -> bool:
        super().begin(texts)
        return True

    def _guesses(self, text: Drafted, most: int) -> list[Guess]:
        assert isinstance(text, Stream)
        written = len(text.ids)
        tokens = [*self._comes(text)[written : written + self._chance.integers(most + 1)]]
        if tokens and self._chance.random() < 0.5:
            wrong = self._chance.integers(len(tokens))
            tokens[wrong] = (tokens[wrong] + 1) % self._decoder.vocabulary
        return [Told(self, tokens)]


class Told(Guess):
    """Counts how it does."""

    def __init__(self, drafts: Knowing, tokens: Sequence[int]) -> None:
        super().__init__(tokens, [Rate(1.0) for _ in tokens])
        object.__setattr__(self, "drafts", drafts)

    def learn(self, came: Sequence[int]) -> None:
        super().learn(came)
        right = sum(rate.right > 0 for rate in self.rates)
        self.drafts.right += right  # pyrefly: ignore
        self.drafts.wrong += len(self.tokens) - right  # pyrefly: ignore


class Undrafted:
    """Mixed into a decoder, which then reads nothing ahead."""

    def foresees(self) -> bool:
        return False


def undrafted(kind: type[Decoder]) -> type[Decoder]:
    """The same without drafts."""
    return type(f"Undrafted{kind.__name__}", (Undrafted, kind), {})


@contextmanager
def drafted_by(make: Callable[[Decoder], Drafts]) -> Iterator[None]:
    """Within the context all texts are drafted so."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Drafts, "of", make)
        yield
