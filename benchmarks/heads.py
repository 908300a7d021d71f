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
from octavo.model.heads import VectorOutputConfig
from octavo.run.data import build_dataset, evaluated_on
from octavo.run.run import Run
from octavo.tasks.forecast.dynamics import Switching, normal_log_density
from octavo.tasks.forecast.objective import head_of
from octavo.training.objective import logits_of
from octavo.util.terminal import Console

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


def family_of(kind: str) -> Any:
    """A distribution of numbers, as its part makes it by default."""
    part: Any = parts("output")[kind]
    return part().family()


def family_cost(kind: str) -> float:
    """Nats that the best member of a family loses on a normal distribution (Kullback–Leibler), by a grid."""
    family = family_of(kind)
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


def conditionals(rows: np.ndarray) -> Iterator[tuple[float, float, np.ndarray, np.ndarray, np.ndarray]]:
    """Of each row in the switching world but the first, of x, and of y given x: the number, the one that stands a row
    before it, and the true mixture's weights, means and variances (2,)."""
    world, weights, before = Switching(), np.array([0.5, 0.5]), np.zeros(2)
    change = np.array([[1 - world.change, world.change], [world.change, 1 - world.change]])
    for place, row in enumerate(rows.astype(np.float64)):
        weights = change.T @ weights
        means = np.array([turn @ before for turn in world.turns])
        spreads = np.array(world.drives)
        if place:
            first = log_normal(row[0], means[:, 0], spreads[:, 0, 0])
            given = weights * np.exp(first - first.max())
            slope = spreads[:, 0, 1] / spreads[:, 0, 0]
            after = means[:, 1] + slope * (row[0] - means[:, 0])
            yield row[0], before[0], weights, means[:, 0], spreads[:, 0, 0]
            left = spreads[:, 1, 1] - slope * spreads[:, 0, 1]
            yield row[1], before[1], given / given.sum(), after, left
        each = np.array([normal_log_density(row, m, s) for m, s in zip(means, spreads, strict=True)])
        joint = weights * np.exp(each - each.max())
        weights, before = joint / joint.sum(), row


def log_normal(x: Any, mean: Any, variance: Any) -> Any:
    """Log density."""
    return -0.5 * ((x - mean) ** 2 / variance + np.log(2 * np.pi * variance))


def ndtr(z: np.ndarray) -> np.ndarray:
    """The standard normal distribution's probability below z."""
    return torch.special.ndtr(torch.from_numpy(np.asarray(z))).numpy()


def below(x: np.ndarray, weights: np.ndarray, means: np.ndarray, variances: np.ndarray) -> np.ndarray:
    """A mixture's probability below x, of mixtures (N, 2) at x (N, E): (N, E)."""
    z = (x[..., None] - means[:, None]) / np.sqrt(variances)[:, None]
    return (weights[:, None] * ndtr(z)).sum(axis=-1)


def limits() -> dict[str, float]:
    """Nats per step in the switching world, channel after channel: of the true density, of normal distributions with
    its moments (no head that gives one normal for each channel does better), of bins with its masses, and of straight
    lines between its quantiles."""
    rows = Switching().draw(20_000, np.random.default_rng(0)).astype(np.float32)
    x, before, weights, means, variances = (np.array(each) for each in zip(*conditionals(rows), strict=True))
    mixture = weights, means, variances
    scales = np.resize(np.diff(rows.astype(np.float64), axis=0).std(axis=0), len(x))  # of x and y in turn
    mean = (weights * means).sum(axis=1)
    spread = (weights * (variances + (means - mean[:, None]) ** 2)).sum(axis=1)
    return {
        "true density": -float(
            np.log((weights * np.exp(log_normal(x[:, None], means, variances))).sum(1)).mean() * 2
        ),
        "best normal distributions": -float(log_normal(x, mean, spread).mean() * 2),
        "bins with the true masses": -float(
            (in_bins((x - before) / scales, before, scales, mixture)).mean() * 2
        ),
        "lines between the true quantiles": -float(by_quantiles(x, mixture).mean() * 2),
    }


