"""More minutes for a run that has ended: which schedule lets it go on best, and what does that cost before.

    python benchmarks/prolonged.py --text TEXT --out runs.jsonl [--steps 2000] [--seeds 0 1 2] [--table PAGE.md]

A model of the dial's own family takes STEPS steps, and then as many again. Bits per byte of the test split, by the
checkpoint that is best on the validation split; mean and standard deviation over the seeds.

*one line*: the rate falls in a straight line, over all of the steps that were planned.
*one line, prolonged*: planned for half of them; at its end the rate goes back to where it would stand had all been
planned. This is what `octavo train --resume --minutes` does.
*begun anew*: after the first half a second run starts from its weights, with the whole schedule once more.
*stable, then decay*: the rate stays until the last fifth (Hu et al. 2024). It is prolonged from before that fifth, so
that it is what it would be had all been planned, and the fifth is taken a second time.

What is in the file is not done again. Steps, not seconds: other work on the machine spoils nothing.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from common import above, keep_row, parser_of, run_missing
from octavo.auto.family import SIZES, recipe_of
from octavo.run.run import Run
from octavo.run.test_split import look
from octavo.run.train import train
from octavo.util.terminal import Console

SIZE = SIZES[1]
QUIET = Console(quiet=True)
STABLE = {"kind": "wsd", "decay": 0.2, "floor": 0.0}
Row = dict[str, Any]


def one_line(text: Path, out: Path, seed: int, steps: int, **training: Any) -> Run:
    """A run of so many steps, with other settings of its training on top."""
    tree = recipe_of(SIZE, steps=steps) | {"seed": seed}
    tree["training"] |= {"precision": "float32", "keep": 1, **training}
    return train(tree, text, out, quiet=True)


def prolonged(text: Path, out: Path, seed: int, steps: int) -> Run:
    """Half of the steps, and then the other half."""
    one_line(text, out, seed, steps // 2)
    return train(None, None, out, overrides=[f"training.steps={steps}"], resume=True, quiet=True)


def anew(text: Path, out: Path, seed: int, steps: int) -> Run:
    """Half of the steps, and a run that starts from where they led."""
    first = one_line(text, out / "first", seed, steps // 2)
    assert first.folder is not None
    return one_line(text, out / "second", seed, steps - steps // 2, start_from=str(first.folder.path))


def stable(text: Path, out: Path, seed: int, steps: int) -> Run:
    """The rate stays for four fifths."""
    return one_line(text, out, seed, steps, schedule=STABLE)


ARMS: dict[str, tuple[Callable[[Path, Path, int, int], Run], tuple[int, ...]]] = {
    "one line": (one_line, (1, 2)),
    "one line, prolonged": (prolonged, (2,)),
    "begun anew": (anew, (2,)),
    "stable, then decay": (stable, (1, 2)),
}
"""By name: how it is trained, and after how many times STEPS it is judged."""


def missing(given: argparse.Namespace, rows: list[Row]) -> None:
    """Train what is not in the file."""
    there = {(row["arm"], row["steps"], row["seed"]) for row in rows}
    for seed in given.seeds:
        for arm, (trained, times) in ARMS.items():
            for steps in (each * given.steps for each in times):
                if (arm, steps, seed) in there:
                    continue
                with tempfile.TemporaryDirectory(prefix="octavo-prolonged-") as folder:
                    found = look(trained(given.text, Path(folder, "run"), seed, steps), QUIET)
                row = {"arm": arm, "steps": steps, "seed": seed, "bits": found["bits_per_byte"]}
                keep_row(row, rows, given.out)


def table(rows: list[Row]) -> list[Row]:
    """A line for each way and number of steps."""
    found = []
    for arm, steps in dict.fromkeys((row["arm"], row["steps"]) for row in sorted(rows, key=by_steps)):
        bits = [row["bits"] for row in rows if (row["arm"], row["steps"]) == (arm, steps)]
        sd = round(statistics.stdev(bits), 4) if len(bits) > 1 else None
        found.append(
            {"steps": steps, "": arm, "bits": f"{statistics.mean(bits):.4f}", "sd": sd, "seeds": len(bits)}
        )
    return found


def by_steps(row: Row) -> tuple[int, int]:
    """The order of the table."""
    return row["steps"], list(ARMS).index(row["arm"])


def main() -> None:
    """The missing runs, the table, a JSON line."""
    parser = parser_of(__doc__)
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    given = parser.parse_args()

    def page(rows: list[Row]) -> str:
        return above("More minutes for a run that has ended", __doc__, f"width {SIZE.width}")

    run_missing(given, missing, table, page)


if __name__ == "__main__":
    main()
