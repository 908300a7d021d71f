"""Series of numbers as a source: tables become rows of channels, and of covariates that are known in advance."""

from __future__ import annotations

import csv
import math
import re
import unicodedata
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import AfterValidator, Field, field_validator

from octavo.config.parts import PartConfig, register
from octavo.corpus.archives import reason
from octavo.corpus.arrays import read_arrays
from octavo.corpus.documents import Report
from octavo.corpus.files import is_passed_over
from octavo.errors import CorpusError, MissingExtra

# Tables of numbers from files: CSV, TSV, columns parted by white space, Parquet, NPZ. Errors name file and
# line.

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
        """Find the place of a column. Raises CorpusError if it is missing."""
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
            numbers = column.astype(np.float64)
        else:
            numbers = np.array([self._number(cell, name, row) for row, cell in enumerate(column)], np.float64)
        infinite = np.flatnonzero(np.isinf(numbers) | (np.abs(numbers) > np.finfo(np.float32).max))
        if len(infinite):
            raise CorpusError(
                f"{self.path}, {self.place(int(infinite[0]))}: column {name!r} is infinite, or too large for 32 bits.",
                remedy="leave the cell empty where there is no number",
            )
        return numbers

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
        """The cells of a column as text."""
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
    tables: list[Path] = []
    for path in map(Path, paths):
        if path.is_dir():
            inside = (p for p in path.rglob("*") if p.suffix.lower() in SUFFIXES and p.is_file())
            tables += sorted(p for p in inside if not any(map(is_passed_over, p.relative_to(path).parts)))
        elif path.is_file():
            if path.suffix.lower() not in SUFFIXES:
                raise CorpusError(
                    f"{path} is no table that Octavo reads; those end with {', '.join(SUFFIXES)}."
                )
            tables.append(path)
        else:
            raise CorpusError(f"There is no file or folder {path}.")
    if not tables:
        raise CorpusError(f"There is no table in {_listed([str(path) for path in paths])}.")
    return list(dict.fromkeys(tables))


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


LONGEST_GAP = 10_000
"""Rows that are filled in where times jump; across a longer jump a series is cut in two."""

MOST_TURNS = 3
"""Times that a person may come back, in the mean, for less than two rows."""

LOST = 0.25
"""What a number may change by when it becomes one of 32 bits, as a share of its column's mean step that is one."""

FAST = 0.5
"""A row that comes after less than this share of the usual step is faster than the others."""
UNITS = (1, 1e3, 1e6, 1e9, 60, 3600, 86_400)
"""Of times, in seconds or as so many a second, minutes, hours and days."""
NEAR = 0.05
"""What the times' rate may differ by from `corpus.rate`, as a share."""

CODES = np.array(
    [float(f"{'9' * whole}.{'9' * parts}") for whole in range(2, 10) for parts in range(3)]
    + [float(2**bits - less) for bits in (15, 16, 31, 32) for less in (0, 1)]
)
"""What devices write for a number that is missing, or minus that."""
LEAST_ROWS = 20
"""Of a column that odd numbers are looked for in."""
ABSURD = 1000
"""How many times as far from the middle as nine tenths of its column a number must be to be absurd."""

_DESCRIBED = 100  # files that a manifest lists


@dataclass(frozen=True)
class Series:
    """Rows at even times.

    Attributes:
        name: what messages call it.
        person: whose it is: nobody's series are split between training and validation.
        rows: float32 (N, D), channels first, then covariates; NaN where a number is missing.
    """

    name: str
    person: str
    rows: np.ndarray


@dataclass(frozen=True)
class Suggested:
    """Persons that the names of files suggest.

    Attributes:
        of: each `Series.person`, and who that may be.
        pattern: a value of `corpus.pattern` that says so.
    """

    of: dict[str, str]
    pattern: str


