"""Images as sequences: grey levels, the order in which pixels follow each other, and PNG files of what comes out."""

from __future__ import annotations

import struct
import zlib
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np

from octavo.config.parts import Strict

Order = Literal["raster", "hilbert"]

GREY, WHITE = 256, 255
GAP = 128
"""Between the frames of a film, and where a record has no pixels."""


def as_text(values: np.ndarray) -> str:
    """Numbers with a space between."""
    return " ".join(map(str, values.tolist()))


def quantised(grey: np.ndarray, *, levels: int, threshold: int) -> np.ndarray:
    """Grey values 0 to 255 as levels 0 to levels − 1 of equal width; two levels meet at the threshold."""
    if levels == 2:
        return (grey >= threshold).astype(np.uint8)
    return (grey.astype(np.int64) * levels // GREY).astype(np.uint8)


def walk(rows: int, columns: int, order: Order) -> np.ndarray:
    """The place, counted row by row, of each pixel in the order in which they follow each other, (rows · columns,).

    `hilbert` is Hilbert's curve through the smallest square of a power of two that holds the image; what lies outside
    is left out, so only in such a square is each pixel next to the one before (Hilbert 1891).
    """
    if order == "raster":
        return np.arange(rows * columns)
    side = 1 << (max(rows, columns) - 1).bit_length()
    left = np.arange(side * side)
    row, column = np.zeros_like(left), np.zeros_like(left)
    size = 1
    while size < side:
        right = left // 2 & 1
        down = (left ^ right) & 1
        turned = down == 0
        flipped = turned & (right == 1)
        row[flipped], column[flipped] = size - 1 - row[flipped], size - 1 - column[flipped]
        row[turned], column[turned] = column[turned], row[turned]
        row, column = row + size * down, column + size * right
        left, size = left // 4, size * 2
    inside = (row < rows) & (column < columns)
    return row[inside] * columns + column[inside]


def png(grey: np.ndarray) -> bytes:
    """An image (H, W), uint8, as a PNG file without anything else in it."""
    height, width = grey.shape
    lines = np.column_stack((np.zeros(height, np.uint8), grey)).tobytes()  # each begins with its filter: none

    def chunk(name: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    head = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    body = chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(lines, 9)) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + body


@dataclass(frozen=True)
class Raster:
    """How records are images: their size, their frames if they are films, grey levels, and the order of pixels."""

    rows: int
    columns: int
    levels: int
    frames: int = 1
    order: Order = "raster"

    @cached_property
    def places(self) -> np.ndarray:
        """Of the pixels of a frame, see `walk`."""
        return walk(self.rows, self.columns, self.order)

    @property
    def pixels(self) -> int:
        """Of a record."""
        return self.frames * self.rows * self.columns

    def sequence(self, image: np.ndarray) -> np.ndarray:
        """The values (pixels,) of levels (H, W) or (F, H, W) in their order."""
        return image.reshape(self.frames, -1)[:, self.places].ravel()

    def grey(self, record: Sequence[int]) -> np.ndarray:
        """The image (H, W) of a record for the eye, uint8: 0 is black; frames stand side by side. Pixels that a record
        lacks are grey."""
        shades = np.full(self.pixels, GAP, np.uint8)
        known = np.clip(np.asarray(record[: self.pixels], np.int64), 0, self.levels - 1)
        shades[: len(known)] = known * WHITE // max(1, self.levels - 1)
        film = np.empty((self.frames, self.rows * self.columns), np.uint8)
        film[:, self.places] = shades.reshape(self.frames, -1)
        gap = np.full((self.rows, 1), GAP, np.uint8)
        frames = [part for frame in film for part in (gap, frame.reshape(self.rows, self.columns))]
        return np.hstack(frames[1:])


def numbers_of(text: str) -> list[int]:
    """A record's pixels from its text; what is no number is left out."""
    return [int(word) for word in text.split() if word.isascii() and word.isdecimal() and len(word) < 10]


class PixelsConfig(Strict):
    """Base of sources whose records are images."""

    @abstractmethod
    def raster(self) -> Raster | None:
        """How they are images; None where that is not known any more."""
