"""Texts that are no prose: does the one dial ever end above the best n-gram?

    python benchmarks/never_worse.py --out never_worse.jsonl [--minutes 0.5] [--only NAME]
    python benchmarks/never_worse.py --out never_worse.jsonl --table results/never_worse.md

Each text is written from a fixed seed, of 100 to 600 kB: noise, of which there is nothing to learn, and what numbers,
columns, logs and brackets look like. On each the command trains by the clock, from its start to its end; what comes out
is judged on the last twentieth, beside the best of 1-grams to 8-grams there (without what the text has said so far) and
what xz needs after the training text. What is in the file is not done again.
"""

from __future__ import annotations

import argparse
import base64
import random
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from common import finish, in_markdown, keep_row, machine, print_table, rows_in
from regret import by_the_clock

LEVELS, PLACES = ("INFO", "WARN", "ERROR"), ("users", "items", "orders")
CLOSING = {"(": ")", "[": "]", "{": "}"}
Row = dict[str, Any]


def letters(chance: random.Random) -> str:
    """Four letters by chance, in lines of 70."""
    return "\n".join("".join(chance.choices("ACGT", k=70)) for _ in range(3000))


def noise(chance: random.Random) -> str:
    """Random bytes, as mail would carry them."""
    return base64.encodebytes(chance.randbytes(150_000)).decode()


def symbols(chance: random.Random) -> str:
    """Signs of 1,000, all alike and without lines: nothing tells what comes next, and each is seldom seen."""
    return "".join(chr(0x4E00 + chance.randrange(1000)) for _ in range(40_000))


def ideographs(chance: random.Random) -> str:
    """Single signs of 3,000 by a power law, each for itself."""
    signs = [chr(0x4E00 + int(chance.paretovariate(0.7)) % 3000) for _ in range(60_000)]
    return "\n".join("".join(signs[begin : begin + 23]) for begin in range(0, len(signs), 23))


def counting(_: random.Random) -> str:
    """The numbers from 0 on, one a line."""
    return "\n".join(map(str, range(40_000)))


def log(chance: random.Random) -> str:
    """What a server notes, each second once."""
    return "\n".join(
        f"2026-01-{1 + at // 3600 // 24:02d} {at // 3600 % 24:02d}:{at // 60 % 60:02d}:{at % 60:02d} "
        f"{chance.choice(LEVELS)} worker-{chance.randrange(8)} took {chance.randrange(900)} ms for "
        f"/api/{chance.choice(PLACES)}/{chance.randrange(100_000)}"
        for at in range(8000)
    )


def columns(chance: random.Random) -> str:
    """Four columns of numbers, each a step from the one above."""
    row, lines = [0.0, 10.0, 100.0, 1000.0], []
    for at in range(8000):
        row = [value + chance.gauss(0, 1) for value in row]
        lines.append("\t".join([str(at), *(f"{value:.3f}" for value in row)]))
    return "\n".join(lines)


def brackets(chance: random.Random) -> str:
    """Three kinds of them, which close in the order that they ask for."""
    lines = []
    for _ in range(4000):
        opened, line = [], ""
        for _ in range(50):
            if opened and chance.random() < 0.5:
                line += CLOSING[opened.pop()]
            else:
                opened.append(chance.choice("([{"))
                line += opened[-1]
        lines.append(line + "".join(CLOSING[each] for each in reversed(opened)))
    return "\n".join(lines)


def echoes(chance: random.Random) -> str:
    """Lines of random letters, each said twice."""
    lines = ("".join(chance.choices("abcdefghij", k=40)) for _ in range(3000))
    return "\n".join(line for each in lines for line in (each, each))


def halves(chance: random.Random) -> str:
    """A log that ends in noise, as a damaged file does."""
    return log(chance)[:200_000] + "\n" + noise(chance)[:60_000]


TEXTS: tuple[Callable[[random.Random], str], ...] = (
    *(letters, noise, symbols, ideographs, counting, log),
    *(columns, brackets, echoes, halves),
)


def missing(given: argparse.Namespace, rows: list[Row]) -> None:
    """Train on what is not in the file."""
    there = {(row["text"], row["minutes"]) for row in rows}
    with tempfile.TemporaryDirectory(prefix="octavo-never-worse-") as folder:
        for make in TEXTS:
            name = make.__name__
            if (name, given.minutes) in there or (given.only and name not in given.only):
                continue
            path = Path(folder, f"{name}.txt")
            path.write_text(make(random.Random(0)), encoding="utf-8")
            keep_row(by_the_clock(path, given.minutes), rows, given.out)


def table(rows: list[Row]) -> list[Row]:
    """A line for each text and time."""
    return [
        {
            "minutes": row["minutes"],
            "text": row["text"],
            "seconds": row["seconds"],
            "the dial": round(row["bits"], 4),
            "best n-gram": round(row["ngram"], 4),
            "xz": round(row["xz"], 4),
            "promised": f"{row['promised']:.2f} ± {row['within']:.2f}",
        }
        for row in rows
        if "refused" not in row
    ]


def main() -> None:
    """The missing runs, the table, the page; a JSON line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--minutes", type=float, default=0.5)
    parser.add_argument("--only", nargs="+")
    parser.add_argument("--table", type=Path, help="write the page of what is there, train nothing")
    given = parser.parse_args()
    rows = rows_in(given.out)
    if not given.table:
        missing(given, rows)
    lines = table(rows)
    print_table(lines)
    worse = [line["text"] for line in lines if line["the dial"] > line["best n-gram"]]
    if given.table:
        here = machine()
        above = [
            f"{line['text']}, by {line['the dial'] - line['best n-gram']:.4f}"
            for line in lines
            if line["text"] in worse
        ]
        said = f"Above the best n-gram: {'; '.join(above) or 'none'}. Texts: {len(lines)}."
        given.table.write_text(
            f"# Never worse than counting\n\n{__doc__}\nTaken on {here['cores']} cores of {here['processor']}, torch "
            f"{here['torch']}. Bits per byte.\n\n{said}\n\n{in_markdown(lines)}",
            encoding="utf-8",
        )
    finish({"worse": worse, "rows": lines})


if __name__ == "__main__":
    main()