class SeriesSource(ABC):
    """Where series come from.

    Attributes:
        channels: names of what is predicted.
        covariates: names of what is known in advance, the last columns of the rows.
        rate: rows a second, if that is known.
    """

    channels: tuple[str, ...]
    covariates: tuple[str, ...] = ()
    rate: float | None = None

    @abstractmethod
    def series(self) -> Iterator[Series]:
        """All series, in an order that never changes. Raises CorpusError."""

    @abstractmethod
    def describe(self) -> dict[str, Any]:
        """What a run's manifest says about the source, as JSON values."""

    def suggested_persons(self) -> Suggested | None:
        """Whose the series may be by the names of their files; None where that is told, or nothing suggests it."""
        return None

    def log_density(self, rows: np.ndarray) -> np.ndarray | None:
        """Log of the true density of each row of a series (N, D) given those before it, (N,); None if nobody knows."""
        return None


def told_apart(files: Sequence[Path]) -> dict[Path, str]:
    """A name for each file, without its ending: its own, or with as many of its folders as tell namesakes apart, so
    that it is the same wherever they all lie."""
    names, left, depth = {}, list(files), 1
    while left:
        called = {path: "/".join(path.with_suffix("").parts[-depth:]) for path in left}
        times = Counter(called.values())
        deeper = any(len(path.parts) > depth for path in left)
        names |= {path: name for path, name in called.items() if times[name] == 1 or not deeper}
        left, depth = [path for path in left if path not in names], depth + 1
    return names


_TAGS = tuple(rf"[A-Za-z]+{parted}\d+|[A-Za-z]+|\d+" for parted in ("[-_ ]?", ""))
"""S_01 as one tag, and as two."""
_PERSON = re.compile(
    r"(s|p|vp|id|sub|subj|subject|part|participant|pers|person|pat|patient|proband|user|sujet)[-_ ]?\d+", re.I
)
_DEEPEST = 4  # folders above a file whose names are looked at


@dataclass
class Odd:
    """A number that hardly is one: how often it stands there, and the range of the others where it was seen first."""

    place: str
    low: float
    high: float
    times: int = 0


def odd_numbers(numbers: np.ndarray) -> tuple[dict[float, np.ndarray], np.ndarray]:
    """Rows of a column (N,) that hold what looks like a code for missing numbers, by code, which stand there twice or
    more and farther from all others than these from one another; and rows with other numbers that are absurd."""
    known = np.flatnonzero(~np.isnan(numbers))
    if len(known) < LEAST_ROWS:
        return {}, known[:0]
    held = numbers[known]
    away = np.abs(held - np.median(held))
    usual = np.quantile(away, 0.9)
    absurd = (away > ABSURD * usual) & (usual > 0)
    like_codes = np.isin(np.abs(held), CODES)
    others = held[~absurd & ~like_codes]
    if not len(others):
        return {}, known[absurd]
    low, high = others.min(), others.max()
    codes = {}
    for value, count in zip(*np.unique(held[like_codes], return_counts=True), strict=True):
        if count > 1 and max(low - value, value - high) > high - low > 0:
            codes[float(value)] = known[held == value]
    return codes, known[absurd & ~np.isin(held, list(codes))]


def suggested_persons(files: Sequence[Path]) -> Suggested | None:
    """Persons by a folder or by a tag in the files' names: one that is called as persons are (S01, sub-3), or whose
    files are called alike (ann_1, ann_2, bo_1, bo_2)."""
    called = told_apart(files)
    weaker = None
    for parts, pattern in (*_folders(files), *_tags(files)):
        groups = [group for group, _ in parts]
        rests = Counter(rest for _, rest in dict.fromkeys(parts))
        several = 1 < len(set(groups)) < len(files)
        if not several or not all(groups):
            continue
        suggestion = Suggested(
            {called[path]: group for path, group in zip(files, groups, strict=True)}, pattern
        )
        if all(map(_PERSON.fullmatch, groups)):
            return suggestion
        if weaker is None and rests.most_common(1)[0][1] > 1:
            weaker = suggestion
    return weaker


