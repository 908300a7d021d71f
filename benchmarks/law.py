"""The runs that the law of `octavo train --minutes` is fitted on (`law_fit.py`).

    python benchmarks/law.py --texts FOLDER --out runs.jsonl [--plan small] [--only NAME] [--device cuda]
    python benchmarks/law.py --texts FOLDER --out runs.jsonl --plan few --read-as best --whole
    python benchmarks/law.py --texts FOLDER --out runs.jsonl --like earlier.jsonl [--only NAME]
    python benchmarks/law.py --texts FOLDER --out runs.jsonl --dial regret.jsonl

Trains the family's sizes on the beginnings of each text in FOLDER for as many steps as a plan says, in one process and
one thread, and adds a line a run to the file; what is there already is not trained again. With `--like` it takes the
runs of a file anew, for when the family has changed. With `--dial` pilots alone are trained: beside them the runs of
`regret.py` that are of the family, judged on their validation split, become lines like the others.
"""

from __future__ import annotations

import argparse
import dataclasses
import statistics
import tempfile
import time
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import torch

import regret
from common import keep_row, rows_in
from octavo.auto.facts import LEAST, MARGIN, MOST, SIZE, Pilot, Reading, counted, counting
from octavo.auto.family import BYTES, PAIRS, SIZES, Size, dropout_for, parameters_of, recipe_of
from octavo.config import Recipe, check
from octavo.evaluation.baselines import HIGHEST
from octavo.evaluation.reading_on import reading_on
from octavo.model.base import LanguageModel
from octavo.ngram.kneser_ney import KneserNey, best_order
from octavo.run.data import (
    build_batches,
    build_dataset,
    evaluated_on,
    held_out_of,
    rows_at_once,
    with_rows_held_out,
)
from octavo.run.evaluate import evaluate_split
from octavo.run.train import fresh_model
from octavo.training.device import Bfloat16Products, Runtime, fast_bfloat16, keep_memory
from octavo.training.loop import training_steps
from octavo.training.step import StepOptions
from octavo.util.terminal import Console

LENGTHS = (30_000, 100_000, 300_000, 1_000_000, 3_000_000, 10_000_000)
JUDGED = 100_000
"""Bytes of the validation split."""
PLANS = {
    "few": {0: (300, 1200), 1: (800,), 2: (600,)},
    "far": {0: (300, 1200, 5000), 2: (2400,)},
    "short": {0: (300, 1200), 1: (200, 800), 2: (150, 600)},
    "small": {0: (300, 1200, 5000), 1: (200, 800, 3000), 2: (150, 600, 2400)},
    "medium": {3: (300,)},
    "beside a mixer": {0: (300, 1200, 4000), 1: (800, 3000), 2: (1500,), 3: (600,)},
    "fewer beside a mixer": {0: (300, 1200, 4000), 1: (800, 3000), 2: (1500,)},
    "far beside a mixer": {1: (10000, 20000), 2: (5000, 9000), 3: (2500,)},
    "wide": {3: (300, 1200, 5000), 4: (300, 1200, 4000), 5: (300, 1200, 3500)},
}
"""Of each plan, how many steps of which sizes."""
WAYS = {"bytes": BYTES, "pairs": PAIRS}
"""What a text is read as."""
QUIET = Console(quiet=True)
Row = dict[str, Any]


def dataset_of(path: Path, length: int, way: str, folder: Path) -> Any:
    """So many bytes to learn from, and what follows them to be judged by."""
    part = folder / f"{path.stem}-{length}.txt"
    text = path.read_bytes()[: length + JUDGED]
    if not part.is_file():
        part.write_bytes(text)
    tree = recipe_of(SIZES[0], steps=1, tokenizer=WAYS[way]) | {
        "split": "contiguous",
        "test": 0,
        "validation": 1 - length / len(text),
    }
    return part, build_dataset(check(tree | {"corpus": {"kind": "files", "paths": [str(part)]}}), QUIET)


def ngram(dataset: Any) -> float:
    """Bits per byte of counting on the validation split."""
    train, tokens = np.asarray(dataset.train.tokens), np.asarray(dataset.validation.tokens)
    order = best_order(train, vocab_size=dataset.tokenizer.vocab_size, highest=HIGHEST)
    model = KneserNey(train, vocab_size=dataset.tokenizer.vocab_size, highest=order)
    return float(counting(model, tokens, np.arange(1, len(tokens))).sum()) / dataset.validation.bytes


def read_as(dataset: Any, way: str) -> Reading:
    """A dataset with what counting alone tells of it."""
    return counted(dataset, check(recipe_of(SIZES[0], steps=1, tokenizer=WAYS[way])), WAYS[way])


