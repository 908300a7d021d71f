"""The source of documents that are pairs: two parallel files, a table, or JSON lines.

Each document is a source, a line break, and a target; white space inside a side becomes single spaces.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any, BinaryIO, ClassVar, Literal

from pydantic import Field, field_validator

from octavo.config.parts import MOST, PartConfig, SplitBy, register
from octavo.corpus.archives import Budget, members
from octavo.corpus.documents import Document, Report, Source
from octavo.corpus.files import FoundFile, Spool, find_files
from octavo.corpus.formats import decoded, format_of, suffix_of
from octavo.corpus.records.base import sound
from octavo.corpus.records.plain import text_in
from octavo.errors import CorpusError

TABLES, RECORDS = (".tsv", ".tab"), (".jsonl", ".ndjson")
FIELDS = ("source", "target")
_TITLES = re.compile(
    r"[a-z]{2,3}([-_][a-z]{2,4})?|source|target|src|tgt|trg|input|output|text|translation|original|sentence|english|"
    r"german|french|spanish|italian|portuguese|dutch|russian|chinese|japanese|arabic|turkish|polish|czech",
    re.I,
)
"""Cells of a first row that may be names of columns: codes of languages, and their names."""
_COMPRESSED = (".gz", ".bz2", ".xz")
_REMEDY = "Give two parallel files, one .tsv with tabs between columns, or one .jsonl."


@dataclass(frozen=True)
class Pair:
    """A source and its target, as they are read; `place` is what messages call it."""

    source: str
    target: str
    place: str


@dataclass(frozen=True)
class Limits:
    """Which pairs are taken.

    Attributes:
        longest: characters of a side at most.
        ratio: how many times as long as the other a side may be.
    """

    longest: int
    ratio: float

    def refused(self, source: str, target: str) -> str | None:
        """Why a pair is left out, if it is."""
        sizes = sorted((len(source), len(target)))
        if not sizes[0]:
            return "with an empty side"
        if sizes[1] > self.longest:
            return f"longer than {self.longest:,} characters"
        return (
            f"with one side more than {self.ratio:g} times as long"
            if sizes[1] > self.ratio * sizes[0]
            else None
        )


class PairDocuments(Source):
    """Pairs from files.

    Args:
        paths: two parallel files, or one table or file of JSON lines.
        fields: names of the two fields or columns; a number is a column, counted from 1.
        report: hears how many pairs were left out, and why; once.
    """

    def __init__(
        self,
        paths: tuple[str, ...],
        *,
        fields: tuple[str, str],
        limits: Limits,
        encoding: str,
        report: Report,
    ) -> None:
        self._paths, self._fields, self._limits, self._encoding = paths, fields, limits, encoding
        self._report, self._said = report, set[str]()
        self._spool = Spool.of_source()
        self.left_out: Counter[str] = Counter()

    @property
    def total_bytes(self) -> int | None:
        return sum(file.size for file in self._files())

    def describe(self) -> dict[str, Any]:
        return {"kind": "pairs", "paths": list(self._paths), "left_out": dict(self.left_out)}

    def documents(self) -> Iterator[Document]:
        self.left_out = Counter()
        kept = 0
        for pair in read_pairs(self._files(), self._fields, self._encoding, self._say):
            source, target = one_line(pair.source), one_line(pair.target)
            if why := self._limits.refused(source, target):
                self.left_out[why] += 1
                continue
            kept += 1
            yield Document(pair.place, iter([f"{source}\n{target}"]))
        if self.left_out:
            reasons = ", ".join(f"{count:,} {why}" for why, count in sorted(self.left_out.items()))
            if not kept:
                names = " and ".join(file.name for file in self._files())
                raise CorpusError(
                    f"No pair of {names} can be taken: {reasons}.",
                    remedy="see corpus.longest and corpus.ratio, and that each side has text",
                )
            self._say(f"{kept:,} pairs read, {sum(self.left_out.values()):,} left out: {reasons}")

    def _files(self) -> list[FoundFile]:
        return find_files(self._paths, lambda _: True, self._spool, self._say)

    def _say(self, sentence: str) -> None:
        if sentence not in self._said:
            self._said.add(sentence)
            self._report(sentence)


def one_line(text: str) -> str:
    """A side as it stands in a document: single spaces for all white space, none at its ends."""
    return " ".join(text.split())


def read_pairs(
    files: list[FoundFile], fields: tuple[str, str], encoding: str, report: Report
) -> Iterator[Pair]:
    """Every pair of one file, or of two parallel ones, in order.

    Raises:
        CorpusError: files do not fit each other, or a line is no pair; it names the file and the line.
    """
    if len(files) == 2:
        yield from _parallel(files, encoding, report)
        return
    if len(files) != 1:
        raise CorpusError(f"{len(files):,} files were given, and pairs are one file or two.", remedy=_REMEDY)
    name = files[0].name
    suffix = _suffix(name)
    if suffix not in (*TABLES, *RECORDS):
        raise CorpusError(
            f"{name} alone gives no pairs: it is neither a table nor JSON lines.", remedy=_REMEDY
        )
    read: Callable[..., Iterator[Pair]] = _table if suffix in TABLES else _records
    with _lines_of(files[0], encoding, report) as lines:
        yield from read(lines, name, fields, report)


def _suffix(name: str) -> str:
    inner = name.removesuffix(suffix_of(name)) if suffix_of(name) in _COMPRESSED else name
    return suffix_of(inner)


def _parallel(files: list[FoundFile], encoding: str, report: Report) -> Iterator[Pair]:
    first, second = files
    with _lines_of(first, encoding, report) as sources, _lines_of(second, encoding, report) as targets:
        counts = [0, 0]
        for number, (source, target) in enumerate(zip_longest(sources, targets), start=1):
            counts[0] += source is not None
            counts[1] += target is not None
            if source is not None and target is not None:
                yield Pair(source, target, f"{first.name}, line {number}")
        if counts[0] != counts[1]:
            longer = first if counts[0] > counts[1] else second
            raise CorpusError(
                f"{first.name} has {counts[0]:,} lines and {second.name} has {counts[1]:,}: "
                f"line {min(counts) + 1:,} of {longer.name} has no partner.",
                remedy="Parallel files have a line for a line. Look where they go out of step.",
            )


def _table(lines: Iterable[str], name: str, fields: tuple[str, str], report: Report) -> Iterator[Pair]:
    """Rows of a table with tabs; the first may name the columns."""
    at: tuple[int, int] | None = None
    for number, line in enumerate(lines, start=1):
        if not line.strip("\r"):
            continue
        cells = line.rstrip("\r").split("\t")
        if at is None:
            named = all(field in cells for field in fields)
            at = _columns(cells, fields, name)
            first = [cells[place].strip() for place in at if place < len(cells)]
            if not named and len(first) == 2 and first[0] != first[1] and all(map(_TITLES.fullmatch, first)):
                report(
                    f"{name}, line {number:,} is read as a pair, {first[0]!r} and {first[1]!r}; if it names the "
                    f"columns: 'corpus.fields=[{first[0]},{first[1]}]'"
                )
            if named:
                continue
        if max(at) >= len(cells):
            columns = "1 column" if len(cells) == 1 else f"{len(cells)} columns"
            raise CorpusError(
                f"{name}, line {number:,} has {columns}, and column {max(at) + 1} is needed.",
                remedy="Columns are separated by tabs, not by commas, semicolons or spaces.",
            )
        yield Pair(cells[at[0]], cells[at[1]], f"{name}, line {number}")


def _columns(head: list[str], fields: tuple[str, str], name: str) -> tuple[int, int]:
    if all(field in head for field in fields):
        return head.index(fields[0]), head.index(fields[1])
    if fields == FIELDS:
        return 0, 1
    if all(field.isdecimal() and 0 < int(field) <= MOST for field in fields):
        return int(fields[0]) - 1, int(fields[1]) - 1
    raise CorpusError(
        f"{name}, line 1 names no columns '{fields[0]}' and '{fields[1]}'; it has {', '.join(map(repr, head))}.",
        remedy="Give corpus.fields as two names of the first row, or as two numbers of columns, such as [2, 1].",
    )


def _records(lines: Iterable[str], name: str, fields: tuple[str, str], report: Report) -> Iterator[Pair]:
    for number, line in enumerate(lines, start=1):
        if not line or line.isspace():
            continue
        place = f"{name}, line {number}"
        try:
            record = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise CorpusError(
                f"{place} is not JSON: {error}.", remedy="Each line must be one JSON object."
            ) from error
        try:
            source, target = (text_in(record, field, place) for field in fields)
            yield Pair(source, target, place)
        except CorpusError as error:
            remedy = 'Name the two fields with corpus.fields=[…, …], such as ["de", "en"].'
            raise CorpusError(error.what, remedy=remedy) from error


@contextmanager
def _lines_of(file: FoundFile, encoding: str, report: Report) -> Iterator[Iterator[str]]:
    """A file's lines, without their breaks; it may be compressed."""
    try:
        with Path(file.path).open("rb") as opened:
            if (kind := format_of(opened)) in ("gzip", "bzip2", "xz"):
                inner = members(opened, kind, file.name, Budget(file.size), lambda *_: None)
                _, content = next(inner)
                yield _lines(content, file.name, encoding, report)
            else:
                opened.seek(0)
                yield _lines(opened, file.name, encoding, report)
    except OSError as error:
        raise CorpusError(f"{file.name} cannot be read: {error.strerror or error}.") from error