def _folders(files: Sequence[Path]) -> Iterator[tuple[list[tuple[str, str]], str]]:
    """For each level of folders above the files: its name and the rest of each path, and the pattern that finds it."""
    for depth in range(1, _DEEPEST + 1):
        if any(len(path.parts) <= depth for path in files):
            return
        parts = [(path.parts[-1 - depth], "/".join(path.parts[-depth:])) for path in files]
        yield parts, "(?P<person>[^/]+)" + "/[^/]+" * depth + "$"


def _tags(files: Sequence[Path]) -> Iterator[tuple[list[tuple[str, str]], str]]:
    """The same for the first tags in the files' names."""
    for tag in _TAGS:
        found = [re.findall(tag, path.stem) for path in files]
        for at in range(min(map(len, found))):
            heads = {tags[at].rstrip("0123456789") for tags in found}
            if len(heads) == 1 and all(tags[at][-1].isdigit() for tags in found):
                pattern = rf"(?P<person>{heads.pop()}\d+)"
            elif at == 0:
                pattern = f"^(?P<person>{tag})"
            else:
                continue
            yield [(own[at], " ".join((*own[:at], *own[at + 1 :]))) for own in found], pattern


_NUMBER = re.compile(r"(?<![\d.])0*(\d+)(?:\.0+)?(?![\d.])")


def alike(persons: Iterable[str]) -> list[list[str]]:
    """Names that differ in case, spaces, hyphens or the form of a number alone, which may be one person's."""
    groups: dict[str, list[str]] = {}
    for name in sorted(set(persons)):
        bare = _NUMBER.sub(r"\1", unicodedata.normalize("NFKC", name).casefold())
        bare = re.sub(r"(?<!\d)[\s_-]+|[\s_-]+(?!\d)", "", bare)
        groups.setdefault(bare, []).append(name)
    return [names for names in groups.values() if len(names) > 1]


