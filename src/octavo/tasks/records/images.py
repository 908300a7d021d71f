"""Images as a source of records: folders of PNG files, NPZ files, and IDX files, which is what MNIST comes in."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable, Iterator
from itertools import count
from math import prod
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import Field, field_validator

from octavo.config.parts import FilePath, PartConfig, register
from octavo.corpus.arrays import read_arrays
from octavo.corpus.documents import Document, Report, Source
from octavo.corpus.files import is_passed_over
from octavo.errors import CorpusError, InputError, MissingExtra, OctavoError
from octavo.tasks.forecast.source import listed
from octavo.tasks.records.pixels import GREY, Order, PixelsConfig, Raster, as_text, quantised

LARGEST = 2**20
"""Pixels of an image."""

Side = Annotated[int, Field(ge=1, le=LARGEST)]
"""Of an image, in pixels."""
MOST_BYTES = 2**31
"""Of an array in an NPZ file."""

Images = Iterator[tuple[str, np.ndarray]]
"""What each is called, and its grey values (H, W), uint8."""


def read_idx(path: Path) -> Images:
    """The images of an IDX file (LeCun's format), which may be packed by gzip; one after the other."""
    with path.open("rb") as file:
        packed = file.read(2) == b"\x1f\x8b"
    with gzip.open(path) if packed else path.open("rb") as file:
        try:
            head = file.read(16)
            kind, *sizes = (int.from_bytes(head[at : at + 4], "big") for at in range(0, 16, 4))
            if kind == 0x801:
                raise CorpusError(f"{path} holds labels, not images.", remedy="give the file of the images")
            if kind != 0x803 or len(head) < 16:
                raise CorpusError(f"{path} is no IDX file of grey images of one byte a pixel.")
            number, rows, columns = sizes
            _refuse_large(str(path), rows, columns)
            for at in range(1, number + 1):
                content = file.read(rows * columns)
                if len(content) < rows * columns:
                    raise CorpusError(f"{path} ends within image {at:,} of {number:,}: it is cut off.")
                yield f"{path}, image {at:,}", np.frombuffer(content, np.uint8).reshape(rows, columns)
            if file.read(1):  # to the end, where a packed file has its checksum
                raise CorpusError(f"{path} goes on after the {number:,} images that it says it has.")
        except (EOFError, OSError, zlib.error) as error:
            raise CorpusError(f"{path} cannot be unpacked: {error}.") from error


def read_npz(path: Path) -> Images:
    """The images of an NPZ file: its array `images`, or the only one with three axes, of whole numbers 0 to 255."""
    arrays = read_arrays(path, MOST_BYTES)
    deep = [name for name, array in arrays.items() if name == "images" or array.ndim == 3]
    name = "images" if "images" in deep else deep[0] if len(deep) == 1 else None
    if name is None:
        raise CorpusError(
            f"{path} has {len(deep)} arrays with three axes: {', '.join(arrays) or 'nothing'}.",
            remedy="call the one with the images 'images'",
        )
    images = arrays[name]
    if images.ndim != 3 or images.dtype.kind not in "iub":
        raise CorpusError(
            f"{path}: '{name}' has shape {images.shape} and numbers of type {images.dtype}.",
            remedy="images × rows × columns of whole numbers 0 to 255",
        )
    _refuse_large(str(path), *images.shape[1:])
    for at, image in enumerate(images, 1):
        if image.size and (image.min() < 0 or image.max() >= GREY):
            wrong = image.min() if image.min() < 0 else image.max()
            raise CorpusError(f"{path}, image {at:,} has the grey value {wrong}; they are 0 to 255.")
        yield f"{path}, image {at:,}", image.astype(np.uint8)


def read_png(path: Path) -> Images:
    """A PNG file in grey. Raises MissingExtra without Pillow."""
    try:
        from PIL import Image
    except ImportError as error:
        raise MissingExtra("pillow", "images", "Reading PNG files") from error
    try:
        with Image.open(path, formats=["PNG"]) as image:
            _refuse_large(str(path), image.height, image.width)
            yield str(path), _grey(image)
    except OctavoError:
        raise
    except Exception as error:  # whatever a broken file makes of the library
        raise CorpusError(f"{path} is no PNG file that can be read: {error}.") from error


def _grey(image: Any) -> np.ndarray:
    """Its pixels from 0 to 255: of 16 bits the upper eight, and what is transparent on white."""
    if image.mode.startswith("I"):
        return (np.clip(np.asarray(image, np.int64), 0, 65535) >> 8).astype(np.uint8)
    if image.has_transparency_data:
        from PIL import Image

        seen = image.convert("RGBA")
        image = Image.alpha_composite(Image.new("RGBA", seen.size, "white"), seen)
    return np.asarray(image.convert("L"))


def _refuse_large(name: str, rows: int, columns: int) -> None:
    if not 0 < rows * columns <= LARGEST:
        raise CorpusError(f"{name} has {rows:,} × {columns:,} pixels; an image has 1 to {LARGEST:,}.")


READERS: dict[str, Callable[[Path], Images]] = {".png": read_png, ".npz": read_npz}
"""By ending; all else is taken for IDX."""


class ImageRecords(Source):
    """Every image as a record: its pixels' levels, a number each.

    Args:
        paths: files, and folders whose PNG files are read in the order of their names.
        size: rows and columns; None: those of the first image.
    """

    def __init__(
        self,
        paths: tuple[Path, ...],
        *,
        size: tuple[int, int] | None,
        levels: int,
        threshold: int,
        order: Order,
        report: Report = lambda sentence: None,
    ) -> None:
        self._report, self._reported = report, set[Path]()
        self._paths, self._size, self._order = paths, size, order
        self._levels, self._threshold = levels, threshold

    def _files(self) -> Iterator[Path]:
        for path in self._paths:
            if not path.is_dir():
                if not path.is_file():
                    raise CorpusError(f"{path} does not exist.")
                yield path
                continue
            known = (
                one for one in path.rglob("*") if not any(map(is_passed_over, one.relative_to(path).parts))
            )
            inside = sorted(one for one in known if one.is_file())
            pictures = [one for one in inside if one.suffix.lower() == ".png"]
            if not pictures:
                raise CorpusError(f"{path} holds no PNG files.", remedy="name IDX and NPZ files one by one")
            others = [one.name for one in inside if one.suffix.lower() != ".png"]
            if others and path not in self._reported:
                self._reported.add(path)
                self._report(f"left out, since only the PNG files of a folder are read: {listed(others)}")
            yield from pictures

    def _images(self) -> Images:
        for path in self._files():
            images = None
            for images in READERS.get(path.suffix.lower(), read_idx)(path):
                yield images
            if images is None:
                raise CorpusError(f"{path} holds no images.")

    def raster(self) -> Raster:
        """How the records are images. Raises CorpusError where that takes a file that cannot be read."""
        return self._raster(*(self._size or next(self._images())[1].shape))

    def _raster(self, rows: int, columns: int) -> Raster:
        return Raster(rows, columns, self._levels, order=self._order)

    def documents(self) -> Iterator[Document]:
        raster, first = None, "the recipe"
        if self._size is not None:
            raster = self.raster()
        for name, image in self._images():
            if raster is None:
                raster, first = self._raster(*image.shape), name
            if image.shape != (raster.rows, raster.columns):
                rows, columns = image.shape
                raise CorpusError(
                    f"{name} has {rows} × {columns} pixels, and {first} {raster.rows} × {raster.columns}.",
                    remedy="all images of a corpus have one size: cut them, or leave out what differs",
                )
            levels = quantised(image, levels=self._levels, threshold=self._threshold)
            yield Document(name, iter([as_text(raster.sequence(levels))]), name.partition(", image ")[0])

    def describe(self) -> dict[str, Any]:
        return {"kind": "images", "paths": [str(path) for path in self._paths]}


class Levels(PixelsConfig):
    """What becomes of an image's pixels."""

    in_files: ClassVar[str] = "images"

    order: Order = "raster"
    """raster: row by row; hilbert: along Hilbert's curve, so that neighbours in the record are mostly neighbours in the
    image too."""


@register("source")
class ImagesSource(Levels, PartConfig):
    """Images in grey, each a record of pixels: folders of PNG files (extra: images), NPZ files, IDX files such as
    MNIST's, packed by gzip or not."""

    kind: Literal["images"] = "images"
    task: ClassVar[str] = "records"
    paths: tuple[FilePath, ...] = ()
    """Files and folders."""
    size: tuple[Side, Side] | None = None
    """Rows and columns. Empty: those of the first image."""
    levels: int = Field(256, ge=2, le=GREY)
    """Grey levels that are left of 256; the tokenizer is `symbols` with that size."""
    threshold: int = Field(128, ge=1, le=255)
    """The grey value that two levels meet at: from it on a pixel is 1. More levels are of equal width."""

    @field_validator("paths", mode="before")
    @classmethod
    def _one_path(cls, value: Any) -> Any:
        return (value,) if isinstance(value, str | Path) else value

    @field_validator("size")
    @classmethod
    def _some_pixels(cls, value: tuple[int, int] | None) -> tuple[int, int] | None:
        if value is not None and prod(value) > LARGEST:
            raise ValueError(f"an image has 1 to {LARGEST:,} pixels")
        return value

    def build(self, report: Report | None = None) -> ImageRecords:
        """Make the source; nothing is read yet. Raises CorpusError when no path was given."""
        if not self.paths:
            raise CorpusError("No images were given.", remedy="Name files or folders: --text PATH.")
        return ImageRecords(
            self.paths,
            size=self.size,
            levels=self.levels,
            threshold=self.threshold,
            order=self.order,
            report=report or (lambda sentence: None),
        )

    def raster(self) -> Raster | None:
        try:
            return self.build().raster()
        except (InputError, MissingExtra, StopIteration):
            return None


class DigitRecords(Source):
    """scikit-learn's digits, each a record of 64 pixels."""

    def __init__(self, raster: Raster) -> None:
        self._raster = raster

    def documents(self) -> Iterator[Document]:
        try:
            from sklearn.datasets import load_digits
        except ImportError as error:
            raise MissingExtra("scikit-learn", "digits", "The corpus of digits") from error
        for number, image in zip(count(1), load_digits().images):
            levels = image.astype(np.int64) * self._raster.levels // DEEPEST  # 17 levels in the original
            yield Document(f"digit {number:,}", iter([as_text(self._raster.sequence(levels))]))

    def describe(self) -> dict[str, Any]:
        return {"kind": "digits"}


DEEPEST = 17
"""Grey levels of scikit-learn's digits."""


@register("source")
class DigitsSource(Levels, PartConfig):
    """1,797 handwritten digits of 8 × 8 pixels, which come with scikit-learn (extra: digits)."""

    kind: Literal["digits"] = "digits"
    task: ClassVar[str] = "records"
    levels: int = Field(DEEPEST, ge=2, le=DEEPEST)
    """Grey levels that are left of 17, of equal width."""

    def build(self, report: Report | None = None) -> DigitRecords:
        """Make the source; nothing is read yet."""
        return DigitRecords(self.raster())

    def raster(self) -> Raster:
        return Raster(8, 8, self.levels, order=self.order)
