"""The runs that the law of `octavo train --minutes` is fitted on, and the fit.

    python benchmarks/law.py run --texts FOLDER --out runs.jsonl [--plan small] [--only NAME] [--device cuda]
    python benchmarks/law.py run --texts FOLDER --out runs.jsonl --like earlier.jsonl [--only NAME]
    python benchmarks/law.py fit --runs runs.jsonl
    python benchmarks/law.py compare --runs others.jsonl

`run` trains the family's sizes on the beginnings of each text in FOLDER for as many steps as a plan says, in one
process and one thread, and adds a line a run to the file; what is there already is not trained again. With `--like`
it takes the runs of a file anew, for when the family has changed. `fit` also says how far the law is off for texts of
other kinds, alone and when the shortest run of a text, a pilot, has moved it. `compare` sets the shipped law beside
runs that it was not fitted on.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from common import finish, keep_row, print_table, rows_in
from octavo.auto.facts import counting
from octavo.auto.family import BYTES, PAIRS, SIZES, Size, dropout_for, parameters_of, recipe_of
from octavo.auto.law import NAMES, POINT, as_plain, shares, shipped_law, slopes
from octavo.auto.pilot import SIZE, STEPS, Pilot
from octavo.auto.promise import LIKELY
from octavo.config import check
from octavo.evaluation.baselines import HIGHEST
from octavo.ground.console import Console
from octavo.model.kneser_ney import KneserNey, best_order
from octavo.runs.data import build_batches, build_dataset, held_out_of, with_rows_held_out
from octavo.runs.metrics import evaluate_split
from octavo.runs.train import fresh_model
from octavo.training.loop import training_steps
from octavo.training.runtime import Runtime, keep_memory
from octavo.training.work import StepOptions

LENGTHS = (30_000, 100_000, 300_000, 1_000_000, 3_000_000, 10_000_000)
JUDGED = 100_000
"""Bytes of the validation split."""
PLANS = {
    "short": {0: (300, 1200), 1: (200, 800), 2: (150, 600)},
    "small": {0: (300, 1200, 5000), 1: (200, 800, 3000), 2: (150, 600, 2400)},
    "medium": {3: (300,)},
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


def start(dataset: Any, way: str) -> float:
    """Bits per byte there of a model before its first step."""
    split = dataset.validation
    return Pilot(dataset, WAYS[way]).before * (len(split.tokens) - 1) / split.bytes


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
    losses = [info.loss for info in loop]
    seconds = time.process_time() - began
    recipe = recipe.model_copy(update={"evaluation": recipe.evaluation.model_copy(update={"tokens": None})})
    found = evaluate_split(model, dataset.validation, recipe, dataset.tokenizer, runtime)
    return {
        **dataclasses.asdict(size),
        "read_as": way,
        "dropout": dropout,
        "steps": steps,
        "parameters": sum(p.numel() for p in model.parameters()),
        "tokens": steps * size.step_tokens,
        "train_tokens": len(dataset.train.tokens),
        "vocabulary": dataset.tokenizer.vocab_size,
        "train_bytes": dataset.train.bytes,
        "validation_bytes": dataset.validation.bytes,
        "bits_per_byte": found.bits_per_byte,
        "train_loss": statistics.mean(losses[-20:]),
        "seed": seed,
        "cpu_seconds": round(seconds, 1),
    }


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
            for length in lengths if not given.lengths else [x for x in lengths if x in given.lengths]:
                wanted = [
                    (SIZES[number], steps)
                    for number, each in plan.items()
                    for steps in each
                    if (path.stem, length, given.read_as, SIZES[number].width, steps, given.seed) not in there
                ]
                if not wanted or (given.only and path.stem not in given.only):
                    continue
                part, dataset = dataset_of(path, length, given.read_as, Path(folder))
                before = {"ngram": ngram(dataset), "start": start(dataset, given.read_as)}
                for size, steps in wanted:
                    row = one(
                        part,
                        dataset,
                        size,
                        steps=steps,
                        way=given.read_as,
                        device=given.device,
                        seed=given.seed,
                    )
                    keep_row({"text": path.stem, "length": length, **before, **row}, done, given.out)


START = {
    "floor": 0.75,
    "size": 0.1,
    "size_power": 0.3,
    "data": 0.25,
    "data_power": 0.4,
    "fit": 0.05,
    "fit_power": 0.3,
    "blend": 0.092,
    "passes_power": 0.7,
}
"""Where the fit begins, and what it is pulled to."""
WEAK, STRONG = 0.004, 0.075
"""How hard: as runs would that are off by a factor of e, or by a fifth. `blend` is known from elsewhere: a network as
good as the n-gram (1.517 and 1.5165 nats on TinyShakespeare) has 1.42 together with it, 0.936 of either."""


def fitted(points: np.ndarray, wanted: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(values, covariance) of the law by damped least squares; all values stay positive."""
    start = np.log(np.array([START[name] for name in NAMES]))
    pull = np.array([STRONG if name == "blend" else WEAK for name in NAMES])
    logs, damping = start.copy(), 1.0

    def rest(logs: np.ndarray) -> np.ndarray:
        return np.concatenate((shares(np.exp(logs), points) - wanted, pull * (logs - start)))

    def slope(logs: np.ndarray) -> np.ndarray:
        return np.concatenate((slopes(np.exp(logs), points) * np.exp(logs), np.diag(pull)))

    found = rest(logs)
    for _ in range(500):
        each = slope(logs)
        square = each.T @ each
        move = np.linalg.solve(square + damping * np.diag(np.diag(square) + 1e-9), -each.T @ found)
        after = rest(logs + np.clip(move, -1, 1))
        if after @ after < found @ found:
            logs, found, damping = logs + np.clip(move, -1, 1), after, max(damping / 3, 1e-9)
        else:
            damping *= 4
    variance = float(found[: len(wanted)] @ found[: len(wanted)]) / max(1, len(wanted) - len(logs))
    each = slope(logs) / np.exp(logs)
    return np.exp(logs), variance * np.linalg.inv(each.T @ each)


