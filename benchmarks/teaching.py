"""Is a model worth a teacher? The time of one training, given to one, or to a teacher and its pupil.

    python benchmarks/teaching.py --texts FOLDER --out runs.jsonl [--only NAME]
    python benchmarks/teaching.py --out runs.jsonl --table results/teaching.md

Of a size of `octavo train --minutes` and a number of steps each: *one* takes so many; *pupil* takes as many after a
teacher of as many; *as long* is the control, one model that takes as many steps as go into the time of the two;
*three* has three teachers and takes twice as many. One thread, and steps, not minutes, so that other work spoils
nothing. Judged once, on the test split, by the checkpoint that was best on the validation split; *before its first
step*, a model has so many on the validation split.

*play* is An Ideal Husband (180 kB), *play-60* its first 60 kB, *pages* are 100 kB of this project's pages, *code* is
190 kB of Python (the package attrs).
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from common import above, keep_row, parser_of, run_missing
from octavo.auto.choose import ALONE, TAUGHT, Teaching
from octavo.auto.family import SIZES, Size, dropout_for, parameters_of, recipe_of
from octavo.config import check
from octavo.report.about import split_of
from octavo.run.data import build_dataset
from octavo.run.test_split import look
from octavo.run.train import train
from octavo.util.terminal import Console

QUIET = Console(quiet=True)
Row = dict[str, Any]
WAYS = {"one": ALONE, "pupil": TAUGHT[0], "as long": ALONE, "three": TAUGHT[1]}
RUNS: dict[str, tuple[int, tuple[int, ...], tuple[str, ...]]] = {
    "play": (2, (500, 1500), ("one", "pupil", "as long")),
    "play-60": (1, (3000,), ("one", "pupil", "as long", "three")),
    "pages": (2, (1500,), ("one", "pupil", "as long")),
    "code": (2, (1500,), ("one", "pupil", "as long")),
}
"""Of each text, read as bytes: the size, the steps of each training, and what is compared."""


def recipe(text: Path, size: Size, way: str, steps: int) -> dict[str, Any]:
    """Settings as `octavo train --minutes` would have them."""
    teaching: Teaching = WAYS[way]
    if way == "as long":
        steps = round(steps * steps / TAUGHT[0].steps_in(steps))
    tree = recipe_of(size, steps=teaching.longer * steps)
    tree |= {"corpus": {"kind": "files", "paths": [str(text)]}}
    dataset = build_dataset(check(tree), QUIET)
    tokens = len(dataset.train.tokens)
    worn = steps * size.step_tokens / tokens, parameters_of(size, dataset.tokenizer.vocab_size) / tokens
    tree["model"]["dropout"] = teaching.dropout(*worn)
    tree["training"] |= {"threads": 1, "keep": 1}
    if teaching.teachers:
        own = {"trained": teaching.teachers, "trained_steps": steps, "trained_dropout": dropout_for(*worn)}
        tree["training"]["teachers"] = own
    return tree


def missing(given: argparse.Namespace, rows: list[Row]) -> None:
    """Train what is not in the file."""
    there = {(row["text"], row["steps"], row["way"], row["seed"]) for row in rows}
    for text, steps, way, seed in wanted(given):
        if (text.stem, steps, way, seed) in there:
            continue
        size = SIZES[RUNS[text.stem][0]]
        tree = recipe(text, size, way, steps) | {"seed": seed}
        with tempfile.TemporaryDirectory(prefix="octavo-teaching-") as folder:
            run = train(tree, text, Path(folder) / "run", quiet=True)
            found = look(run, QUIET)
            kept = json.loads((Path(folder) / "run" / "evaluation.json").read_text(encoding="utf-8"))
            assert run.folder is not None
            before = run.metrics[0]["bits_per_byte"]
            tokens = split_of(run.folder.made_by() or {}, "train")["tokens"]
        row = {"text": text.stem, "width": size.width, "steps": steps, "way": way, "seed": seed}
        bits = {"bits": found["bits_per_byte"], "validation_bits": kept["bits_per_byte"]}
        keep_row(
            row | bits | {"before": before, "passes": round(steps * size.step_tokens / tokens, 1)},
            rows,
            given.out,
        )


def wanted(given: argparse.Namespace) -> Iterator[tuple[Path, int, str, int]]:
    """All that is to be compared."""
    for seed in given.seeds:
        for text in sorted(given.text.iterdir()):
            if text.stem in RUNS and (not given.only or text.stem in given.only):
                _, lengths, ways = RUNS[text.stem]
                yield from ((text, steps, way, seed) for steps in lengths for way in ways)


def table(rows: list[Row]) -> list[Row]:
    """A line for each text, length and way: the mean over seeds."""
    found = []
    for text, steps, way in dict.fromkeys((row["text"], row["steps"], row["way"]) for row in rows):
        mine = [row for row in rows if (row["text"], row["steps"], row["way"]) == (text, steps, way)]
        line = {"text": text, "width": mine[0]["width"], "steps": steps, "passes": mine[0]["passes"]}
        line["way"] = way
        for name, key in (
            ("bits per byte", "bits"),
            ("validation", "validation_bits"),
            ("before its first step", "before"),
        ):
            line[name] = f"{sum(row[key] for row in mine) / len(mine):.4f}"
        found.append(line | {"runs": len(mine)})
    order = list(WAYS)
    return sorted(found, key=lambda line: (line["text"], line["steps"], order.index(line["way"])))


def main() -> None:
    """The missing runs, the table, a JSON line."""
    parser = parser_of(__doc__, "--texts")
    parser.add_argument("--only", nargs="+")
    parser.add_argument("--seeds", nargs="+", type=int, default=[1])
    given = parser.parse_args()

    def page(rows: list[Row]) -> str:
        return above("Worth a teacher", __doc__, "one thread")

    run_missing(given, missing, table, page)


if __name__ == "__main__":
    main()
