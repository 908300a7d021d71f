"""Tables of numbers from files: CSV, TSV, columns parted by white space, Parquet, NPZ. Errors name file and line."""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from octavo.corpus.archives import reason
from octavo.corpus.arrays import read_arrays
from octavo.corpus.files import is_passed_over
from octavo.errors import CorpusError, MissingExtra

TEXT = (".csv", ".tsv", ".txt", ".dat", ".tab")
SUFFIXES = (*TEXT, ".parquet", ".npz")
MISSING = frozenset({"", "nan", "na", "n/a", "null", "none", "-"})
"""Cells, in lower case, that say that a number is missing."""

_LONGEST = 100_000  # characters of a cell; less than csv's own limit, which other readers change
_SHOWN = 40  # characters of a wrong cell


@dataclass(frozen=True)
class Table:
    """The columns of a file.

    Attributes:
        names: of the columns.
        cells: a column by its place: numbers, or text as the file has it.
        place: what messages call a row: "line 7".
        head: the line of the names, in a file of text.
        note: what people should hear about how it was read.
    """

    path: Path
    names: list[str]
    cells: Callable[[int], Any]
    place: Callable[[int], str]
    rows: int
    head: int | None = None
    note: str | None = None

    def find(self, name: str) -> int:
        """The place of a column. CorpusError where there is none."""
        single = self.head is not None and len(self.names) == 1
        if name not in self.names and single and set(",;|\t") & set(self.names[0]):
            parted = "tabs" if self.path.suffix.lower() == ".tsv" else "tabs, commas, semicolons or spaces"
            raise CorpusError(
                f"{self.path}, line {self.head} is a single cell, {self.names[0][:_SHOWN]!r}, so there is no "
                f"column {name!r}.",
                remedy=f"part the cells of a {self.path.suffix.lower()} file by {parted}",
            )
        if name not in self.names:
            raise CorpusError(f"{self.path} has no column {name!r}; it has {_listed(self.names)}.")
        return self.names.index(name)

    def numbers(self, name: str) -> np.ndarray:
        """A column as numbers (N,), NaN where one is missing. CorpusError where a cell holds none, or no finite one."""
        column = self.cells(self.find(name))
        if isinstance(column, np.ndarray) and column.dtype.kind in "fiub":
            found = column.astype(np.float64)
        else:
            found = np.array([self._number(cell, name, row) for row, cell in enumerate(column)], np.float64)
        infinite = np.flatnonzero(np.isinf(found) | (np.abs(found) > np.finfo(np.float32).max))
        if len(infinite):
            raise CorpusError(
                f"{self.path}, {self.place(int(infinite[0]))}: column {name!r} is infinite, or too large for 32 bits.",
                remedy="leave the cell empty where there is no number",
            )
        return found

    def _number(self, cell: Any, name: str, row: int) -> float:
        text = "" if cell is None else str(cell).strip()
        if text.lower() in MISSING:
            return math.nan
        try:
            if "_" not in text:  # which Python reads as a part of a number
                return float(text)
        except ValueError:
            pass
        hint = " (with a decimal comma?)" if text.replace(",", "", 1).lstrip("+-").isdigit() else ""
        raise CorpusError(
            f"{self.path}, {self.place(row)}: column {name!r} holds {text[:_SHOWN]!r}, which is no number{hint}.",
            remedy="name the columns that are numbers: 'corpus.channels=[…]', or those that are none: "
            "'corpus.without=[…]'; an empty cell or NaN is a missing number",
        )

    def words(self, name: str) -> list[str]:
        """A column as text."""
        return [
            "" if cell is None or cell != cell else str(cell).strip() for cell in self.cells(self.find(name))
        ]


def read_table(path: Path) -> Table:
    """A file's table. Raises CorpusError (what is wrong, and in which line) or MissingExtra."""
    try:
        if path.suffix.lower() == ".parquet":
            return _parquet(path)
        if path.suffix.lower() == ".npz":
            return _npz(path)
        return _text(path)
    except OSError as error:
        raise CorpusError(f"{path} cannot be read: {error.strerror or error}.") from error


def find_tables(paths: Iterable[str]) -> list[Path]:
    """The tables that paths name: files, and what folders hold of known kinds, by name. CorpusError where none is."""
    found: list[Path] = []
    for path in map(Path, paths):
        if path.is_dir():
            inside = (p for p in path.rglob("*") if p.suffix.lower() in SUFFIXES and p.is_file())
            found += sorted(p for p in inside if not any(map(is_passed_over, p.relative_to(path).parts)))
        elif path.is_file():
            if path.suffix.lower() not in SUFFIXES:
                raise CorpusError(
                    f"{path} is no table that Octavo reads; those end with {', '.join(SUFFIXES)}."
                )
            found.append(path)
        else:
            raise CorpusError(f"There is no file or folder {path}.")
    if not found:
        raise CorpusError(f"There is no table in {_listed([str(path) for path in paths])}.")
    return list(dict.fromkeys(found))


