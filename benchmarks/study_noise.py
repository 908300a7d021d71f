"""How often a study sees a difference that is not there, where arms are not equally noisy; and what it sees that is.

python benchmarks/study_noise.py [--studies 20000] [--seed 1]

Studies are drawn without any difference: normal noise or Student's t with three degrees of freedom; one change, half of
the changes or all of them half, one, two, three and five times as noisy as the rest. An alarm is a study in which any
change is seen. Beside today's procedure stand two others on the same numbers: one variance for all arms (Dunnett's
test), and Welch's t with Holm's correction. Power: how often a change that is three noise deviations better is seen,
all arms equally noisy. Then pairs: the same with seeds that agree between the baseline and the change.

Everything is computed for all studies at once; a few of each kind go through `octavo.studies.statistics.compare` too.
"""

from __future__ import annotations

import argparse
import math

import numpy as np
from scipy import stats

from common import finish, print_table
from octavo.studies.chance import Shape, chance, pooled_floor
from octavo.studies.statistics import CLOSE, FEWEST_PAIRS, Arm, compare, default_noise, smallest_visible

CHECKED = 5
RATIOS = (0.5, 1.0, 2.0, 3.0, 5.0)
SHIFT = 3.0


def drawn(
    random: np.random.Generator, tails: str, studies: int, counts: tuple[int, ...], spreads: np.ndarray
) -> list[np.ndarray]:
    """The runs of each arm, (studies, count)."""
    found = []
    for count, spread in zip(counts, spreads, strict=True):
        values = random.standard_normal((studies, count))
        if tails == "t(3)":
            values = random.standard_t(3, (studies, count)) / math.sqrt(3)
        found.append(spread * values)
    return found


