"""Forces under runners: each person in turn is held out, and forecast by a model of all others.

    python benchmarks/forces.py --data FOLDER --out RUNS [--persons RBDS001 …] [--seeds 1 2] [key=value …]

It goes on where it was stopped: finished runs are read, others resumed. The recipe is forces-cpu, evaluated at its last
step alone, so that nothing is chosen by the person who is held out.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

import octavo
from common import finish, is_override, machine, mean
from octavo.util.terminal import Console

MOST = 10**9
"""More steps than any run has: only its last one is evaluated, as always."""

Found = dict[tuple[int, str], dict[str, Any]]
"""Evaluations by seed and person."""

MODEL = "this model"
SHOWN = ("nll", "crps", "rmse", "scaled_crps", "scaled_energy", "mase")


def trained(data: Path, out: Path, person: str, overrides: list[str], seed: int) -> dict[str, Any]:
    """The evaluation of the run that never saw a person."""
    folder = out / f"{person}-{seed}"
    if not (folder / "evaluation.json").is_file():
        held_out = [f"corpus.held_out=[{person}]", f"seed={seed}", f"evaluation.every={MOST}", *overrides]
        resume = (folder / "config.yaml").is_file()
        octavo.train("forces-cpu", data, folder, overrides=held_out, resume=resume, console=Console())
    return json.loads((folder / "evaluation.json").read_text(encoding="utf-8"))


def rows_of(one: dict[str, Any]) -> dict[str, list[dict[str, Any]]]:
    """The scores of each predictor at each horizon; the period of the seasonal one differs between persons."""
    found = one["forecast"]["predictors"].items()
    return {
        "seasonal naive" if name.startswith("seasonal") else name: [in_newtons(row) for row in rows]
        for name, rows in found
    }


def in_newtons(row: dict[str, Any]) -> dict[str, Any]:
    """The scores with means over channels, which all are forces."""
    crps, rmse = (np.array(row[f"{key}_by_channel"]) for key in ("crps", "rmse"))
    return {**row, "crps": crps.mean(), "rmse": np.sqrt(np.square(rmse).mean())}


def table(found: Found) -> list[str]:
    """By horizon and predictor: the mean over persons, for the model with its interval over seeds."""
    lines = []
    first = next(iter(found.values()))["forecast"]
    seeds = sorted({seed for seed, _ in found})
    for place, horizon in enumerate(first["horizons"]):
        lines += [f"\n{horizon} steps ahead ({1000 * horizon / first['rate']:.3g} ms)\n"]
        lines += [
            "| predictor | NLL | CRPS | RMSE | scaled CRPS | scaled energy | MASE | in 50 % | in 80 % | in 95 % |",
            "|" + " --- |" * 10,
        ]
        by_seed = {seed: [rows_of(one) for (own, _), one in found.items() if own == seed] for seed in seeds}
        cells: dict[str, list[str]] = {}
        order: dict[str, float] = {}
        for name in by_seed[seeds[0]][0]:
            rows = {seed: [one[name][place] for one in ones] for seed, ones in by_seed.items()}
            taken = (
                seeds if name == MODEL else seeds[:1]
            )  # the simple ones have no seed but that of their draws
            scores = [[np.mean([row[key] for row in rows[seed]]) for seed in taken] for key in SHOWN]
            inside = [
                100 * np.mean([row["coverage"][level] for seed in taken for row in rows[seed]])
                for level in ("50", "80", "95")
            ]
            cells[name] = [*map(mean, scores), *(f"{share:.0f}" for share in inside)]
            order[name] = float(np.mean(scores[SHOWN.index("crps")]))
        lines += [
            f"| {name} | " + " | ".join(cells[name]) + " |" for name in sorted(order, key=order.__getitem__)
        ]
    return lines


def by_person(found: Found) -> list[str]:
    """Of each person: NLL of the model, mean and interval over seeds, the best simple predictor's, and coverage."""
    first = next(iter(found.values()))["forecast"]
    ahead = [f"{1000 * horizon / first['rate']:.3g} ms" for horizon in first["horizons"]]
    lines = [
        "\n| held out | " + " | ".join(f"NLL at {one} | best simple | in 95 %" for one in ahead) + " |",
        "|" + " --- |" * (1 + 3 * len(ahead)),
    ]
    for person in dict.fromkeys(person for _, person in found):
        ones = [rows_of(one) for (_, own), one in found.items() if own == person]
        cells = []
        for place in range(len(ahead)):
            own_rows = [one[MODEL][place] for one in ones]
            best = min(rows[place]["nll"] for name, rows in ones[0].items() if name != MODEL)
            inside = 100 * np.mean([row["coverage"]["95"] for row in own_rows])
            cells += [mean([row["nll"] for row in own_rows]), f"{best:.2f}", f"{inside:.1f}"]
        lines.append(f"| {person} | " + " | ".join(cells) + " |")
    return lines


def main() -> None:
    """Train what is missing and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--persons", nargs="*", default=[f"RBDS{number:03d}" for number in range(1, 7)])
    parser.add_argument("--seeds", type=int, nargs="*", default=[1337])
    overrides = [word for word in sys.argv[1:] if is_override(word)]
    options = parser.parse_args([word for word in sys.argv[1:] if not is_override(word)])
    found = {
        (seed, person): trained(options.data, options.out, person, overrides, seed)
        for seed in options.seeds
        for person in options.persons
    }
    print("\n".join([*table(found), *by_person(found)]), flush=True)
    losses = {f"{person}, seed {seed}": one["val_loss"] for (seed, person), one in found.items()}
    finish({"machine": machine(), "val_loss": losses})


if __name__ == "__main__":
    main()