def in_bins(
    u: np.ndarray, base: np.ndarray, scales: np.ndarray, mixture: tuple[np.ndarray, ...]
) -> np.ndarray:
    """Log density of numbers that are u scales from their base, by the head's bins with a mixture's masses."""
    family = family_of("bins")
    edges = np.append(family.left.numpy(), family.left[-1] + family.widths[-1]).astype(np.float64)
    edges[[0, -1]] = -1e6, 1e6
    masses = np.diff(below(base[:, None] + scales[:, None] * edges, *mixture), axis=1)
    raw = torch.from_numpy(np.log(np.maximum(masses, 1e-12)))
    return family.log_prob(raw, torch.from_numpy(u)).numpy() - np.log(scales)


def by_quantiles(x: np.ndarray, mixture: tuple[np.ndarray, ...]) -> np.ndarray:
    """Log density by straight lines between a mixture's quantiles, and exponential tails with its mean excess."""
    weights, means, variances = mixture
    levels = family_of("quantiles").levels.numpy().astype(np.float64)
    edge, deviations = levels[0], np.sqrt(variances)
    found = np.empty(len(x))
    for number, places in enumerate(quantiles(levels, *mixture)):
        at = int(np.searchsorted(places, x[number], side="right"))
        if 0 < at < len(levels):
            found[number] = math.log((levels[1] - levels[0]) / (places[at] - places[at - 1]))
            continue
        side, place = (1, places[-1]) if at else (-1, places[0])
        z = side * (means[number] - place) / deviations[number]
        density = np.exp(-0.5 * z**2) / math.sqrt(2 * math.pi)
        excess = (weights[number] * deviations[number] * (z * ndtr(z) + density)).sum() / edge
        found[number] = math.log(edge / excess) - abs(x[number] - place) / excess
    return found


def quantiles(
    levels: np.ndarray, weights: np.ndarray, means: np.ndarray, variances: np.ndarray
) -> np.ndarray:
    """(N, K) of mixtures (N, 2), by halving."""
    ends = means.min(axis=1) - 20, means.max(axis=1) + 20
    low, high = (np.repeat(end[:, None], len(levels), axis=1) for end in ends)
    for _ in range(60):
        middle = (low + high) / 2
        under = below(middle, weights, means, variances) < levels
        low, high = np.where(under, middle, low), np.where(under, high, middle)
    return low


def pinball_above(folder: Path) -> float:
    """By how many per cent the pinball loss of a run with quantiles is above that of the true ones, in the switching
    world, on the validation split."""
    run = Run.open(folder)
    validation = build_dataset(run.config, Console(quiet=True)).validation
    head: Any = head_of(run.model.eval())
    own = []
    with torch.no_grad():
        for arrays in evaluated_on(validation, run.config, run.tokenizer, rows=64):
            batch: Any = arrays.to("cpu")
            found = head.pinball(logits_of(run.model, batch), batch.inputs, batch.values) * head.scale
            own.append(found[(batch.targets >= 0) & ~batch.values.isnan().any(dim=-1)])
    rows = np.asarray(validation.tokens)
    series = np.split(rows, np.flatnonzero(np.isnan(rows[:, 0])) + 1)
    steps = [step for each in series for step in conditionals(each[np.isfinite(each[:, 0])])]
    x, _, *mixture = (np.array(each) for each in zip(*steps, strict=True))
    levels = head.family.levels.numpy().astype(np.float64)
    error = x[:, None] - quantiles(levels, *mixture)
    best = 2 * np.maximum(levels * error, (levels - 1) * error).mean()
    return 100 * (float(torch.cat(own).mean()) / best - 1)


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
    rows, by_pinball = [], []
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
        by_pinball = [
            pinball_above(options.folder / f"switching-quantiles-{seed}")
            for seed in range(1, options.seeds + 1)
            if ("switching", "quantiles") in found
        ]
        if by_pinball:
            print(
                f"switching, quantiles, by the pinball loss: {mean(by_pinball)} % above the true quantiles'"
            )
    finish(
        {
            "machine": machine(),
            "rows": rows,
            "pinball_above": by_pinball,
            "family_cost": costs,
            "limits": best,
        }
    )


if __name__ == "__main__":
    main()
