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


FILTERS = 5
"""Of PNG: none, the pixel to the left, the one above, their mean, Paeth's choice."""


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
    return _png(grey, width=grey.shape[1], depth=8, filtering=0)


def smallest_png(image: np.ndarray, levels: int) -> bytes:
    """The levels (H, W) of an image, uint8, as a PNG file of as few bits a pixel as there can be, by that one of
    the filters that makes it smallest."""
    depth = next(bits for bits in (1, 2, 4, 8) if 2**bits >= levels)
    bits = image[:, :, None] >> np.arange(depth - 1, -1, -1, dtype=np.uint8) & 1
    lines = np.packbits(bits.reshape(len(image), -1), axis=1)
    return min(
        (_png(lines, width=image.shape[1], depth=depth, filtering=each) for each in range(FILTERS)), key=len
    )


def _png(lines: np.ndarray, *, width: int, depth: int, filtering: int) -> bytes:
    """From the bytes (H, …) of an image's rows; the filter is the same for all of them."""
    numbers = lines.astype(np.int16)
    left, above = np.pad(numbers, ((0, 0), (1, 0)))[:, :-1], np.pad(numbers, ((1, 0), (0, 0)))[:-1]
    corner = np.pad(above, ((0, 0), (1, 0)))[:, :-1]
    apart = [np.abs(left + above - corner - one) for one in (left, above, corner)]
    nearest = np.choose(np.argmin(apart, axis=0), [left, above, corner])  # Paeth's
    expected = (0, left, above, (left + above) // 2, nearest)[filtering]
    filtered = (numbers - expected).astype(np.uint8)
    rows = np.column_stack((np.full(len(lines), filtering, np.uint8), filtered)).tobytes()

    def chunk(name: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    head = struct.pack(">IIBBBBB", width, len(lines), depth, 0, 0, 0, 0)
    body = chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows, 9)) + chunk(b"IEND", b"")
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
        """Number of pixels of a record."""
        return self.frames * self.rows * self.columns

    def sequence(self, image: np.ndarray) -> np.ndarray:
        """The values (pixels,) of levels (H, W) or (F, H, W) in their order."""
        return image.reshape(self.frames, -1)[:, self.places].ravel()

    def image(self, record: Sequence[int]) -> np.ndarray:
        """The levels (F · H, W) of a record, uint8: its frames, one below the other."""
        film = np.empty((self.frames, self.rows * self.columns), np.uint8)
        film[:, self.places] = np.asarray(record, np.uint8).reshape(self.frames, -1)
        return film.reshape(-1, self.columns)

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