def read_runs(paths: list[Path]) -> tuple[list[Row], np.ndarray, np.ndarray]:
    """The runs of some files; their points (R, POINT), and the share (R,) that each came to."""
    rows = [row for path in paths for row in rows_in(path)]
    for row in rows:
        size = Size(*(row[name] for name in ("width", "layers", "context", "batch")))
        row["parameters"] = parameters_of(size, row["vocabulary"])
        row["bytes"] = row["tokens"] * row["train_bytes"] / row["train_tokens"]
    points = np.array([[row[name] for name in POINT] for row in rows], dtype=np.float64)
    return rows, points, np.array([row["bits_per_byte"] / row["start"] for row in rows])


OTHER_KINDS = ("tunes", "json", "pidgin")
"""Texts that the law is not fitted on: they say how far it is off for such, with and without a pilot."""
RULED = ("pidgin",)
"""Of these the texts that are no one's: how far the law is off for them says nothing of those that people have."""


def after_pilot(rows: list[Row], points: np.ndarray, wanted: np.ndarray, values: np.ndarray) -> Row | None:
    """How far a law is off for the runs of one text, before and after its first run, the pilot, has moved it."""
    found = [
        n for n, row in enumerate(rows) if (row["width"], row["steps"], row["seed"]) == (SIZE.width, STEPS, 1)
    ]
    if not found:
        return None
    (pilot,), expected = found, shares(values, points)
    rest = np.arange(len(rows)) != pilot
    off, moved = wanted - expected, wanted - expected * wanted[pilot] / expected[pilot]
    return {
        "text": rows[0]["text"],
        "length": rows[0]["length"],
        "pilot": round(float(off[pilot]), 4),
        "others": round(float(np.sqrt(np.mean(off[rest] ** 2))), 4),
        "moved": round(float(np.sqrt(np.mean(moved[rest] ** 2))), 4),
    }


