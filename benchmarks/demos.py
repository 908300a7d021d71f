"""The demos of pairs and of numbers, over seeds: how far from the floor they end, and how often attention errs.

    python benchmarks/demos.py RUNS [--recipes translate-demo] [--seeds 3]
    python benchmarks/demos.py RUNS --looks [--seeds 3]

With --looks: of finished runs of translate-demo, what each way to read attention errs, and where the chosen one errs.

A run that stands in RUNS already is read, so a script that was stopped goes on where it was. The seed is that of
weights and batches; the data, and what of them is held out, are the same for all.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from common import finish, machine, mean, print_table
from octavo import Run
from octavo.run.data import build_dataset
from octavo.tasks.translation.alignment import Attended, error_rate
from octavo.tasks.translation.evaluate import JUDGED, sides, truth_of
from octavo.util.terminal import Console
from symbols import evaluated

MODEL = "this model"
Row = dict[str, Any]


def floors(recipe: str, found: list[Row]) -> Row:
    """The loss beside the least that is possible, and beside the best simple predictor."""
    losses, floor = [one["val_loss"] for one in found], found[0]["source_entropy"]
    simple = {name: one["loss"] for name, one in found[0]["baselines"].items() if one["loss"] is not None}
    best = min(simple, key=simple.__getitem__, default=None)  # pairs have none
    return {
        "recipe": recipe,
        "loss": mean(losses, 3),
        "floor": f"{floor:.3f}",
        "above it": f"{mean([100 * (loss / floor - 1) for loss in losses])} %",
        "best simple predictor": "–" if best is None else f"{simple[best]:.3f} ({best})",
    }


def alignments(found: list[Row]) -> list[Row]:
    """How often each way to align errs, against the true alignment."""
    errors = [one["translations"]["alignment"]["error_rates"] for one in found]
    return [
        {"alignment by": way, "error rate": f"{mean([100 * one[way] for one in errors])} %"}
        for way in errors[0]
    ]


def translations(found: list[Row]) -> list[Row]:
    """BLEU of held-out pairs by each way to search."""
    ways = [
        {
            (way["beams"], way["length_penalty"]): way["bleu"]["score"]
            for way in one["translations"]["scores"]["ways"]
        }
        for one in found
        if one["translations"].get("scores")
    ]
    return [
        {"beams": way[0], "length penalty": way[1], "BLEU": mean([one[way] for one in ways])}
        for way in (sorted(ways[0]) if ways else [])
    ]


def ahead(found: list[Row]) -> list[Row]:
    """Of the model and the best simple predictor, by CRPS, at each horizon."""
    rows = []
    for place, horizon in enumerate(found[0]["forecast"]["horizons"]):
        scores = [
            {name: ones[place] for name, ones in one["forecast"]["predictors"].items()} for one in found
        ]
        best = min(
            (name for name in scores[0] if name != MODEL), key=lambda name: scores[0][name]["scaled_crps"]
        )
        rows += [
            {
                "steps ahead": str(horizon),
                "by": name,
                **{
                    label: mean([one[name][key] for one in taken], 3)
                    for key, label in (("nll", "NLL"), ("scaled_crps", "CRPS, usual steps"))
                },
                **{
                    f"in {level} %": mean([100 * one[name]["coverage"][level] for one in taken], 1)
                    for level in ("50", "95")
                },
            }
            for name, taken in ((MODEL, scores), (best, scores[:1]))  # the simple ones have no seed
        ]
    return rows


TABLES: dict[str, tuple[Callable[[list[Row]], list[Row]], ...]] = {
    "translate-demo": (alignments, translations),
    "forecast-demo": (ahead,),
}


def looks(folder: Path) -> tuple[dict[str, float], Counter[tuple[str, str]]]:
    """Of a run: error rates of its held-out pairs by how attention is read; and which words' places the mean of the
    last layer's heads misses, and what it looks at instead."""
    run = Run.open(folder)
    dataset = build_dataset(run.config, Console(quiet=True))
    tokenizer = dataset.tokenizer
    attended = Attended(run.model.cpu(), run.config.model, start=tokenizer.start, end=tokenizer.end)
    pairs = sides(dataset.validation, run.config, tokenizer, JUDGED)
    truths = [truth_of(pair, tokenizer, backwards=False) for pair in pairs]
    every = [attended.of_heads(*pair) for pair in pairs]  # (layers, heads, T + 1, S) of each
    layers, heads = every[0].shape[:2]

    def error(read: Callable[[np.ndarray], np.ndarray], after: int = 0) -> float:
        found = [
            read(one)[after : after + len(target)].argmax(axis=1).tolist()
            for one, (_, target) in zip(every, pairs, strict=True)
        ]
        return error_rate(found, truths)

    last = layers - 1
    errors = {
        f"layer {at + 1}, mean of its heads": error(lambda w, at=at: w[at].mean(axis=0))
        for at in range(layers)
    }
    errors["mean of all layers and heads"] = error(lambda w: w.mean(axis=(0, 1)))
    errors["best single head"] = min(
        error(lambda w, at=at, head=head: w[at, head]) for at in range(layers) for head in range(heads)
    )
    errors["last layer, one position later, which reads the word"] = error(lambda w: w[last].mean(axis=0), 1)
    missed: Counter[tuple[str, str]] = Counter()
    for one, (source, target), truth in zip(every, pairs, truths, strict=True):
        for at, place in enumerate(one[last].mean(axis=0)[: len(target)].argmax(axis=1).tolist()):
            if (place, at) not in truth.possible:
                missed[tokenizer.token_text(int(target[at])), tokenizer.token_text(int(source[place]))] += 1
    return errors, missed


def print_looks(runs: Path, seeds: int) -> None:
    """Tables of `looks`, over seeds."""
    found = [looks(runs / f"translate-demo-{seed}") for seed in range(1, seeds + 1)]
    ways = [
        {"attention read as": way, "error rate": f"{mean([100 * errors[way] for errors, _ in found])} %"}
        for way in found[0][0]
    ]
    print_table(ways)
    most = [
        {
            "seed": seed,
            "misses": missed.total(),
            "most often": ", ".join(f"{word} → {at} {n}" for (word, at), n in missed.most_common(6)),
        }
        for seed, (_, missed) in enumerate(found, 1)
    ]
    print_table(most)
    finish({"machine": machine(), "looks": ways, "missed": most})


def main() -> None:
    """Train what is missing, and print the tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("runs", type=Path)
    parser.add_argument("--recipes", nargs="*", choices=TABLES, default=list(TABLES))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--looks", action="store_true", help="of finished runs, how attention could be read")
    given = parser.parse_args()
    if given.looks:
        print_looks(given.runs, given.seeds)
        return
    document = {}
    for recipe in given.recipes:
        found = [evaluated(recipe, seed, given.runs, None) for seed in range(1, given.seeds + 1)]
        document[recipe] = [[floors(recipe, found)], *(table(found) for table in TABLES[recipe])]
        for rows in filter(None, document[recipe]):
            print_table(rows)
    finish({"machine": machine(), "tables": document})


if __name__ == "__main__":
    main()