def start(dataset: Any, way: str) -> float:
    """Bits per byte there of a model before its first step."""
    read = read_as(dataset, way)
    return read.facts.start if read.facts.mixed else Pilot(read).before * read.tokens_a_byte


def reached(model: LanguageModel, dataset: Any, recipe: Recipe, runtime: Runtime) -> float:
    """Bits per byte there of a model that has learned; of one that reads on where its counts can."""
    split, tokenizer = dataset.validation, dataset.tokenizer
    rows = rows_at_once(recipe, tokenizer, runtime.device)
    batches = evaluated_on(split, recipe, tokenizer, rows=rows)
    found = reading_on(model, batches, recipe.objective.build(), np.asarray(split.tokens))
    if found is not None:
        return float(found.as_dict(split.bytes)["bits_per_byte"])
    recipe = recipe.model_copy(update={"evaluation": recipe.evaluation.model_copy(update={"tokens": None})})
    bits = evaluate_split(model, split, recipe, tokenizer, runtime).bits_per_byte
    assert bits is not None, "a text"
    return bits


def one(
    part: Path,
    dataset: Any,
    size: Size,
    *,
    steps: int,
    way: str,
    device: str = "cpu",
    seed: int = 1,
    dropout: float | None = None,
) -> Row:
    """A run."""
    passes = steps * size.step_tokens / len(dataset.train.tokens)
    if dropout is None:
        weights = parameters_of(size, dataset.tokenizer.vocab_size)
        dropout = dropout_for(passes, weights / len(dataset.train.tokens))
    tree = recipe_of(size, steps=steps, dropout=dropout, tokenizer=WAYS[way])
    tree |= {"split": "contiguous", "test": 0}
    recipe = check(tree | {"corpus": {"kind": "files", "paths": [str(part)]}, "seed": seed})
    held_out = held_out_of(recipe, dataset)
    batches = build_batches(recipe, dataset, QUIET, held_out)
    runtime = Runtime(torch.device(device), "float32", 1)
    model = fresh_model(recipe, dataset, held_out).to(runtime.device)
    batches = with_rows_held_out(batches, held_out, recipe, dataset)
    loop = training_steps(
        model,
        recipe.training.optimizer.build(model),
        batches.batch,
        steps=range(steps),
        seed=seed,
        schedule=recipe.training.schedule.build(steps=steps),
        objective=recipe.objective.build(),
        options=StepOptions(clip=recipe.training.clip),
    )
    began = time.process_time()
    with Bfloat16Products() if device == "cpu" and fast_bfloat16(runtime.device) else nullcontext():
        losses = [info.loss for info in loop]
    seconds = time.process_time() - began
    return {
        **dataclasses.asdict(size),
        "read_as": way,
        "dropout": dropout,
        "steps": steps,
        "parameters": sum(p.numel() for p in model.parameters()),
        "tokens": steps * size.step_tokens,
        **sizes_of(dataset),
        "bits_per_byte": reached(model, dataset, recipe, runtime),
        "train_loss": statistics.mean(losses[-20:]),
        "seed": seed,
        "cpu_seconds": round(seconds, 1),
    }


def better(path: Path, length: int, folder: Path) -> str:
    """The way that the dial would read a text in."""
    bits = {way: ngram(dataset_of(path, length, way, folder)[1]) for way in WAYS}
    return min(bits, key=lambda way: bits[way] * (1 + MARGIN * (way == "pairs")))


def run_like(given: argparse.Namespace) -> None:
    """The runs of a file, as far as they are missing."""
    done = rows_in(given.out)
    named = ("text", "length", "read_as", "width", "steps", "seed")
    there = {tuple(row[name] for name in named) for row in done}
    wanted = [row for row in rows_in(given.like) if tuple(row[name] for name in named) not in there]
    with tempfile.TemporaryDirectory(prefix="octavo-law-") as folder:
        for text, length, way in sorted({(row["text"], row["length"], row["read_as"]) for row in wanted}):
            if given.only and text not in given.only:
                continue
            here = [
                row for row in wanted if (row["text"], row["length"], row["read_as"]) == (text, length, way)
            ]
            path = next(path for path in given.texts.iterdir() if path.stem == text)
            part, dataset = dataset_of(path, length, way, Path(folder))
            before = {"ngram": ngram(dataset), "start": start(dataset, way)}
            for row in here:
                size = next(size for size in SIZES if size.width == row["width"])
                found = one(
                    part,
                    dataset,
                    size,
                    steps=row["steps"],
                    way=way,
                    device=given.device,
                    seed=row["seed"],
                )
                keep_row({"text": text, "length": length, **before, **found}, done, given.out)


