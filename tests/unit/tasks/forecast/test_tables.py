"""Tables that are damaged, or made to do harm: one sentence, or a table."""

from __future__ import annotations

import io
import random
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from octavo.errors import CorpusError
from octavo.tasks.forecast.source import read_table
from octavo.tasks.records.images import read_npz

ROWS = 40


def npz(**arrays: Any) -> bytes:
    file = io.BytesIO()
    np.savez_compressed(file, **arrays)
    return file.getvalue()


def parquet() -> bytes:
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    file = io.BytesIO()
    columns = {"x": [1.0, None] * ROWS, "long": ["abcdefgh", None] * ROWS, "n": range(2 * ROWS)}
    pq.write_table(pa.table(columns), file, compression="none", use_dictionary=False)
    return file.getvalue()


def lines(mark: str) -> bytes:
    return "".join([f"t{mark}x\n", *(f'{row}{mark}"{row / 3}"\n' for row in range(ROWS))]).encode()


WHOLE = {
    "a.npz": lambda: npz(x=np.arange(ROWS) / 3, n=np.arange(ROWS)),
    "b.npz": lambda: npz(table=np.arange(2 * ROWS).reshape(ROWS, 2) / 3, columns=np.array(["x", "y"])),
    "a.parquet": parquet,
    "a.csv": lambda: lines(","),
    "a.tsv": lambda: lines("\t"),
}


def damaged(whole: bytes, seed: int) -> bytes:
    chance, content = random.Random(seed), bytearray(whole)
    if chance.random() < 0.2:
        return whole[: chance.randrange(len(whole))]
    for _ in range(chance.randint(1, 4)):
        at = chance.randrange(len(content))
        if chance.random() < 0.5:
            content[at] ^= 1 << chance.randrange(8)
        else:
            content[at : at + chance.randint(1, 8)] = chance.randbytes(chance.randint(1, 8))
    return bytes(content)


@pytest.mark.parametrize("name", WHOLE)
def test_whatever_is_damaged_is_a_table_or_one_sentence(name: str, tmp_path: Path) -> None:
    whole, path, refused = WHOLE[name](), tmp_path / name, 0
    for seed in range(300):
        path.write_bytes(damaged(whole, seed))
        try:
            found = read_table(path)
            for column in found.names:
                found.words(column)
                found.numbers(column)
        except CorpusError as error:
            assert str(path) in error.what and "\n" not in error.what
            refused += 1
    assert refused > 150


def header(shape: tuple[int, ...], kind: str = "<f8") -> bytes:
    file = io.BytesIO()
    np.lib.format.write_array_header_1_0(file, {"descr": kind, "fortran_order": False, "shape": shape})
    return file.getvalue()


def zipped(content: bytes) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("images.npy", content)
    return file.getvalue()


def changed(place: int, value: int) -> bytes:
    """A zip of one array, with two bytes changed in its header and in its table of contents (two bytes further)."""
    content = bytearray(zipped(header((3,)) + bytes(24)))
    for at in (place, content.index(b"PK\1\2") + 2 + place):
        content[at : at + 2] = value.to_bytes(2, "little")
    return bytes(content)


@pytest.mark.parametrize(
    "content",
    [
        zipped(header((10**13,))),
        zipped(header((10**13,), "<U0")),
        zipped(header((0, 10**13))),
        zipped(header((10**30,))),
        zipped(header((3,)) + bytes(23)),
        zipped(header((3,)) + bytes(25)),
        zipped(b"no array"),
        zipped(header((3,), "|O") + bytes(24)),
        changed(6, 1),
        changed(8, 99),
    ],
    ids=["huge", "of nothing", "no rows", "beyond", "short", "long", "text", "objects", "locked", "method"],
)
def test_an_npz_file_that_does_not_hold_what_it_says(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "a.npz").write_bytes(content)
    for read in (read_table, lambda path: list(read_npz(path))):
        with pytest.raises(CorpusError, match=r"a\.npz is no NPZ file of plain arrays: .*[^.]\.$"):
            read(tmp_path / "a.npz")


def test_names_of_columns_are_told_apart(tmp_path: Path) -> None:
    (tmp_path / "a.npz").write_bytes(npz(table=np.ones((3, 2)), columns=np.array(["x", "x"])))
    with pytest.raises(CorpusError, match="has a name twice"):
        read_table(tmp_path / "a.npz")
    (tmp_path / "a.npz").write_bytes(npz(table=np.ones((3, 1)), columns=np.array("x")))
    assert read_table(tmp_path / "a.npz").names == ["x"]
