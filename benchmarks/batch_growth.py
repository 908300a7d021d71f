"""Should a batch grow while a model of the dial's family learns? Small batches early, larger ones late, as many tokens.

    python benchmarks/batch_growth.py --text TEXT --out runs.jsonl [--tokens 1000000] [--table PAGE.md]

The network alone, for it learns as if no counts stood beside it. The rate falls in a straight line over the tokens.
Each arm first tries RATES on a seed apart, and then runs with three seeds at the best of them; bits per byte of the
validation split, on which the rates were chosen too. Larger batches are made of passes of four rows each, so their CPU
seconds (one thread) are a little more than they need be; small batches cost more steps.

What is in the file is not done again.
"""

from __future__ import annotations

import argparse
import itertools
import statistics
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch

from common import above, keep_row, parser_of, run_missing
from octavo.auto.family import SIZES, recipe_of
from octavo.config import check
from octavo.data import Dataset
from octavo.data.batch import Batch
from octavo.run.data import build_batches, build_dataset
from octavo.run.evaluate import evaluate_split
from octavo.run.train import fresh_model
from octavo.training.device import Runtime, keep_memory
from octavo.training.loop import training_steps
from octavo.training.step import StepOptions
from octavo.util.terminal import Console

SIZE, UNIT = SIZES[1], 4
"""The smallest batch has so many rows; others are made of several."""
ARMS: dict[str, tuple[int, ...]] = {
    "4 rows": (1,),
    "8 rows": (2,),
    "16 rows": (4,),
    "4, then 8": (1, 2),
    "8, then 16": (2, 4),
    "4, then 8, then 16": (1, 2, 4),
}
"""Units in a batch, in equal parts of the tokens."""
RATES = (0.7, 1.0, 1.4, 2.0)
SWEEP, SEEDS = 100, (0, 1, 2)
QUIET = Console(quiet=True)
Row = dict[str, Any]


def trained(text: Path, arm: str, rate: float, seed: int, tokens: int) -> Row:
    """A run."""
    tree = recipe_of(SIZE, steps=1) | {"seed": seed, "corpus": {"kind": "files", "paths": [str(text)]}}
    tree["model"]["counts"] = "none"
    tree["training"]["batch"] = UNIT
    for group in (tree["training"]["optimizer"], tree["training"]["optimizer"]["rest"]):
        group["learning_rate"] *= rate
    recipe = check(tree)
    dataset: Dataset = build_dataset(recipe, QUIET)
    batches, model = build_batches(recipe, dataset, QUIET, None), fresh_model(recipe, dataset, None)
    optimizers = recipe.training.optimizer.build(model)
    units, drawn = tokens // (UNIT * SIZE.context), itertools.count()

    def batch(step: int, micro: int) -> Batch[np.ndarray]:
        return batches.batch(next(drawn), 0)

    began, steps = time.process_time(), 0
    for count, part in zip(ARMS[arm], parts_of(units, len(ARMS[arm])), strict=True):
        first = steps
        steps += len(part) // count

        def factor(step: int, first: int = first, start: int = part.start, count: int = count) -> float:
            return 1 - (start + count * (step - first)) / units

        options = StepOptions(clip=recipe.training.clip, accumulation=count)
        for _ in training_steps(
            model, optimizers, batch, steps=range(first, steps), seed=seed, schedule=factor, options=options
        ):
            pass
    seconds = time.process_time() - began
    recipe = recipe.model_copy(update={"evaluation": recipe.evaluation.model_copy(update={"tokens": None})})
    runtime = Runtime(torch.device("cpu"), "float32", 1)
    found = evaluate_split(model, dataset.validation, recipe, dataset.tokenizer, runtime)
    return {
        "text": text.stem,
        "arm": arm,
        "rate": rate,
        "seed": seed,
        "tokens": tokens,
        "steps": steps,
        "bits": found.bits_per_byte,
        "cpu_seconds": round(seconds, 1),
    }


def parts_of(units: int, count: int) -> Iterator[range]:
    """So many units in equal parts."""
    ends = np.linspace(0, units, count + 1).astype(int).tolist()
    return itertools.starmap(range, itertools.pairwise(ends))


def missing(given: argparse.Namespace, rows: list[Row]) -> None:
    """Train what is not in the file."""

    def have(arm: str, rate: float, seed: int) -> Row:
        key = (given.text.stem, arm, rate, seed, given.tokens)
        for row in rows:
            if tuple(row[name] for name in ("text", "arm", "rate", "seed", "tokens")) == key:
                return row
        keep_row(trained(given.text, arm, rate, seed, given.tokens), rows, given.out)
        return rows[-1]

    for arm in ARMS:
        best = min((have(arm, rate, SWEEP) for rate in RATES), key=lambda row: row["bits"])
        for seed in SEEDS:
            have(arm, best["rate"], seed)


def table(rows: list[Row]) -> list[Row]:
    """A line for each text and way to batch."""
    found = []
    judged = [row for row in rows if row["seed"] != SWEEP]
    for text, arm in dict.fromkeys((row["text"], row["arm"]) for row in judged):
        mine = [row for row in judged if (row["text"], row["arm"]) == (text, arm)]
        bits = [row["bits"] for row in mine]
        found.append(
            {
                "text": text,
                "rows": arm,
                "rate": f"× {mine[0]['rate']:g}",
                "steps": mine[0]["steps"],
                "bits": f"{statistics.mean(bits):.4f}",
                "sd": round(statistics.stdev(bits), 4) if len(bits) > 1 else None,
                "CPU seconds": round(statistics.median(row["cpu_seconds"] for row in mine)),
            }
        )
    return found


def main() -> None:
    """The missing runs, the table, a JSON line."""
    parser = parser_of(__doc__)
    parser.add_argument("--tokens", type=int, default=1_000_000)
    given = parser.parse_args()
    torch.set_num_threads(1)
    keep_memory()

    def page(rows: list[Row]) -> str:
        return above("Batches that grow", __doc__, f"width {SIZE.width}, {rows[0]['tokens']:,} tokens")

    run_missing(given, missing, table, page)


if __name__ == "__main__":
    main()