class TableSeries(SeriesSource):
    """Files of tables, each one series or several."""

    def __init__(self, config: SeriesConfig, report: Report) -> None:
        self._config, self._report = config, report
        self._files = find_tables(config.paths)
        self._names = Counter(path.name for path in self._files)
        self._people = told_apart(self._files)
        self.covariates, self.rate = config.covariates, config.rate
        self.channels = config.channels or self._all_columns(read_table(self._files[0]))

    def _all_columns(self, table: Table) -> tuple[str, ...]:
        if strangers := [name for name in self._config.without if name not in table.names]:
            raise CorpusError(
                f"{table.path} has no column {listed(list(map(repr, strangers)))}, so corpus.without leaves out "
                f"nothing by that name; it has {listed(list(map(repr, table.names)), 12)}."
            )
        others = self._others
        columns = tuple(name for name in table.names if name not in others)
        if not columns:
            raise CorpusError(f"{table.path} has no column left to predict.")
        return columns

    @property
    def _others(self) -> set[str | None]:
        """Columns that are not predicted."""
        return {*self.covariates, *self._config.without, self._config.person, self._config.time}

    def describe(self) -> dict[str, Any]:
        return {
            "kind": "series",
            "paths": list(self._config.paths),
            "files": [path.name for path in self._files[:_DESCRIBED]],
            "more_files": max(0, len(self._files) - _DESCRIBED),
        }

    def suggested_persons(self) -> Suggested | None:
        named = self._config.person or "(?P<person>" in (self._config.pattern or "")
        return None if named else suggested_persons(self._files)

    def series(self) -> Iterator[Series]:
        odd: dict[tuple[str, float | None], Odd] = {}
        later: dict[str, Path] = {}
        for path in self._files:
            table = read_table(path)
            if table.note:
                self._report(table.note)
            if not self._config.channels:
                later |= {
                    name: path for name in table.names if name not in {*self.channels, *self._others, *later}
                }
            named = self._from_name(path)
            columns = [table.numbers(name) for name in self.channels]
            for name in self.covariates:
                inside = name in table.names
                columns.append(
                    table.numbers(name) if inside else np.full(table.rows, self._number(path, named, name))
                )
            whole = np.stack(columns, axis=1)
            whole[np.isin(whole, self._config.missing)] = np.nan
            ordinary = self._note_odd(table, whole, odd)
            rows = self._in_32_bits(table, whole, ordinary)
            for begin, end, person in self._pieces(table, named):
                file = path.name if self._names[path.name] == 1 else str(path)
                name = file if (begin, end) == (0, table.rows) else f"{file} from {table.place(begin)}"
                yield from self._even(table, Series(name, person, rows[begin:end]), begin)
        self._report_odd(odd)
        for name, path in later.items():
            self._report(
                f"column {name!r} of {path} is not in {self._files[0]}, whose columns are taken, and is left out"
            )

    def _note_odd(
        self, table: Table, rows: np.ndarray, odd: dict[tuple[str, float | None], Odd]
    ) -> np.ndarray:
        """Add a table's odd numbers, those that are absurd under None. Returns which of the rows' others are known."""
        ordinary = ~np.isnan(rows)
        for at, (column, name) in enumerate(zip(rows.T, (*self.channels, *self.covariates), strict=True)):
            codes, absurd = odd_numbers(column)
            strange = np.concatenate([absurd, *codes.values()]).astype(np.int64)
            ordinary[strange, at] = False
            others = column[ordinary[:, at]]
            for value, where in [*codes.items(), *([(None, absurd)] if len(absurd) else [])]:
                place = f"{column[where[0]]:g} in {table.path}, {table.place(int(where[0]))}"
                seen = odd.setdefault((name, value), Odd(place, others.min(), others.max()))
                seen.times += len(where)
        return ordinary

    def _report_odd(self, odd: dict[tuple[str, float | None], Odd]) -> None:
        for (name, value), seen in odd.items():
            times = "" if seen.times == 1 else f", the first of {seen.times:,}"
            what = "an absurd number" if value is None else "what looks like a code for missing numbers"
            remedy = (
                "leave such a cell empty" if value is None else f"if it is one: 'corpus.missing=[{value:g}]'"
            )
            self._report(
                f"column {name!r} holds {what}, {seen.place}{times} (the others: {seen.low:g} to {seen.high:g}); "
                f"{remedy}"
            )

    def _in_32_bits(self, table: Table, rows: np.ndarray, ordinary: np.ndarray) -> np.ndarray:
        """Rows as float32. CorpusError where the steps of a column's `ordinary` numbers are lost in them."""
        narrow = rows.astype(np.float32)
        for place, name in enumerate((*self.channels, *self.covariates)):
            known = ordinary[:, place]
            held = rows[known, place]
            lost = np.abs(narrow[known, place] - held).max(initial=0.0)
            steps = np.abs(np.diff(held))
            step = steps[steps > 0].mean() if steps.any() else 0.0
            if step and lost > LOST * step:
                raise CorpusError(
                    f"{table.path}: the numbers of {name!r} change by {step:.3g} from one to the next, and are so "
                    f"large (up to {np.abs(held).max():.6g}) that 32 bits miss them by up to {lost:.3g}.",
                    remedy=f"take a constant away from {name!r}; or, if it is a clock, corpus.time={name}",
                )
        return narrow

    def _from_name(self, path: Path) -> dict[str, str]:
        if self._config.pattern is None:
            return {}
        for depth in range(1, len(path.parts) + 1):  # the nearest folder that fits
            if match := re.search(self._config.pattern, "/".join(path.parts[-depth:])):
                return match.groupdict()
        raise CorpusError(
            f"The path {path} does not fit corpus.pattern={self._config.pattern!r}.",
            remedy="leave the file out, or another pattern",
        )

    def _number(self, path: Path, named: dict[str, str], name: str) -> float:
        try:
            return float(named[name])
        except KeyError:
            raise CorpusError(
                f"{path} has no column {name!r}, and corpus.pattern finds none in its path."
            ) from None
        except (TypeError, ValueError):
            raise CorpusError(
                f"{path}: corpus.pattern finds {name}={named[name]!r}, which is no number."
            ) from None

    def _pieces(self, table: Table, named: dict[str, str]) -> Iterator[tuple[int, int, str]]:
        """Where each person's rows begin and end, and who that is."""
        if self._config.person is None:
            yield 0, table.rows, named.get("person") or self._people[table.path]
            return
        people = table.words(self._config.person)
        self._refuse_mixed(table, people)
        begin = 0
        for row in range(1, len(people) + 1):
            if row == len(people) or people[row] != people[begin]:
                if not people[begin]:
                    raise CorpusError(
                        f"{table.path}, {table.place(begin)}: nobody stands in {self._config.person!r}."
                    )
                yield begin, row, people[begin]
                begin = row

    def _refuse_mixed(self, table: Table, people: list[str]) -> None:
        """Raise CorpusError where rows of several persons take turns: then they are no series."""
        turns = [row for row in range(1, len(people)) if people[row] != people[row - 1]]
        if len(people) < 2 * len(turns) and len(turns) > MOST_TURNS * len(set(people)):
            raise CorpusError(
                f"{table.path}, {table.place(turns[0])}: persons take turns from row to row ({len(turns):,} times in "
                f"{len(people):,} rows); a series is rows that stand below one another.",
                remedy=f"sort the table by {self._config.person!r}, and then by time",
            )

    def _even(self, table: Table, found: Series, begin: int) -> Iterator[Series]:
        """The series with rows of NaN where its times jump."""
        if self._config.time is None or len(found.rows) < 3:
            yield found
            return
        times = table.numbers(self._config.time)[begin : begin + len(found.rows)]
        steps = np.diff(times)
        wrong = np.flatnonzero(~(steps > 0))
        if len(wrong):
            place = table.place(begin + int(wrong[0]) + 1)
            raise CorpusError(
                f"{table.path}, {place}: the time {self._config.time!r} is missing, or does not increase.",
                remedy="sort the rows, or leave corpus.time out",
            )
        self._compare_rate(found.name, steps)
        usual = float(np.median(steps))
        if len(fast := np.flatnonzero(steps < FAST * usual)):
            place = table.place(begin + int(fast[0]) + 1)
            self._report(
                f"{found.name}: {len(fast):,} rows come after less than half of the usual step of {usual:g}, the first "
                f"in {place}; they count as one step apart all the same"
            )
        missing = np.round(np.minimum(steps / np.median(steps), 1e12)).astype(np.int64) - 1
        yield from _filled(found, missing)
        if (missing > 0).any():
            at = begin + int(np.flatnonzero(missing > 0)[0]) + 1
            self._report(
                f"{found.name}: {int((missing > 0).sum()):,} gaps in time, {int(missing.clip(0).sum()):,} rows long "
                f"in all, the first before {table.place(at)}; nothing is predicted there"
            )

    def _compare_rate(self, name: str, steps: np.ndarray) -> None:
        """Say where the times' rate is another one than `corpus.rate`, in whatever unit they are."""
        usual = float(np.median(steps))
        if self.rate is None or usual == 1:  # 1: they may count rows
            return
        if all(abs(self.rate * usual / unit - 1) > NEAR for unit in (*UNITS, *(1 / unit for unit in UNITS))):
            self._report(
                f"{name}: by its times there are {1 / usual:g} rows a second, if these are seconds, and corpus.rate "
                f"says {self.rate:g}"
            )


