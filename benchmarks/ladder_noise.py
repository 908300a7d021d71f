"""How often a ladder sees a trend where there is none, and how often it finds one, on made-up rungs.

    python benchmarks/ladder_noise.py [--draws 4000]

Two sizes and three lengths, three seeds of each arm, one change: the shape of the shipped ladders. Trends are in noise
deviations for each doubling.
"""

from __future__ import annotations

import argparse

import numpy as np

from common import finish, print_table
from octavo.studies.ladder_verdict import Step, slopes
from octavo.studies.statistics import Arm

SIZES, LENGTHS = (2e5, 3.2e6), (300, 600, 1200)
WORLDS = {
    "equal": [1, 1, 1, 1, 1, 1],
    "the small size 3 times": [3, 3, 3, 1, 1, 1],
    "the shortest 5 times": [5, 1, 1, 5, 1, 1],
    "one rung 10 times": [10, 1, 1, 1, 1, 1],
}


def share(noise: list[int], seeds: int, trend: float, draws: int, *, heavy: bool) -> float:
    """The share of ladders that see a trend; with a `trend`, one over the parameters."""
    random, seen = np.random.default_rng([seeds, *noise]), 0
    rungs = [(parameters, steps) for parameters in SIZES for steps in LENGTHS]
    for _ in range(draws):
        values = (
            random.standard_t(3, (6, 2, seeds)) / 3**0.5 if heavy else random.standard_normal((6, 2, seeds))
        )
        climbed = [
            Step(
                parameters,
                steps,
                Arm(scale * own[0]),
                Arm(scale * own[1] + trend * np.log2(parameters / SIZES[0])),
            )
            for (parameters, steps), scale, own in zip(rungs, noise, values, strict=True)
        ]
        trends = slopes(climbed, 2)
        seen += any(slope.trend != "no trend seen" for slope in (trends[:1] if trend else trends))
    return seen / draws


def main() -> None:
    """Print the table, and the same as a JSON line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--draws", type=int, default=4000)
    draws = parser.parse_args().draws
    rows = [
        {
            "noise": name,
            "seeds": seeds,
            "false alarms": share(noise, seeds, 0, draws, heavy=False),
            "with t(3)": share(noise, seeds, 0, draws, heavy=True),
            "found, 0.5 a doubling": share(noise, seeds, 0.5, draws // 4, heavy=False),
            "found, 1 a doubling": share(noise, seeds, 1, draws // 4, heavy=False),
        }
        for name, noise in WORLDS.items()
        for seeds in (3, 5)
    ]
    print_table(rows)
    finish({"rows": rows, "draws": draws})


if __name__ == "__main__":
    main()
