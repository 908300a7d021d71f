"""Nats per record, and baselines that know where in a record they are."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from octavo.data import Split
from octavo.tasks.records.metrics import factorised, packed, per_record, record_baselines
from octavo.tasks.records.pixels import Raster, smallest_png


def split(*records: list[int]) -> Split:
    tokens = np.array([token for record in records for token in record], np.uint8)
    lengths = [len(record) for record in records]
    starts = np.array([sum(lengths[:at]) for at in range(len(lengths))], np.uint64)
    return Split(tokens, starts, 4 * len(tokens), 0, len(records), Path("none"))


def test_a_record_s_nats_and_bits() -> None:
    found = per_record(split([0, 1, 2], [1, 1, 2]), 0.7)
    assert (found.records, found.symbols) == (2, 2)
    assert found.nats == pytest.approx(2.1)
    assert found.bits_per_symbol == pytest.approx(2.1 / 2 / math.log(2))


def test_each_place_on_its_own() -> None:
    train, validation = split([0, 1, 2], [0, 0, 2], [1, 1, 2]), split([0, 1, 2])
    by_hand = (
        -(math.log(3 / 6) + math.log(3 / 6) + math.log(4 / 6)) / 3
    )  # counts and one more, of three symbols
    assert factorised(train, validation, vocab_size=3) == pytest.approx(by_hand)
    assert factorised(train, split([0, 2]), vocab_size=3) is None
    found = record_baselines(train, validation, vocab_size=3)
    assert found["factorised"].bits_per_byte == pytest.approx(by_hand * 3 / math.log(2) / 12)
    assert set(record_baselines(train, split([0, 2]), vocab_size=3)) == {"gzip_symbols"}


def test_gzip_of_symbols() -> None:
    import gzip

    one = split(*[[at % 5, at % 3, 7] for at in range(400)])
    size = len(gzip.compress(one.tokens.tobytes(), 9, mtime=0))
    assert packed(one) == pytest.approx(size * 8 * math.log(2) / 1200)


def test_png_files_of_records(tmp_path: Path) -> None:
    """As Octavo writes them, one a record."""
    images = np.random.default_rng(0).integers(0, 2, (3, 4, 5)).astype(np.uint8)
    lines = [" ".join(map(str, image.ravel().tolist())) for image in images]
    (tmp_path / "text").write_text("\n".join(lines) + "\n")
    one = replace(split(*[[*image.ravel().tolist(), 2] for image in images]), text_file=tmp_path / "text")
    size = sum(len(smallest_png(image, 2)) for image in images)
    found = record_baselines(one, one, vocab_size=3, raster=Raster(4, 5, 2))
    assert found["png"].loss == pytest.approx(size * 8 * math.log(2) / 63)
    assert "png" not in record_baselines(one, one, vocab_size=3)