def _filled(found: Series, missing: np.ndarray) -> Iterator[Series]:
    """The series with so many rows of NaN after each row; cut where a gap is too long."""
    pieces, first = [found.rows[:1]], 1
    part = 1
    for row, gap in enumerate(missing.tolist(), 1):
        if gap > 0:
            pieces.append(found.rows[first:row])
            first = row
            if gap > LONGEST_GAP:
                yield Series(f"{found.name}, part {part}", found.person, np.concatenate(pieces))
                pieces, part = [], part + 1
            else:
                pieces.append(np.full((gap, found.rows.shape[1]), np.nan, np.float32))
    pieces.append(found.rows[first:])
    name = found.name if part == 1 else f"{found.name}, part {part}"
    yield Series(name, found.person, np.concatenate(pieces))


def _compiles(pattern: str | None) -> str | None:
    if pattern is not None:
        try:
            re.compile(pattern)
        except re.error as error:
            raise ValueError(f"{pattern!r} is no regular expression: {error}") from error
    return pattern


class SeriesSourceConfig(PartConfig):
    """Base of the sources of numbers."""

    task: ClassVar[str] = "forecast"
    in_files: ClassVar[str] = "series"

    def refuse(self, recipe: Any) -> str | None:
        if recipe.test:
            return f"test={recipe.test:g} is of texts; of series, name persons: corpus.held_out"
        if not recipe.model.takes_vectors:
            return f"corpus={self.kind} gives numbers, and the model reads tokens (model.input)"
        if recipe.training.teachers.somebody:
            return "training.teachers: they predict tokens, and the corpus is one of numbers"
        return None

    held_out: tuple[str, ...] = ()
    """Persons who are kept for validation. Empty: as many as `validation` says, chosen by the hash of their names."""

    @field_validator("held_out", mode="before")
    @classmethod
    def _one_is_a_list(cls, value: Any) -> Any:
        return (value,) if isinstance(value, str) else value