def _text(path: Path) -> Table:
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except UnicodeDecodeError as error:
        raise CorpusError(
            f"{path} is no text in UTF-8 (byte {error.start:,}).", remedy="save the table as UTF-8"
        ) from error
    first = next((number for number, line in enumerate(lines) if line.strip() and line[0] != "#"), None)
    if first is None:
        raise CorpusError(f"{path} is empty.")
    mark = _mark(path, lines[first])
    kept = [
        (n, line) for n, line in enumerate(lines[first:], first + 1) if not _idle(line, lines[first], mark)
    ]
    rows = list(_cells(path, kept, mark))
    head = [cell.strip() for cell in rows[0]]
    titled = not all(_is_number(cell) for cell in head)
    above = None if titled or not first else _title(lines[first - 1], mark, len(head))
    names = head if titled else above or [f"c{number}" for number in range(1, len(head) + 1)]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise CorpusError(f"{path}, line {kept[0][0]}: two columns are called {twice[0]!r}.")
    body, numbers = rows[titled:], [number for number, _ in kept[titled:]]
    for row, number in zip(body, numbers, strict=True):
        if len(row) != len(names):
            cells = "1 cell" if len(row) == 1 else f"{len(row)} cells"
            raise CorpusError(
                f"{path}, line {number}: {cells}, where line {kept[0][0]} has {len(names)} ({_listed(names)}).",
                remedy="as many cells in every line, parted by tabs, commas, semicolons or spaces",
            )
    if not body:
        raise CorpusError(f"{path} has a line of names and nothing under it.")
    columns = list(zip(*body, strict=True))
    note = (
        None if above is None else f"{path}: the comment in line {first} names the columns: {_listed(names)}"
    )
    return Table(
        path, names, columns.__getitem__, lambda row: f"line {numbers[row]}", len(body), kept[0][0], note
    )


def _title(line: str, mark: str | None, columns: int) -> list[str] | None:
    """The names in a comment right above the first row, as numpy.savetxt writes them: one for each column, and no
    number."""
    if not line.startswith("#"):
        return None
    names = [name.strip() for name in line.lstrip("#").strip().split(mark)]
    named = len(names) == columns and len(set(names)) == columns and not any(map(_is_number, names))
    return names if named else None


def _mark(path: Path, first: str) -> str | None:
    """What parts the cells of the first line; None: spaces."""
    marks = "\t,;" if path.suffix.lower() != ".tsv" else "\t"
    mark = max(marks, key=first.count)
    return mark if mark in first else None


def _idle(line: str, first: str, mark: str | None) -> bool:
    """Whether a line is no row: empty, if not of empty cells, or a comment, which has other cells than the first."""
    if not line.strip():
        return mark is None or mark not in line
    cells, wanted = len(line.split(mark)), len(first.split(mark))
    return line[0] == "#" and (cells != wanted or wanted == 1)


def _cells(path: Path, lines: Sequence[tuple[int, str]], mark: str | None) -> Iterator[list[str]]:
    """The cells of each line. No cell goes on in the next line."""
    for number, line in lines:
        longest = max(map(len, line.split(mark)))
        if longest > _LONGEST:
            raise CorpusError(
                f"{path}, line {number} has a cell of {longest:,} characters; no number is so long."
            )
        try:
            yield line.split() if mark is None else next(csv.reader([line], delimiter=mark, strict=True))
        except csv.Error as error:
            raise CorpusError(
                f"{path}, line {number} has cells that cannot be told apart: {error}.",
                remedy="check the quotation marks there; a cell ends in its own line",
            ) from error


def _parquet(path: Path) -> Table:
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as error:
        raise MissingExtra("pyarrow", "data", "Reading Parquet") from error

    @contextmanager
    def reading() -> Iterator[None]:
        try:
            yield
        except Exception as error:  # whatever a damaged file leads the library to
            raise CorpusError(f"{path} is no Parquet file that can be read: {reason(error)}.") from error

    def cells(place: int) -> Sequence[Any]:
        with reading():
            column = table.column(place)
            plain = pa.types.is_integer(column.type) or pa.types.is_floating(column.type)
            if plain and not column.null_count:
                return column.to_numpy()
            return column.to_pylist()

    with path.open("rb") as file, reading():
        table = pq.read_table(file)
        return Table(path, list(table.column_names), cells, lambda row: f"row {row + 1}", table.num_rows)


def _npz(path: Path) -> Table:
    """One-dimensional arrays of one length are columns by their names; one of two dimensions is a table, whose columns
    an array of text `columns` may name."""
    arrays = read_arrays(path)
    named = arrays.pop("columns", None)
    columns: dict[str, np.ndarray] = {}
    for name, array in arrays.items():
        if array.ndim == 1:
            columns[name] = array
        elif array.ndim == 2:
            own = [f"{name}{number}" for number in range(1, array.shape[1] + 1)]
            titles = own if named is None or len(arrays) > 1 else [str(title) for title in named.ravel()]
            if len(titles) != array.shape[1]:
                raise CorpusError(f"{path}: 'columns' has {len(titles)} names for {array.shape[1]} columns.")
            if len(set(titles)) != len(titles):
                raise CorpusError(f"{path}: 'columns' has a name twice: {_listed(titles)}.")
            columns |= {title: array[:, place] for place, title in enumerate(titles)}
        else:
            raise CorpusError(
                f"{path}: the array {name!r} has {array.ndim} dimensions; a column has 1, a table 2."
            )
    lengths = {name: len(column) for name, column in columns.items()}
    if len(set(lengths.values())) != 1:
        raise CorpusError(f"{path}: its columns are not of one length: {lengths or 'there are none'}.")
    held = list(columns.values())
    return Table(path, list(columns), lambda place: held[place], lambda row: f"row {row + 1}", len(held[0]))


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return cell.lower() in MISSING
    return True


def _listed(names: Sequence[str], most: int = 12) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(repr(name) for name in names[:most]) + more
