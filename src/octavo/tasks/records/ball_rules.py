"""The validator of the bouncing ball: it moves by its velocity, off the walls, and nothing else is to be seen."""

from __future__ import annotations

from typing import Literal

import numpy as np

from octavo.config.parts import PartConfig, register
from octavo.corpus.validators.base import Validator, ValidatorConfig, WrongSymbol
from octavo.errors import ConfigError
from octavo.tasks.records.ball import BouncingBallSource, World

State = tuple[int, np.ndarray]
"""Pixels that were read, and the films that begin with them."""


class BallRules(Validator):
    """Knows every film of a world; a pixel is wrong where no film goes on with it."""

    def __init__(self, world: World) -> None:
        self.world = world

    def start(self) -> State:
        return 0, np.arange(len(self.world.films))

    def after(self, state: State, symbol: str) -> State:
        read, left = state
        if read >= self.world.pixels:
            raise WrongSymbol(f"a film has {self.world.pixels} pixels, and this one goes on")
        values = self.world.films[left, read]
        fitting = left[values == int(symbol)] if symbol.isdecimal() else left[:0]
        if not len(fitting):
            frame, place = divmod(read, self.world.rows * self.world.columns)
            row, column = divmod(place, self.world.columns)
            known = " or ".join(map(str, np.unique(values).tolist()))
            raise WrongSymbol(
                f"in frame {frame + 1} the pixel at row {row + 1}, column {column + 1} is {symbol}, and by where the "
                f"ball was and how it moved it is {known}"
            )
        return read + 1, fitting

    def end(self, state: State) -> None:
        if state[0] < self.world.pixels:
            raise WrongSymbol(f"the film ends after {state[0]} of {self.world.pixels} pixels")


@register("validator")
class BallRulesConfig(ValidatorConfig):
    """Of films of a bouncing ball: it moves by its velocity."""

    kind: Literal["bouncing-ball"] = "bouncing-ball"

    def build(self, corpus: PartConfig) -> BallRules:
        """The validator of the corpus's world."""
        if not isinstance(corpus, BouncingBallSource):
            raise ConfigError(
                f"validator=bouncing-ball knows films of corpus=bouncing-ball, not of corpus={corpus.kind}."
            )
        return BallRules(corpus.world)
