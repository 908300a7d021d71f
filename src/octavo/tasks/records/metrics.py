"""What records add to the figures: nats per record, and simple predictors that know where in a record they are."""

from __future__ import annotations

import math
import zlib
from dataclasses import dataclass

import numpy as np

from octavo.data import Split
from octavo.evaluation.result import Baseline, Baselines
from octavo.tasks.records.pixels import Raster, numbers_of, smallest_png


@dataclass(frozen=True)
class PerRecord:
    """A mean loss by record.

    Attributes:
        records: how many.
        symbols: of one, without its end.
        nats: of one, with its end.
        bits_per_symbol: None of empty records.
    """

    records: int
    symbols: float
    nats: float
    bits_per_symbol: float | None


def per_record(split: Split, loss: float) -> PerRecord:
    """A mean loss in nats per token as nats per record, its end included, and bits per symbol, which the end is none
    of."""
    nats, symbols = loss * len(split.tokens) / split.documents, len(split.tokens) / split.documents - 1
    bits = nats / symbols / math.log(2) if symbols else None
    return PerRecord(split.documents, symbols, nats, bits)


def factorised(train: Split, validation: Split, *, vocab_size: int) -> float | None:
    """Nats per token when each place of a record has a distribution of its own, whatever stands elsewhere; every count
    starts at one (Laplace). None where the records are not all of one length."""
    lengths = {
        int(length)
        for split in (train, validation)
        for length in np.diff(np.append(split.starts.astype(np.int64), len(split.tokens)))
    }
    if len(lengths) != 1:
        return None
    length = lengths.pop()
    places = np.arange(length)
    counts = np.ones((length, vocab_size))
    np.add.at(counts, (np.tile(places, train.documents), np.asarray(train.tokens)), 1.0)
    nats = -np.log(counts / counts.sum(axis=1, keepdims=True))
    return float(nats[np.tile(places, validation.documents), np.asarray(validation.tokens)].mean())


def packed(split: Split) -> float:
    """Nats per token of gzip −9 over all symbols of a split, in as many bytes each as the largest id takes."""
    compressor = zlib.compressobj(9, zlib.DEFLATED, 31)
    size = sum(
        len(compressor.compress(np.asarray(split.tokens[at : at + (1 << 20)]).tobytes()))
        for at in range(0, len(split.tokens), 1 << 20)
    )
    return (size + len(compressor.flush())) * 8 * math.log(2) / len(split.tokens)


def as_images(split: Split, raster: Raster) -> float:
    """Nats per token of a split's records as PNG files, each by itself."""
    lines = split.text_path.read_text(encoding="utf-8").splitlines()
    size = sum(len(smallest_png(raster.image(numbers_of(line)), raster.levels)) for line in lines)
    return size * 8 * math.log(2) / len(split.tokens)


def record_baselines(
    train: Split, validation: Split, *, vocab_size: int, raster: Raster | None = None
) -> Baselines:
    """Predictors that know where in a record they are. `raster`: how records are images."""
    losses = {
        "factorised": factorised(train, validation, vocab_size=vocab_size),
        "gzip_symbols": packed(validation),
        "png": None if raster is None else as_images(validation, raster),
    }
    scale = len(validation.tokens) / math.log(2) / validation.bytes
    return {name: Baseline(loss, loss * scale) for name, loss in losses.items() if loss is not None}