def moments(arms: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Means and variances of all arms, (studies, arms)."""
    return np.stack([arm.mean(1) for arm in arms], 1), np.stack([arm.var(1, ddof=1) for arm in arms], 1)


def today(arms: list[np.ndarray], shape: Shape) -> np.ndarray:
    """Which changes are seen (studies, changes): `compare` of arms without documents, for all studies at once."""
    means, variances = moments(arms)
    counts = np.array(shape.counts)
    floor, _ = pooled_floor(variances, counts - 1.0)
    used = np.maximum(variances, floor[:, None]) / counts
    ratios = np.abs(means[:, 1:] - means[:, :1]) / np.sqrt(used[:, 1:] + used[:, :1])
    by_chance = chance(shape, [None] * len(shape.pairs))
    return ratios > np.array([by_chance.critical(change) for change in range(len(shape.pairs))])


def one_variance(arms: list[np.ndarray], shape: Shape) -> np.ndarray:
    """Dunnett's test: one variance for all arms; its critical value from draws of the same test."""

    def ratios(means: np.ndarray, variances: np.ndarray) -> np.ndarray:
        counts = np.array(shape.counts)
        pooled = (variances * (counts - 1)).sum(1) / (counts - 1).sum()
        unit = np.sqrt(1 / counts[1:] + 1 / counts[0])
        return np.abs(means[:, 1:] - means[:, :1]) / (np.sqrt(pooled)[:, None] * unit)

    null = drawn(np.random.default_rng(99), "normal", 100_000, shape.counts, np.ones(len(shape.counts)))
    return ratios(*moments(arms)) > np.quantile(ratios(*moments(null)).max(1), 0.95)


def welch_holm(arms: list[np.ndarray], shape: Shape) -> np.ndarray:
    """Welch's t, each change with its own variance; p-values after Holm."""
    means, variances = moments(arms)
    parts = variances / np.array(shape.counts)
    both = parts[:, 1:] + parts[:, :1]
    own = [part**2 / (count - 1) for part, count in zip(parts.T, shape.counts, strict=True)]
    freedom = both**2 / (np.stack(own[1:], 1) + own[0][:, None])
    p = 2 * stats.t.sf(np.abs(means[:, 1:] - means[:, :1]) / np.sqrt(both), freedom)
    order = p.argsort(axis=1)
    steps = np.maximum.accumulate(np.take_along_axis(p, order, 1) * np.arange(p.shape[1], 0, -1), axis=1)
    seen = np.empty(p.shape, bool)
    np.put_along_axis(seen, order, steps <= 0.05, 1)
    return seen


def checked(arms: list[np.ndarray], seen: np.ndarray) -> None:
    """Raise if `compare` sees anything else in the first studies."""
    for study in range(CHECKED):
        base, *changes = (Arm(arm[study]) for arm in arms)
        slow = [contrast.seen for contrast in compare(base, changes)[1]]
        if compare(base, changes)[0].beyond or slow == seen[study].tolist():
            continue
        raise AssertionError(f"study {study}: {slow} is not {seen[study].tolist()}")


def alarms(changes: int, seeds: int, studies: int, seed: int) -> dict[str, object]:
    """The most frequent alarms of all kinds of noise, and the power."""
    extra = default_noise(seeds, changes)
    shape = Shape((seeds + extra, *[seeds] * changes), (True,) * (changes + 1), (0,) * changes)
    procedures = {"today": today, "one variance": one_variance, "Welch + Holm": welch_holm}
    rates: dict[str, dict[str, float]] = {name: {} for name in procedures}
    random = np.random.default_rng([seed, changes, seeds])
    for tails in ("normal", "t(3)"):
        for many in sorted({1, (changes + 1) // 2, changes}):
            for ratio in RATIOS:
                spreads = np.ones(changes + 1)
                spreads[1 : many + 1] = ratio
                arms = drawn(random, tails, studies, shape.counts, spreads)
                for name, procedure in procedures.items():
                    seen = procedure(arms, shape)
                    rates[name][f"{tails}, {many} of {changes} × {ratio:g}"] = float(seen.any(1).mean())
                    if name == "today":
                        checked(arms, seen)
    arms = drawn(random, "normal", studies, shape.counts, np.ones(changes + 1))
    arms[1] += SHIFT
    row: dict[str, object] = {"changes": changes, "seeds": seeds, "baseline": shape.counts[0]}
    for name, procedure in procedures.items():
        worst = max(rates[name], key=lambda kind: rates[name][kind])
        row[f"{name}: worst"] = round(rates[name][worst], 3)
        row[f"{name}: found"] = round(float(procedure(arms, shape)[:, 0].mean()), 3)
        if name == "today":
            row["where"] = worst
    row["could see"] = round(smallest_visible(changes, seeds, shape.counts[0]), 2)
    return row | {"rates": rates}


def in_pairs(arms: list[np.ndarray], shape: Shape) -> tuple[np.ndarray, np.ndarray]:
    """Of studies of one change: where it is seen, and where pairs decide."""
    base, change = arms
    count = change.shape[1]
    apart = change - base[:, :count]
    one, two = (values - values.mean(1, keepdims=True) for values in (change, base[:, :count]))
    correlation = (one * two).sum(1) / np.sqrt((one**2).sum(1) * (two**2).sum(1))
    decide = (correlation >= CLOSE) & (count >= FEWEST_PAIRS)
    ratios = np.abs(apart.mean(1)) / np.sqrt(apart.var(1, ddof=1) / count)
    critical = chance(shape._replace(pairs=(count,)), [None]).critical(0)
    return np.where(decide, ratios > critical, today(arms, shape)[:, 0]), decide


def pairs(seeds: int, correlation: float, ratio: float, studies: int, seed: int) -> dict[str, object]:
    """One change whose runs agree with the baseline's of the same seed: alarms, and half a deviation found."""
    random = np.random.default_rng([seed, seeds, int(1000 * correlation)])
    shape = Shape((seeds + default_noise(seeds, 1), seeds), (True, True), (0,))
    base = random.standard_normal((studies, shape.counts[0]))
    own = random.standard_normal((studies, seeds))
    change = ratio * (correlation * base[:, :seeds] + math.sqrt(1 - correlation**2) * own)
    seen, decide = in_pairs([base, change], shape)
    for study in range(CHECKED):
        names = tuple(range(shape.counts[0]))
        slow = compare(Arm(base[study], seeds=names), [Arm(change[study], seeds=names[:seeds])])[1][0]
        assert slow.seen == seen[study], f"study {study}: {slow} is not {seen[study]}"
    return {
        "seeds": seeds,
        "correlation": correlation,
        "noise": f"× {ratio:g}",
        "pairs decide": round(float(decide.mean()), 3),
        "alarms": round(float(seen.mean()), 3),
        "alarms without pairs": round(float(today([base, change], shape).mean()), 3),
        "half a deviation found": round(float(in_pairs([base, change + 0.5], shape)[0].mean()), 3),
        "… without pairs": round(float(today([base, change + 0.5], shape).mean()), 3),
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--studies", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    rows = [
        alarms(changes, seeds, arguments.studies, arguments.seed)
        for changes in (1, 3, 8)
        for seeds in (3, 5, 8)
    ]
    print_table([{key: value for key, value in row.items() if key != "rates"} for row in rows])
    together = [
        pairs(seeds, correlation, ratio, arguments.studies, arguments.seed)
        for seeds in (5, 8)
        for correlation in (0.0, 0.5, 0.8, 0.9, 0.97)
        for ratio in (1.0, 3.0)
    ]
    print_table(together)
    finish({"noise": rows, "pairs": together})


if __name__ == "__main__":
    main()
