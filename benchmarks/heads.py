"""Each head on both made-up worlds, beside the best loss that is possible there.

    python benchmarks/heads.py                                 # what each family can reach at best
    python benchmarks/heads.py RUNS [--seeds 3] [key=value …]    # and what trained models reach

A run that stands in RUNS already is read, so a script that was stopped goes on where it was. The recipe is
forecast-demo, with fewer steps. Where a head cannot reach the optimum, the reason is measured: what its family costs on
a normal distribution, and what the best normal distributions reach in the switching world, whose density is a mixture.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

import octavo
from common import finish, is_override, machine, mean, print_table
from octavo.config.parts import parts
from octavo.ground.console import Console
from octavo.model.heads import VectorOutputConfig
from octavo.synthesis.dynamics import Switching, normal_log_density

WORLDS = ("linear", "switching")
OURS = (
    "training.steps=500",
    "model.layers=1",
    "model.width=32",
    "model.context=48",
    "objective.origins=4",
    "objective.paths=10",
    "objective.horizons=[1]",
)


def heads() -> list[str]:
    """The registered distributions of numbers."""
    return [kind for kind, config in parts("output").items() if issubclass(config, VectorOutputConfig)]


def evaluated(world: str, head: str, seed: int, folder: Path, overrides: list[str]) -> dict[str, Any]:
    """The evaluation of a run; one that is finished already is read."""
    out = folder / f"{world}-{head}-{seed}"
    if not (out / "evaluation.json").is_file():
        resume = (out / "config.yaml").is_file()
        chosen = [
            f"corpus.world={world}",
            f"model.output={{kind: {head}, channels: chained}}",
            f"seed={seed}",
        ]
        given = [*OURS, *chosen, *overrides]
        octavo.train(
            "forecast-demo",
            out=out,
            overrides=given,
            resume=resume,
            console=Console(quiet=True),
        )
    return json.loads((out / "evaluation.json").read_text(encoding="utf-8"))


def family_cost(kind: str) -> float:
    """Nats that the best member of a family loses on a normal distribution (Kullback–Leibler), by a grid."""
    family = parts("output")[kind]().family()
    grid = torch.linspace(-6, 6, 4001, dtype=torch.float64)
    weights = torch.exp(-0.5 * grid**2)
    weights = weights / weights.sum()
    entropy = 0.5 * math.log(2 * math.pi * math.e)
    raw = torch.zeros(family.size, dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.LBFGS([raw], max_iter=300, history_size=30, line_search_fn="strong_wolfe")

    def loss() -> Tensor:
        optimizer.zero_grad()
        value = -(weights * family.log_prob(raw.expand(len(grid), -1), grid)).sum()
        value.backward()
        return value

    optimizer.step(loss)
    return float(loss().detach()) - entropy


def normal_limit(rows: np.ndarray) -> Iterator[float]:
    """−ln of the density of each row but the first by normal distributions with the moments of the true one: x, and y
    given x. No head that gives one normal for each channel does better on average."""
    world, weights, before = Switching(), np.array([0.5, 0.5]), np.zeros(2)
    change = np.array([[1 - world.change, world.change], [world.change, 1 - world.change]])
    for place, row in enumerate(rows.astype(np.float64)):
        weights = change.T @ weights
        means = np.array([turn @ before for turn in world.turns])
        spreads = np.array(world.drives)
        if place:
            found = matched(row[0], weights, means[:, 0], spreads[:, 0, 0])
            first = np.array(
                [log_normal(row[0], m, s) for m, s in zip(means[:, 0], spreads[:, 0, 0], strict=True)]
            )
            given = weights * np.exp(first - first.max())
            slope = spreads[:, 0, 1] / spreads[:, 0, 0]
            after = means[:, 1] + slope * (row[0] - means[:, 0])
            left = spreads[:, 1, 1] - slope * spreads[:, 0, 1]
            yield -found - matched(row[1], given / given.sum(), after, left)
        each = np.array([normal_log_density(row, m, s) for m, s in zip(means, spreads, strict=True)])
        joint = weights * np.exp(each - each.max())
        weights, before = joint / joint.sum(), row


def log_normal(x: float, mean: float, variance: float) -> float:
    """Log density."""
    return -0.5 * ((x - mean) ** 2 / variance + math.log(2 * math.pi * variance))


def matched(x: float, weights: np.ndarray, means: np.ndarray, variances: np.ndarray) -> float:
    """The same of the normal distribution that has a mixture's mean and variance."""
    mean = float(weights @ means)
    return log_normal(x, mean, float(weights @ (variances + (means - mean) ** 2)))


def limits() -> dict[str, float]:
    """Nats per step of the true density in the switching world and of the best normal distributions."""
    world = Switching()
    rows = world.draw(20_000, np.random.default_rng(0)).astype(np.float32)
    optimum = -float(world.log_density(rows)[1:].mean())
    return {"true density": optimum, "best normal distributions": float(np.mean(list(normal_limit(rows))))}


def row_of(world: str, head: str, found: list[dict[str, Any]]) -> dict[str, Any]:
    """A head's losses beside the optimum."""
    losses, optimum = [one["val_loss"] for one in found], found[0]["source_entropy"]
    over = [100 * (loss / optimum - 1) for loss in losses]
    return {
        "world": world,
        "head": head,
        "nats per step": mean(losses, 3),
        "optimum": f"{optimum:.3f}",
        "above it": f"{mean(over)} %",
        "best simple predictor": f"{min(one['loss'] for one in found[0]['baselines'].values()):.3f}",
    }


def main() -> None:
    """Train what is missing and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "folder", type=Path, nargs="?", help="of the runs; without it, what families can reach"
    )
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--worlds", nargs="*", choices=WORLDS, default=WORLDS)
    parser.add_argument("--heads", nargs="*", choices=heads(), default=heads())
    overrides = [word for word in sys.argv[1:] if is_override(word)]
    options = parser.parse_args([word for word in sys.argv[1:] if not is_override(word)])
    costs = {kind: round(2 * family_cost(kind), 4) for kind in heads()}
    print_table([{"head": kind, "nats lost on two normal channels": cost} for kind, cost in costs.items()])
    best = limits()
    print_table([{"switching world": name, "nats per step": round(value, 3)} for name, value in best.items()])
    rows = []
    if options.folder is not None:
        found = {
            (world, head): [
                evaluated(world, head, seed, options.folder, overrides)
                for seed in range(1, options.seeds + 1)
            ]
            for world in options.worlds
            for head in options.heads
        }
        rows = [row_of(*key, each) for key, each in found.items()]
        print_table(rows)
    finish({"machine": machine(), "rows": rows, "family_cost": costs, "limits": best})


if __name__ == "__main__":
    main()