def fit(given: argparse.Namespace) -> None:
    """Fit the law, and each text's residuals with that text left out; writes law.json."""
    rows, points, wanted = read_runs(given.runs)
    names = np.array([row["text"] for row in rows])
    like = ~np.isin(names, list(OTHER_KINDS))
    values, covariance = fitted(points[like], wanted[like])
    table: list[Row] = []
    pilots: list[Row] = []
    means: dict[str, float] = {}
    rests: list[float] = []
    for text in sorted(set(names)):
        here = names == text
        others = values if text in OTHER_KINDS else fitted(points[like & ~here], wanted[like & ~here])[0]
        left = wanted[here] - shares(others, points[here])
        means[text] = float(left.mean())
        rests += [] if text in OTHER_KINDS else (left - left.mean()).tolist()
        table.append(
            {"text": text, "runs": int(here.sum()), "mean": round(left.mean(), 4), "sd": round(left.std(), 4)}
        )
        for length in sorted({row["length"] for row in rows if row["text"] == text}):
            part = [n for n in np.flatnonzero(here) if rows[n]["length"] == length]
            found = after_pilot([rows[n] for n in part], points[part], wanted[part], others)
            pilots += [found] if found else []
    beyond = [each["moved"] / abs(each["pilot"]) for each in pilots if each["text"] in OTHER_KINDS]
    law = as_plain(
        values.tolist(),
        covariance,
        residual=root_mean_square(rests),
        text=root_mean_square([mean for text, mean in means.items() if text not in RULED]),
        alike=root_mean_square([mean for text, mean in means.items() if text not in OTHER_KINDS]),
        beyond=root_mean_square(beyond),
        ranges={
            name: (float(points[like, n].min()), float(points[like, n].max())) for n, name in enumerate(POINT)
        },
    )
    given.law.write_text(json.dumps(law, indent=1) + "\n")
    residuals = wanted - shares(values, points)
    print_table(table)
    print_table(pilots)
    finish(
        {
            "runs": int(like.sum()),
            **{name: law[name] for name in ("values", "residual", "text", "alike", "beyond")},
            "residual_of_all": round(float(residuals[like].std()), 4),
            "worst": [
                {
                    **{name: rows[n][name] for name in ("text", "length", "width", "steps")},
                    "off": round(residuals[n], 4),
                }
                for n in np.argsort(-np.abs(residuals) * like)[:10]
            ],
        }
    )


def compare(given: argparse.Namespace) -> None:
    """What the shipped law says of runs that it was not fitted on, and what came out."""
    (rows, points, wanted), law = read_runs(given.runs), shipped_law()
    table = [
        {
            **{name: row[name] for name in ("text", "read_as", "width", "parameters", "steps")},
            "foretold": round(row["start"] * law.share(*point), 4),
            "within": round(LIKELY * row["start"] * law.error(*point), 4),
            "came out": round(row["bits_per_byte"], 4),
            "off": round(float(share / law.share(*point) - 1), 4),
        }
        for row, point, share in zip(rows, points.tolist(), wanted, strict=True)
    ]
    print_table(table)
    finish({"rows": table})


def root_mean_square(found: list[float]) -> float:
    """Of numbers around nothing."""
    return float(np.sqrt(np.mean(np.square(found))))


def main() -> None:
    """See above."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    verbs = parser.add_subparsers(dest="verb", required=True)
    runs = verbs.add_parser("run")
    runs.add_argument("--texts", type=Path, required=True)
    runs.add_argument("--out", type=Path, required=True)
    runs.add_argument("--like", type=Path, help="the same runs as in this file")
    runs.add_argument("--plan", choices=PLANS, default="small")
    runs.add_argument("--read-as", choices=WAYS, default="bytes")
    runs.add_argument("--only", nargs="*")
    runs.add_argument("--lengths", type=int, nargs="*")
    runs.add_argument("--seed", type=int, default=1)
    runs.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    fits, compares = verbs.add_parser("fit"), verbs.add_parser("compare")
    for verb in (fits, compares):
        verb.add_argument("--runs", type=Path, nargs="+", required=True)
    fits.add_argument("--law", type=Path, default=Path("src/octavo/auto/law.json"))
    given = parser.parse_args()
    {"run": run, "fit": fit, "compare": compare}[given.verb](given)


if __name__ == "__main__":
    main()
