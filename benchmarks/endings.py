"""How much harder than what stands before it is the end of a text, and does its middle tell?

    python benchmarks/endings.py --texts FOLDER [--like books] --out endings.jsonl
    python benchmarks/endings.py --out endings.jsonl --table results/endings.md

A promise is made from the validation split and audited on the test split, the last twentieth of a text. Both are
predicted here by counting, as the dial reads them (`auto.facts`): a context mixer that has read what stands before
and reads on, bits per byte. *found* is the test split's less the validation split's; *own* is by how much
places in the middle of the training text differ from each other in the same way (standard deviation).

*books* are of Project Gutenberg, *novels* of ELTeC in five languages; *code* is packages of Python, modules of its
standard library and headers in C and C++, *documents* Markdown and reStructuredText of public software, each one file
in the order of its paths, at most 0.7 MB; *others* are plays, prose, tunes and notes.

The end's standard deviation is taken as *in prose* · (own / 0.06) ^ *own*, and of code and markup, which their
symbols tell, as *in code* · (1.8 / bits) ^ *easy*; its middle, *harder*, is the same for all. The five numbers are
fitted on half of the texts of each kind, and judged on the other half; those that are shipped are of all. Few ends are
far off, so the fit is of Student's t with four degrees of freedom.
"""

from __future__ import annotations

import argparse
import math
import sys
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy import optimize, stats

from common import finish, in_markdown, keep_row, machine, print_table, rows_in
from octavo.auto.facts import (
    CODE,
    EASY,
    OWN,
    PLACES_APART,
    PROSE,
    end_spread,
    readings,
    unlike,
)
from octavo.auto.train import LIKELY
from octavo.data import Dataset
from octavo.errors import OctavoError
from octavo.ngram.mixing_counts import MixingCounts
from octavo.util.terminal import Console

FREEDOM = 4
NARROW = stats.t.ppf(0.9, FREEDOM) / LIKELY
"""By what to divide a normal distribution's width, so that Student's holds as much within 80 %."""
LEAST = 0.003
"""Of own, bits per byte: a text made by a rule has less."""
Row = dict[str, Any]


def ending(path: Path, kind: str) -> Row:
    """Of one text."""
    read, *_ = readings([path], (), Console(quiet=True))
    facts, counts = read.facts, read.counts
    assert isinstance(counts, MixingCounts), "a C compiler"
    own = unlike(counts.nats / math.log(2), facts.validation_tokens) * read.tokens_a_byte
    return {
        "text": path.stem,
        "kind": kind,
        "bytes": facts.train_bytes,
        "own": own,
        "bits": facts.counted,
        "symbols": round(facts.symbols, 5),
        "found": test_bits(counts, read.dataset) - facts.counted,
    }


def test_bits(counts: MixingCounts, dataset: Dataset) -> float:
    """Bits per byte of the test split, after the validation split."""
    assert dataset.test is not None
    before, tokens = (np.asarray(split.tokens) for split in (dataset.validation, dataset.test))
    mixer = counts.alone.copy(more=2 * (len(before) + len(tokens)))
    mixer.read(before)
    return float(mixer.read(tokens)[1:].astype(np.float64).sum()) / math.log(2) / dataset.test.bytes


class Way(NamedTuple):
    """To foresee an end."""

    harder: float
    in_prose: float
    own: float
    in_code: float
    easy: float


SHIPPED = Way(0.0, PROSE, OWN, CODE, EASY)
AS_ITS_MIDDLE = Way(0, PLACES_APART, 1, PLACES_APART, 0)


