"""How often a study in which nothing differs sees a difference at one of several looks, as seeds are added to it.

python benchmarks/study_looks.py [--studies 20000] [--seed 1]

Studies as in `study_noise.py`, without documents and pairs, that grow: their first seeds stay. An alarm at a look is a
study in which any change is seen there by today's procedure, which is made for one look. The worst kind of noise is
that with most alarms at any look.
"""

from __future__ import annotations

import argparse

import numpy as np

from common import finish, print_table
from octavo.studies.chance import Shape
from octavo.studies.statistics import default_noise
from study_noise import RATIOS, drawn, today

LOOKS = ((3, 5), (3, 5, 8, 12), (5, 8), (5, 8, 12, 16))
"""Seeds of each variant at each look."""


def alarms(looks: tuple[int, ...], changes: int, studies: int, seed: int) -> dict[str, object]:
    """Of one way to grow: alarms at the first look and at any, all arms equally noisy and in the worst noise."""
    random = np.random.default_rng([seed, changes, *looks])
    baseline = np.maximum.accumulate([seeds + default_noise(seeds, changes) for seeds in looks])
    rates: dict[str, tuple[float, float]] = {}
    for tails in ("normal", "t(3)"):
        for ratio in RATIOS:
            spreads = np.ones(changes + 1)
            spreads[1] = ratio
            most = (int(baseline[-1]), *[looks[-1]] * changes)
            arms = drawn(random, tails, studies, most, spreads)
            seen = []
            for seeds, base in zip(looks, baseline.tolist(), strict=True):
                shape = Shape((base, *[seeds] * changes), (True,) * (changes + 1), (0,) * changes)
                cut = [arm[:, :count] for arm, count in zip(arms, shape.counts, strict=True)]
                seen.append(today(cut, shape).any(1))
            rates[f"{tails}, × {ratio:g}"] = float(seen[0].mean()), float(np.any(seen, axis=0).mean())
    worst = max(rates, key=lambda kind: rates[kind][1])
    first, any_look = rates["normal, × 1"]
    return {
        "changes": changes,
        "looks at seeds": ", ".join(map(str, looks)),
        "first look": round(first, 3),
        "any look": round(any_look, 3),
        "worst: first": round(rates[worst][0], 3),
        "worst: any": round(rates[worst][1], 3),
        "where": worst,
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--studies", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    rows = [alarms(looks, changes, given.studies, given.seed) for changes in (1, 3) for looks in LOOKS]
    print_table(rows)
    finish({"looks": rows})


if __name__ == "__main__":
    main()
