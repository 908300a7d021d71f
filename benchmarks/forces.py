"""Forces under runners: each person in turn is held out, and forecast by a model of all others.

    python benchmarks/forces.py --data FOLDER --out RUNS [--persons RBDS001 …] [--seeds 1 2] [key=value …]

It goes on where it was stopped: finished runs are read, others resumed. The recipe is forces-cpu, evaluated at its last
step alone, so that nothing is chosen by the person who is held out.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np

import octavo
from octavo.ground.console import Console

MOST = 10**9
"""More steps than any run has: only its last one is evaluated, as always."""

SHOWN = ("nll", "crps", "energy", "rmse", "mase")


def trained(data: Path, out: Path, person: str, overrides: list[str], seed: int) -> dict[str, Any]:
    """The evaluation of the run that never saw a person."""
    folder = out / f"{person}-{seed}"
    if not (folder / "evaluation.json").is_file():
        held_out = [f"corpus.held_out=[{person}]", f"seed={seed}", f"evaluation.every={MOST}", *overrides]
        resume = (folder / "config.yaml").is_file()
        octavo.train("forces-cpu", data, folder, overrides=held_out, resume=resume, console=Console())
    return json.loads((folder / "evaluation.json").read_text(encoding="utf-8"))


def table(found: list[dict[str, Any]]) -> list[str]:
    """Means over persons by horizon and predictor, and over how many of them each beats the model's CRPS."""
    lines = []
    first = found[0]["forecast"]
    for place, horizon in enumerate(first["horizons"]):
        lines += [f"\n{horizon} steps ahead ({1000 * horizon / first['rate']:.3g} ms)\n"]
        lines += [
            "| predictor | NLL | CRPS | energy score | RMSE | MASE | in 50 % | in 80 % | in 95 % |",
            "|" + " --- |" * 9,
        ]
        by_name: dict[str, list[dict[str, Any]]] = {}
        for one in found:
            for name, rows in one["forecast"]["predictors"].items():
                name = "seasonal naive" if name.startswith("seasonal") else name
                by_name.setdefault(name, []).append(rows[place])
        order = sorted(by_name.items(), key=lambda item: np.mean([row["crps"] for row in item[1]]))
        for name, rows in order:
            cells = []
            for key in SHOWN:
                values = np.array([row[key] for row in rows])
                error = values.std(ddof=1) / np.sqrt(len(values)) if len(values) > 1 else np.nan
                cells.append(f"{values.mean():.2f} ± {error:.2f}")
            cells += [
                f"{100 * np.mean([row['coverage'][level] for row in rows]):.0f}"
                for level in ("50", "80", "95")
            ]
            lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return lines


def main() -> None:
    """Train what is missing and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--persons", nargs="*", default=[f"RBDS{number:03d}" for number in range(1, 7)])
    parser.add_argument("--seeds", type=int, nargs="*", default=[1337])
    options, overrides = parser.parse_known_args()
    found = [
        trained(options.data, options.out, person, overrides, seed)
        for seed in options.seeds
        for person in options.persons
    ]
    print("\n".join(table(found)))
    losses = [one["val_loss"] for one in found]
    best = [min(each["loss"] for each in one["baselines"].values()) for one in found]
    print(json.dumps({"persons": options.persons, "val_loss": losses, "best_baseline": best}))


if __name__ == "__main__":
    main()