def of_dial(given: argparse.Namespace) -> None:
    """The runs of `regret.py` that are of the family, as they stand in its file, as lines like the others."""
    named = {regret.named(size, way): (size, read) for size in SIZES for read, way in WAYS.items()}
    kinds = {way["kind"]: read for read, way in WAYS.items()}
    done: list[Row] = []
    for path in sorted(given.texts.iterdir()):
        runs = [row for row in rows_in(given.dial) if (row["kind"], row.get("text")) == ("run", path.stem)]
        found = []
        for row in runs:
            if row["setting"] in named:
                found.append((*named[row["setting"]], row))
            elif "read_as" in row and not row.get("teachers"):
                size = next(size for size in SIZES if size.width == row["width"])
                found.append((size, kinds[row["read_as"]], row))
        for way in sorted({way for _, way, _ in found}):
            tree = recipe_of(SIZES[0], steps=1, tokenizer=WAYS[way]) | regret.ALIKE
            dataset = build_dataset(check(tree | {"corpus": {"kind": "files", "paths": [str(path)]}}), QUIET)
            text = {"text": path.stem, "length": dataset.train.bytes}
            before = {"ngram": ngram(dataset), "start": start(dataset, way), "read_as": way}
            pilot = Pilot(read_as(dataset, way))
            came = [
                (SIZE, steps, before["start"] * (pilot.share(steps, QUIET) or 1)) for steps in (LEAST, MOST)
            ]
            came += [(size, row["steps"], row["validation_bits"]) for size, read, row in found if read == way]
            for size, steps, bits in came:
                of_size = dataclasses.asdict(size) | {"steps": steps, "tokens": steps * size.step_tokens}
                line = text | before | of_size | {"bits_per_byte": bits, "seed": 1} | sizes_of(dataset)
                keep_row(line, done, given.out)


def sizes_of(dataset: Any) -> Row:
    """What of a dataset stands in a run's line."""
    return {
        "train_tokens": len(dataset.train.tokens),
        "vocabulary": dataset.tokenizer.vocab_size,
        "train_bytes": dataset.train.bytes,
        "validation_bytes": dataset.validation.bytes,
    }


def run(given: argparse.Namespace) -> None:
    """All runs that are missing."""
    if given.like:
        torch.set_num_threads(1)
        keep_memory()
        run_like(given)
        return
    done = rows_in(given.out)
    named = ("text", "length", "read_as", "width", "steps", "seed")
    there = {tuple(row[name] for name in named) for row in done}
    torch.set_num_threads(1)
    keep_memory()
    plan = PLANS[given.plan]
    with tempfile.TemporaryDirectory(prefix="octavo-law-") as folder:
        for path in sorted(given.texts.iterdir()):
            most = path.stat().st_size - min(JUDGED, path.stat().st_size // 3)
            lengths = sorted({min(length, most) for length in LENGTHS if length / most < 1.5})
            if given.whole:
                lengths = [most]
            for length in lengths if not given.lengths else [x for x in lengths if x in given.lengths]:
                if given.only and path.stem not in given.only:
                    continue
                way = given.read_as
                if way == "best":
                    way = better(path, length, Path(folder))
                wanted = [
                    (SIZES[number], steps)
                    for number, each in plan.items()
                    for steps in each
                    if (path.stem, length, way, SIZES[number].width, steps, given.seed) not in there
                ]
                if not wanted:
                    continue
                part, dataset = dataset_of(path, length, way, Path(folder))
                before = {"ngram": ngram(dataset), "start": start(dataset, way)}
                for size, steps in wanted:
                    row = one(
                        part,
                        dataset,
                        size,
                        steps=steps,
                        way=way,
                        device=given.device,
                        seed=given.seed,
                    )
                    keep_row({"text": path.stem, "length": length, **before, **row}, done, given.out)


def main() -> None:
    """See above."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--texts", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--like", type=Path, help="the same runs as in this file")
    parser.add_argument("--dial", type=Path, help="no new runs but pilots: those of regret.py in this file")
    parser.add_argument("--plan", choices=PLANS, default="small")
    parser.add_argument("--read-as", choices=[*WAYS, "best"], default="bytes")
    parser.add_argument("--whole", action="store_true", help="only the whole of each text")
    parser.add_argument("--only", nargs="*")
    parser.add_argument("--lengths", type=int, nargs="*")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    given = parser.parse_args()
    of_dial(given) if given.dial else run(given)


if __name__ == "__main__":
    main()
