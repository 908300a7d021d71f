"""A ball that bounces in a box: films whose every frame but the first two follows from those before, and the source of
them.

All films of a world are equally likely and none comes twice, so the probability of each, of each next pixel, and the
least loss that a model can have are known exactly.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
from pydantic import Field, model_validator

from octavo.config.parts import MOST, PartConfig, register
from octavo.corpus import Document, Report, Source
from octavo.tasks.records.pixels import PixelsConfig, Raster, as_text

LARGEST = 2**26
"""Pixels of all films of a world together."""


@dataclass(frozen=True)
class World:
    """A box of `rows` × `columns` pixels with a square ball.

    Args:
        frames: of a film.
        ball: its width and height in pixels.
        speed: how many pixels it moves along each axis between two frames, at most; it never stands still.
        levels: grey levels of a pixel: 0 is the box, and the ball has one of the others for the whole film.
    """

    rows: int
    columns: int
    frames: int
    ball: int
    speed: int
    levels: int

    @property
    def pixels(self) -> int:
        """Number of pixels of a film."""
        return self.frames * self.rows * self.columns

    @cached_property
    def _starts(self) -> list[tuple[int, int, int, int, int]]:
        speeds = range(-self.speed, self.speed + 1)
        places = product(range(self.rows - self.ball + 1), range(self.columns - self.ball + 1))
        return [
            (level, row, column, down, right)
            for (row, column), down, right, level in product(places, speeds, speeds, range(1, self.levels))
            if down or right
        ]

    def film(self, level: int, row: int, column: int, down: int, right: int) -> np.ndarray:
        """The frames (F, H, W), uint8, from where the ball is at first and how it moves."""
        film = np.zeros((self.frames, self.rows, self.columns), np.uint8)
        for frame in film:
            frame[row : row + self.ball, column : column + self.ball] = level
            row, down = _bounced(row + down, down, self.rows - self.ball)
            column, right = _bounced(column + right, right, self.columns - self.ball)
        return film

    @cached_property
    def films(self) -> np.ndarray:
        """All that there are, each once, (films, pixels), uint8."""
        return np.unique(np.stack([self.film(*start).ravel() for start in self._starts]), axis=0)

    def log_probability(self, text: str) -> float:
        """Of a film as numbers with white space between: minus infinity where it is none of this world."""
        return -math.log(len(self.films)) if text in self._texts else -math.inf

    @cached_property
    def _texts(self) -> frozenset[str]:
        return frozenset(map(as_text, self.films))


def _bounced(place: int, speed: int, most: int) -> tuple[int, int]:
    """A place and a speed after the walls at 0 and `most`."""
    if place < 0:
        return -place, -speed
    if place > most:
        return 2 * most - place, -speed
    return place, speed


class Films(Source):
    """Films of a world in an order of a seed, each a document."""

    def __init__(self, world: World, *, films: int | None, seed: int) -> None:
        self.world, self._seed = world, seed
        self._count = min(len(world.films), films or MOST)

    def documents(self) -> Iterator[Document]:
        order = np.random.Generator(np.random.Philox(key=self._seed)).permutation(len(self.world.films))
        for number, chosen in enumerate(order[: self._count].tolist()):
            yield Document(f"film {number}", iter([as_text(self.world.films[chosen])]))

    def describe(self) -> dict[str, Any]:
        return {"kind": "bouncing-ball", "films": self._count, "seed": self._seed}


class WorldConfig(PixelsConfig):
    """What a world of the bouncing ball is like."""

    rows: int = Field(8, ge=2, le=256)
    """Pixels from top to bottom."""
    columns: int = Field(8, ge=2, le=256)
    """Pixels from left to right."""
    frames: int = Field(5, ge=1, le=1024)
    """Frames of a film."""
    ball: int = Field(2, ge=1, le=64)
    """Width and height of the ball."""
    speed: int = Field(2, ge=1, le=64)
    """The most pixels that it moves along each axis between two frames."""
    levels: int = Field(3, ge=2, le=256)
    """Grey levels: 0 is the box; the ball has one of the others."""

    @model_validator(mode="after")
    def _it_fits(self) -> WorldConfig:
        room = min(self.rows, self.columns) - self.ball
        if room < self.speed:
            raise ValueError(
                f"a ball of {self.ball} pixels and speed {self.speed} needs a box of {self.ball + self.speed} × "
                f"{self.ball + self.speed} pixels; this one has {self.rows} × {self.columns}"
            )
        world = self.world
        films = (self.rows * self.columns) * ((2 * self.speed + 1) ** 2 - 1) * (self.levels - 1)
        if films * world.pixels > LARGEST:
            raise ValueError(
                f"such a world has up to {films:,} films of {world.pixels:,} pixels, which are more than "
                f"{LARGEST:,} pixels in all: take a smaller box, fewer frames, levels or speeds"
            )
        return self

    @property
    def world(self) -> World:
        return World(**{name: getattr(self, name) for name in WorldConfig.model_fields})

    def raster(self) -> Raster:
        return Raster(self.rows, self.columns, self.levels, frames=self.frames)


@register("source")
class BouncingBallSource(WorldConfig, PartConfig):
    """Films of a ball that bounces in a box, as pixels row by row; needs no text and no network, and the least loss is
    known."""

    kind: Literal["bouncing-ball"] = "bouncing-ball"
    task: ClassVar[str] = "records"
    films: int | None = Field(None, ge=2, le=MOST)
    """How many; empty: all that there are."""
    seed: int = Field(0, ge=0, le=MOST)
    """Their order."""

    def build(self, report: Report | None = None) -> Films:
        return Films(self.world, films=self.films, seed=self.seed)

    def nats(self, texts: Iterable[str]) -> float:
        """−ln of the probability of documents of this source, in all."""
        world = self.world
        return -math.fsum(map(world.log_probability, texts))

    def least_loss(self, text: Path, tokens: int) -> tuple[float, float]:
        loss = self.nats(text.read_text(encoding="utf-8").splitlines()) / tokens
        return loss, loss