class Ends:
    """Rows as columns."""

    def __init__(self, rows: list[Row]) -> None:
        self.found, self.bits = (np.array([row[name] for row in rows]) for name in ("found", "bits"))
        self.own = np.maximum(LEAST, [row["own"] for row in rows])
        self.symbols = np.array([row.get("symbols", 0.0) for row in rows])

    def widths(self, way: Way) -> np.ndarray:
        """Standard deviations (n,)."""
        return end_spread(
            self.own,
            self.bits,
            self.symbols,
            prose=way.in_prose,
            power=way.own,
            code=way.in_code,
            easy=way.easy,
        )

    def held(self, way: Way) -> str:
        """Shares within what should hold 80 %, and above the middle."""
        off = self.found - way.harder
        return f"{np.mean(np.abs(off) <= LIKELY * self.widths(way)):.0%} ({np.mean(off > 0):.0%} above)"

    def surprise(self, way: Way) -> float:
        """Minus the logarithm of the likelihood."""
        narrow = self.widths(way) / NARROW
        off = (self.found - way.harder) / narrow
        return float((np.log(narrow) - stats.t.logpdf(off, FREEDOM)).sum())


def fitted(ends: Ends) -> Way:
    """The way that is most likely."""

    def way(values: np.ndarray) -> Way:
        return Way(values[0], math.exp(values[1]), values[2], math.exp(values[3]), values[4])

    found = np.array((0.03, -2.0, 0.3, -1.5, 0.5))
    for _ in range(4):  # the search ends early where it begins far away
        search = {"method": "Nelder-Mead", "options": {"maxiter": 9000, "maxfev": 9000}}
        found = optimize.minimize(lambda values: ends.surprise(way(values)), found, **search).x
    return way(found)


def lines_of(rows: list[Row]) -> list[Row]:
    """Each way to foresee an end, and how often it held: where there are two halves, on the one it is not fitted on."""
    kinds = [[row for row in rows if row["kind"] == kind] for kind in kinds_of(rows)]
    one, other = ([row for each in kinds for row in each[first::2]] for first in (0, 1))
    ways = [
        ("as unlike as places in its middle", AS_ITS_MIDDLE, [row | {"symbols": 0.0} for row in rows]),
        ("fitted on half of each kind", fitted(Ends(one)), other),
        ("fitted on the other halves", fitted(Ends(other)), one),
        ("fitted on all", fitted(Ends(rows)), rows),
        ("shipped", SHIPPED, rows),
    ]
    found = []
    for name, way, judged in ways:
        line: Row = {"end": name} | {
            key.replace("_", " "): round(value, 3) for key, value in way._asdict().items()
        }
        for kind in kinds_of(rows):
            line[kind] = Ends([row for row in judged if row["kind"] == kind]).held(way)
        found.append(line)
    return found


def kinds_of(rows: list[Row]) -> list[str]:
    """In the order of the file."""
    return list(dict.fromkeys(row["kind"] for row in rows))


def of_kinds(rows: list[Row]) -> list[Row]:
    """Quantiles of what was found, by kind."""
    found = []
    for kind in kinds_of(rows):
        here = np.array([row["found"] for row in rows if row["kind"] == kind])
        quantiles = np.percentile(here, (10, 25, 50, 75, 90))
        named = zip(("10 %", "25 %", "middle", "75 %", "90 %"), quantiles, strict=True)
        found.append({"kind": kind, "texts": len(here)} | {name: f"{value:+.3f}" for name, value in named})
    return found


def main() -> None:
    """The missing texts, or the table; a JSON line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--texts", type=Path)
    parser.add_argument("--like", default="others", help="the kind of these texts, such as books")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--table", type=Path, help="write the page of what is there")
    given = parser.parse_args()
    rows = rows_in(given.out)
    there = {row["text"] for row in rows}
    for path in sorted(given.texts.iterdir()) if given.texts else ():
        if path.stem in there:
            continue
        try:
            keep_row(ending(path, given.like), rows, given.out)
        except OctavoError as error:
            print(f"{path.name}: {error.what}", file=sys.stderr, flush=True)
    tables = (of_kinds(rows), lines_of(rows))
    for lines in tables:
        print_table(lines)
    if given.table:
        kinds, ways = map(in_markdown, tables)
        given.table.write_text(
            f"# The end of a text\n\n{__doc__ or ''}\n## Found\n\n{kinds}\n## How often 80 % held\n\n{ways}",
            "utf-8",
        )
    finish({"machine": machine(), "found": tables[0], "ways": tables[1]})


if __name__ == "__main__":
    main()