def _lines(file: BinaryIO, name: str, encoding: str, report: Report) -> Iterator[str]:
    held: list[str] = []
    for piece in decoded(file, name, encoding, report):
        *whole, last = piece.split("\n")
        for line in whole:
            yield sound("".join([*held, line]), name)
            held = []
        held.append(last)
    if any(held):
        yield "".join(held)


@register("source")
class PairsSource(PartConfig):
    """Pairs of a source and a target, such as a sentence and its translation: two parallel text files with a line for a
    line, a table (.tsv) or JSON lines."""

    kind: Literal["pairs"] = "pairs"
    splits: ClassVar[tuple[SplitBy, ...]] = (*PartConfig.splits, "sources")
    split_by: ClassVar[SplitBy] = "sources"
    in_files: ClassVar[str] = "pairs"
    paths: tuple[str, ...] = ()
    """Two files, the sources' and the targets', or one .tsv or .jsonl; each may be compressed (.gz)."""
    fields: tuple[str, str] = FIELDS
    """Where source and target stand: names of fields (.jsonl) or columns (.tsv), or numbers of columns from 1. A table
    that does not name `source` and `target` has them in its first two columns."""
    longest: int = Field(2000, ge=1, le=MOST)
    """Pairs with more characters on a side are left out, and counted."""
    ratio: float = Field(9.0, ge=1, le=1e6)
    """Pairs are left out, and counted, where one side is more than so many times as long as the other."""
    encoding: str = "auto"
    """How bytes are read; see `files`."""

    @field_validator("paths", mode="before")
    @classmethod
    def _one_path(cls, value: Any) -> Any:
        return (value,) if isinstance(value, str) else value

    @field_validator("fields", mode="before")
    @classmethod
    def _names(cls, value: Any) -> Any:
        return list(map(str, value)) if isinstance(value, (list, tuple)) else value

    def build(self, report: Report = lambda sentence: None) -> PairDocuments:
        """Make the source; nothing is read yet. Raises CorpusError when no path was given."""
        if not self.paths:
            raise CorpusError("No pairs were given.", remedy=_REMEDY)
        limits = Limits(longest=self.longest, ratio=self.ratio)
        return PairDocuments(
            self.paths, fields=self.fields, limits=limits, encoding=self.encoding, report=report
        )