@register("source")
class SeriesConfig(SeriesSourceConfig):
    """Series of numbers in tables: CSV, TSV, columns parted by white space, Parquet, NPZ; each file one series, or as
    many as persons follow one another in it."""

    kind: Literal["series"] = "series"
    paths: tuple[str, ...] = ()
    """Files and folders."""
    channels: tuple[str, ...] = ()
    """Columns that are predicted, in the order in which chained channels see one another. Empty: all that are nothing
    else."""
    covariates: tuple[str, ...] = ()
    """What is known in advance, such as speed or body mass: columns, or groups of `pattern`."""
    without: tuple[str, ...] = ()
    """Columns that are left out where `channels` names none."""
    missing: tuple[Annotated[float, Field(ge=-3.4e38, le=3.4e38)], ...] = ()
    """Numbers that stand for a missing one, such as -9999."""
    time: str | None = None
    """The column with the times: where it jumps, rows are missing. Empty: rows stand at even times."""
    person: str | None = None
    """The column that says whose a row is. Empty: `pattern` finds it in the file's path, and without one each file is
    somebody else's."""
    pattern: Annotated[str | None, AfterValidator(_compiles)] = Field(None, max_length=1000)
    """A regular expression with named groups for the file's name or, where that does not fit, for its path, the nearest
    folders first: (?P<person>…), and a group for each covariate that is no column."""
    rate: float | None = Field(None, gt=0, le=1e9)
    """Rows a second, so that horizons can be told in milliseconds."""

    @field_validator("without", "missing", mode="before")
    @classmethod
    def _one_of_them(cls, value: Any) -> Any:
        return (value,) if isinstance(value, (str, int, float)) else value

    @field_validator("channels", "covariates", "without")
    @classmethod
    def _each_once(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        if len(set(value)) != len(value):
            raise ValueError("a column is named twice")
        return value

    def build(self, report: Report | None = None) -> TableSeries:
        """Raises CorpusError for files without numbers."""
        if self.channels and self.without:
            raise CorpusError(
                "corpus.channels names all that is predicted, so corpus.without has nothing to leave out.",
                remedy="name columns in one of the two",
            )
        both = sorted({*self.channels} & {*self.covariates})
        if both:
            raise CorpusError(f"{both[0]!r} is a channel and a covariate; it can be one of them.")
        return TableSeries(self, report or _silent)


def _silent(sentence: str) -> None:
    """Report to nobody."""


def listed(names: Sequence[str], most: int = 5) -> str:
    """Some names, and how many more."""
    more = f" and {len(names) - most:,} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more
