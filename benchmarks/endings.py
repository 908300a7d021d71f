"""How much harder than what stands before it is the end of a text, and does its middle tell?

    python benchmarks/endings.py --texts FOLDER [--like books] --out endings.jsonl
    python benchmarks/endings.py --out endings.jsonl --table results/endings.md

A promise is made from the validation split and audited on the test split, the last twentieth of a text. Both are
predicted here by counting, as the dial reads them (`auto.facts`): the best n-gram of the training text with what the
text has said so far, bits per byte. *found* is the test split's less the validation split's; *own* is by how much
places in the middle of the training text differ from each other in the same way (standard deviation).

The end's standard deviation is taken as bits · usual · (own / bits / 0.03) ^ power, its middle as a share of that. The
three numbers are fitted on half of the books and all texts of other kinds, and judged on the other half; those that
are shipped are of all. Few ends are far off, so the fit is of Student's t with four degrees of freedom.
"""

from __future__ import annotations

import argparse
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
from scipy import optimize, stats

from common import finish, in_markdown, machine, print_table, rows_in
from octavo.auto.facts import (
    HARDER,
    JUDGED,
    LIMIT,
    OWN,
    USUAL,
    USUAL_PLACES,
    counting,
    readings,
    spaced,
    unlike,
)
from octavo.auto.promise import LIKELY
from octavo.dataset import Dataset
from octavo.errors import OctavoError
from octavo.ground.console import Console
from octavo.model.kneser_ney import KneserNey

FREEDOM = 4
NARROW = stats.t.ppf(0.9, FREEDOM) / LIKELY
"""By what to divide a normal distribution's width, so that Student's holds as much within 80 %."""
LEAST = 0.003
"""Of own, bits per byte: a text made by a rule has less."""
Row = dict[str, Any]


def ending(path: Path, kind: str) -> Row:
    """Of one text."""
    (facts, dataset), *_ = readings([path], (), Console(quiet=True))
    train = np.asarray(dataset.train.tokens[-LIMIT:])
    length = len(dataset.validation.tokens)
    own = unlike(train, length, vocab_size=facts.vocabulary, order=facts.order)
    model = KneserNey(train, vocab_size=facts.vocabulary, highest=facts.order)
    return {
        "text": path.stem,
        "kind": kind,
        "bytes": facts.train_bytes,
        "own": own * (length - 1) / facts.validation_bytes,
        "bits": facts.ngram,
        "found": test_bits(model, dataset) - facts.ngram,
    }


def test_bits(model: KneserNey, dataset: Dataset) -> float:
    """Bits per byte of the test split."""
    assert dataset.test is not None
    tokens = np.asarray(dataset.test.tokens)
    bits = counting(model, tokens, spaced(1, len(tokens), JUDGED))
    return float(bits.mean()) * (len(tokens) - 1) / dataset.test.bytes


class Ends:
    """Rows as columns."""

    def __init__(self, rows: list[Row]) -> None:
        self.found, self.bits = (np.array([row[name] for row in rows]) for name in ("found", "bits"))
        self.own = np.maximum(LEAST, [row["own"] for row in rows])

    def widths(self, usual: float, power: float) -> np.ndarray:
        """Standard deviations (n,)."""
        return self.bits * usual * (self.own / self.bits / USUAL_PLACES) ** power

    def held(self, harder: float, usual: float, power: float) -> tuple[float, float]:
        """Shares within what should hold 80 %, and above the middle."""
        width = self.widths(usual, power)
        off = self.found - harder * width
        return float(np.mean(np.abs(off) <= LIKELY * width)), float(np.mean(off > 0))

    def surprise(self, harder: float, usual: float, power: float) -> float:
        """Minus the logarithm of the likelihood."""
        width = self.widths(usual, power)
        narrow = width / NARROW
        return float((np.log(narrow) - stats.t.logpdf((self.found - harder * width) / narrow, FREEDOM)).sum())


def fitted(*parts: Ends) -> tuple[float, float, float]:
    """(harder, usual, power) that are most likely."""

    def surprise(values: np.ndarray) -> float:
        return sum(part.surprise(values[0], math.exp(values[1]), values[2]) for part in parts)

    found = optimize.minimize(surprise, (0.3, -3.0, 0.4), method="Nelder-Mead", options={"maxiter": 5000})
    harder, usual, power = found.x
    return float(harder), math.exp(usual), float(power)


def lines_of(rows: list[Row]) -> list[Row]:
    """Each way to foresee an end, and how often it held."""
    books = [row for row in rows if row["kind"] == "books"]
    halves = [Ends(books[::2]), Ends(books[1::2])]
    rest = Ends([row for row in rows if row["kind"] != "books"])
    ways = {
        f"fitted on half {name} of the books and the others": fitted(half, rest)
        for name, half in zip("AB", halves, strict=True)
    }
    ways |= {"fitted on all": fitted(*halves, rest), "shipped": (HARDER, USUAL, OWN)}
    found = []
    for name, (harder, usual, power) in ways.items():
        line: Row = {
            "end": name,
            "harder by": round(harder, 2),
            "usual": round(usual, 3),
            "power": round(power, 2),
        }
        for where, part in (("half A", halves[0]), ("half B", halves[1]), ("others", rest)):
            within, above = part.held(harder, usual, power)
            line[where] = f"{within:.0%} ({above:.0%} above)"
        found.append(line)
    line = {"end": "as unlike as places in its middle", "harder by": 0, "usual": None, "power": 1}
    for where, part in (("half A", halves[0]), ("half B", halves[1]), ("others", rest)):
        within, above = part.held(0.0, USUAL_PLACES, 1.0)
        line[where] = f"{within:.0%} ({above:.0%} above)"
    return [line, *found]


def of_kinds(rows: list[Row]) -> list[Row]:
    """Quantiles of what was found, by kind."""
    found = []
    for kind in dict.fromkeys(row["kind"] for row in rows):
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
            row = ending(path, given.like)
        except OctavoError as error:
            print(f"{path.name}: {error.what}", flush=True)
            continue
        rows.append(row)
        with given.out.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")
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
