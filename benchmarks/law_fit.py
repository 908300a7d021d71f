"""The fit of the law of `octavo train --minutes`, and how far it is off for texts that were left out of it.

    python benchmarks/law_fit.py --runs results/law.jsonl results/law_few.jsonl ... [--law law.json]
        [--larger results/law_larger.jsonl --table results/law.md]
    python benchmarks/law_fit.py --mixing --runs results/law_mixing.jsonl [--law law.json] [--table law_mixing.md]
    python benchmarks/law_fit.py --runs others.jsonl --compare [--mixing]

The law's numbers and a number of each text's own are fitted together, by least squares of shares; logarithms of the
own numbers are pulled to 0 as Student's t does. A text here is the beginning of one, of some length, read in one way.

With all that begins as a text does left out of the fit: *own* is the text's own number by all of its runs, *off* how
far the law is off for them (root mean square of shares), *held* how many are in the 80 % interval. *pilot* is the
longest run of the smallest size of no more than 1,200 steps; when it has told of the text, the others are off by *after
it*. `--compare` sets the shipped law beside runs that it was not fitted on.
"""

from __future__ import annotations

import argparse
import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy import optimize

from common import finish, print_table, rows_in
from law_page import page
from octavo.auto.facts import LEAST, MOST, SIZE
from octavo.auto.family import Size, parameters_of
from octavo.auto.law import (
    LIKELY,
    NAMES,
    POINT,
    SCATTER,
    TAILS,
    Law,
    as_plain,
    shares,
    shipped_law,
    slopes,
    work,
)

Row = dict[str, Any]
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
    "counted": 0.05,
}
"""Where the fit begins, and what it is pulled to."""
WEAK, STRONG = 0.004, 0.075
"""How hard: as runs would that are off by a factor of e, or by a fifth. `blend` is known from elsewhere: a network as
good as the n-gram (1.517 and 1.5165 nats on TinyShakespeare) has 1.42 together with it, 0.936 of either."""
ROUNDS = 4
"""Of the fit, each with the pull of Student's t as the one before found the own numbers."""
OTHER_KINDS = "chats interface json languages mimes pidgin recordings translations tunes".split()
"""Texts that the law is not fitted on: they say how far it is off for such, with and without a pilot."""
RULED = ("pidgin",)
"""Of these the texts that are no one's: how far the law is off for them says nothing of those that people have."""


class Runs(NamedTuple):
    """Runs: their rows, points (R, POINT), the share (R,) that each came to, and the number (R,) of its text."""

    rows: list[Row]
    points: np.ndarray
    wanted: np.ndarray
    unit: np.ndarray
    texts: list[tuple[Any, ...]]

    def of(self, some: np.ndarray) -> Runs:
        """Those of a mask (R,), texts numbered anew."""
        return runs_of([row for row, here in zip(self.rows, some, strict=True) if here])

    @property
    def names(self) -> np.ndarray:
        """(R,) what each run's text is the beginning of."""
        return np.array([row["text"] for row in self.rows])

    @property
    def pilots(self) -> list[int]:
        """Which runs of one text are as pilots: of the smallest size, and as long; the longest last."""
        found = [
            number
            for number, row in enumerate(self.rows)
            if row["width"] == SIZE.width and LEAST <= row["steps"] <= MOST
        ]
        return sorted(found, key=lambda number: self.rows[number]["steps"])

    def but(self, number: int | None) -> Runs:
        """The others."""
        return self.of(np.arange(len(self.rows)) != (-1 if number is None else number))


def read_runs(paths: list[Path]) -> Runs:
    """The runs of some files."""
    rows = [row for path in paths for row in rows_in(path)]
    for row in rows:
        size = Size(*(row[name] for name in ("width", "layers", "context", "batch")))
        row["parameters"] = parameters_of(size, row["vocabulary"])
        row["bytes"] = row["tokens"] * row["train_bytes"] / row["train_tokens"]
    return runs_of(rows)


def runs_of(rows: list[Row]) -> Runs:
    """Rows with what is made of them."""
    named = [(row["text"], row["length"], row["read_as"]) for row in rows]
    texts = sorted(set(named))
    return Runs(
        rows,
        np.array([[row[name] for name in POINT] for row in rows], dtype=np.float64),
        np.array([row["bits_per_byte"] / row["start"] for row in rows]),
        np.array([texts.index(each) for each in named]),
        texts,
    )


class Scatter(NamedTuple):
    """How runs and texts lie around a law; see `Law`."""

    residual: float
    texts: float
    bend: float
    beyond: float


BEGIN = Scatter(0.006, 0.25, 0.07, 0.15)
"""What the fit begins with."""


class Fit(NamedTuple):
    """Values of the law, logarithms (U,) of the texts' own numbers, and the values' covariance."""

    values: np.ndarray
    own: np.ndarray
    covariance: np.ndarray


def fitted(runs: Runs, around: Scatter = BEGIN) -> Fit:
    """The law, whose values all stay positive, and each text's own number."""
    residual, texts = around.residual, around.texts
    begin = np.log(np.array([START[name] for name in NAMES]))
    pull = np.array([STRONG if name == "blend" else WEAK for name in NAMES]) / residual
    here, many = np.arange(len(runs.wanted)), len(NAMES)
    found = np.concatenate((begin, np.zeros(len(runs.texts))))

    def rest(found: np.ndarray, weights: np.ndarray) -> np.ndarray:
        of_law = shares(np.exp(found[:many]), runs.points)
        missed = (of_law ** np.exp(found[many:])[runs.unit] - runs.wanted) / residual
        return np.concatenate((missed, pull * (found[:many] - begin), weights * found[many:]))

    def slope(found: np.ndarray, weights: np.ndarray) -> np.ndarray:
        of_law, own = shares(np.exp(found[:many]), runs.points), np.exp(found[many:])[runs.unit]
        each = slopes(np.exp(found[:many]), runs.points) * np.exp(found[:many])
        wide = np.zeros((len(here), len(found)))
        wide[:, :many] = (own * of_law ** (own - 1))[:, None] * each / residual
        wide[here, many + runs.unit] = own * of_law**own * np.log(of_law) / residual
        pulls = np.diag(np.concatenate((pull, weights)))
        return np.concatenate((wide, pulls))

    weights = np.full(len(runs.texts), 1 / texts)
    for _ in range(ROUNDS):
        weights = np.sqrt((TAILS + 1) / (TAILS + (found[many:] / texts) ** 2)) / texts
        found = optimize.least_squares(rest, found, jac=slope, args=(weights,), x_scale="jac").x
    each = slope(found, weights)
    scale = np.exp(found[:many])
    covariance = np.linalg.inv(each.T @ each)[:many, :many] * np.outer(scale, scale)
    return Fit(scale, found[many:], covariance)


def residuals(runs: Runs, fit: Fit) -> np.ndarray:
    """(R,) by how much a fit is off for its own runs."""
    return runs.wanted - shares(fit.values, runs.points) ** np.exp(fit.own)[runs.unit]


def residual_of(runs: Runs, fit: Fit) -> float:
    """Their standard deviation, with what the fit itself takes of it."""
    free = len(runs.rows) - len(NAMES) - len(runs.texts)
    return math.sqrt(float(np.sum(residuals(runs, fit) ** 2)) / free)


def own_number(values: np.ndarray, runs: Runs) -> float:
    """The logarithm of a text's own number by its runs alone."""
    of_law = shares(values, runs.points)

    def off(logarithm: float) -> float:
        return float(np.sum((of_law ** math.exp(logarithm) - runs.wanted) ** 2))

    return float(optimize.minimize_scalar(off, bounds=(-4, 4), method="bounded").x)


def scale_of(found: np.ndarray) -> float:
    """Of Student's t around nothing, by what was found (n,): the likeliest."""

    def unlikely(log_scale: float) -> float:
        scaled = found / math.exp(log_scale)
        return float(np.sum(log_scale + (TAILS + 1) / 2 * np.log1p(scaled**2 / TAILS)))

    return math.exp(optimize.minimize_scalar(unlikely, bounds=(-5, 2), method="bounded").x)


def law_of(runs: Runs, around: Scatter) -> tuple[Law, Fit]:
    """The law of some runs, fitted with what is known of how they lie around it."""
    fit = fitted(runs, around)
    ends = zip(POINT, runs.points.min(axis=0).tolist(), runs.points.max(axis=0).tolist(), strict=True)
    law = Law(
        values=tuple(fit.values.tolist()),
        covariance=tuple(map(tuple, fit.covariance.tolist())),
        **around._asdict(),
        at=float(np.median([work(point) for point in runs.points.tolist()])),
        ranges={name: (least, most) for name, least, most in ends},
    )
    return law, fit


def left_out(runs: Runs, around: Scatter) -> dict[str, Law]:
    """The law without the runs of each name."""
    like = ~np.isin(runs.names, OTHER_KINDS)
    whole = law_of(runs.of(like), around)[0]
    return {
        name: whole if name in OTHER_KINDS else law_of(runs.of(like & (runs.names != name)), around)[0]
        for name in sorted(set(runs.names.tolist()))
    }


def scatter(runs: Runs, laws: dict[str, Law]) -> Scatter:
    """How runs lie around laws that were fitted without them: after a pilot those of other kinds, too. Without one a
    text is taken for such as the law was fitted on; with room for others promises of these would be too wide."""
    owns: list[float] = []
    after: list[After] = []
    for number, (name, *_) in enumerate(runs.texts):
        here, law = runs.of(runs.unit == number), laws[name]
        if name not in OTHER_KINDS:
            owns.append(own_number(np.array(law.values), here))
        if name not in RULED:
            after += after_pilots(here, law)
    like = runs.of(~np.isin(runs.names, OTHER_KINDS))
    residual = residual_of(like, fitted(like))
    return Scatter(residual, scale_of(np.array(owns)), *bend_of(after))


class After(NamedTuple):
    """A pilot's share and point; of a text's runs of more work the points, what the law says of them for a text of the
    middle, and their shares."""

    law: Law
    pilot: tuple[float, ...]
    points: list[tuple[float, ...]]
    alone: list[float]
    wanted: list[float]


def after_pilots(runs: Runs, law: Law) -> list[After]:
    """What came after each pilot of a text."""
    found, works = [], np.array([work(point) for point in runs.points.tolist()])
    for pilot in runs.pilots:
        later = runs.of(works > works[pilot])
        if later.rows:
            alone = np.minimum(1, shares(np.array(law.values), later.points))
            told = (float(runs.wanted[pilot]), *runs.points[pilot].tolist())
            found.append(After(law, told, later.points.tolist(), alone.tolist(), later.wanted.tolist()))
    return found


def bend_of(after: list[After]) -> tuple[float, float]:
    """(bend, beyond) by what runs came to after pilots: the likeliest, near to what the fit begins with where few
    tell."""
    begin = np.log([BEGIN.bend, BEGIN.beyond])

    def unlikely(logarithms: np.ndarray) -> float:
        bend, beyond = np.exp(logarithms).tolist()
        total = float(np.sum((logarithms - begin) ** 2))
        for law, pilot, *runs in after:
            told = replace(law, bend=bend, beyond=beyond).known(*pilot)
            for point, alone, wanted in zip(*runs, strict=True):
                own, error = told.own_at(*point)
                share = alone ** math.exp(own)
                variance = law.residual**2 + (error * share * math.log(share)) ** 2
                total += math.log(variance) + (wanted - share) ** 2 / variance
        return total

    found = optimize.minimize(unlikely, begin, method="Nelder-Mead", options={"xatol": 0.01, "fatol": 0.01})
    bend, beyond = np.exp(found.x).tolist()
    return bend, beyond


def beside(runs: Runs, laws: dict[str, Law]) -> list[Row]:
    """A line for each text: how far a law is off that was fitted without it, before and after a pilot."""
    table = []
    for number, (name, length, way) in enumerate(runs.texts):
        here, law = runs.of(runs.unit == number), laws[name]
        pilot = here.pilots[-1] if here.pilots else None
        rest = here.but(pilot)
        line: Row = {"text": name, "kB": round(length / 1000), "read as": way, "runs": len(here.rows)}
        line["own"] = round(math.exp(own_number(np.array(law.values), here)), 2)
        line |= missed(law, rest, "off", "held")
        line |= {"pilot": None, "after it": None, "held after it": None}
        if pilot is not None:
            told = law.known(float(here.wanted[pilot]), *here.points[pilot].tolist())
            line["pilot"] = here.rows[pilot]["steps"]
            line |= missed(told, rest, "after it", "held after it")
        table.append(line)
    return table


def missed(law: Law, runs: Runs, off: str, held: str) -> Row:
    """How far a law is off for runs, and how many are in its interval."""
    if not runs.rows:
        return {off: None, held: None}
    found = np.array([law.share(*point) for point in runs.points.tolist()]) - runs.wanted
    within = LIKELY * np.array([law.error(*point) for point in runs.points.tolist()])
    return {
        off: round(root_mean_square(found), 4),
        held: f"{np.sum(np.abs(found) <= within)} of {len(found)}",
    }


def fit(given: argparse.Namespace) -> None:
    """Fit the law, and each text's runs with that text left out; writes law.json, and the page."""
    runs = read_runs(given.runs)
    around = BEGIN
    for _ in range(2):
        around = scatter(runs, left_out(runs, around))
    like = runs.of(~np.isin(runs.names, OTHER_KINDS))
    law, found = law_of(like, around)
    given.law.write_text(json.dumps(as_plain(law), indent=1) + "\n")
    table = beside(runs, left_out(runs, around))
    print_table(table)
    off = residuals(like, found)
    told = {
        "runs": len(like.rows),
        "beginnings": len(set(like.names.tolist())),
        **{name: as_plain(law)[name] for name in ("values", *SCATTER, "ranges")},
        "worst": [
            {
                **{name: like.rows[n][name] for name in ("text", "length", "width", "steps")},
                "off": round(float(off[n]), 4),
            }
            for n in np.argsort(-np.abs(off))[:10]
        ],
    }
    if given.table:
        larger = compared(law, read_runs([given.larger])) if given.larger else []
        given.table.write_text(
            page(table, larger, law, told, OTHER_KINDS, mixing=given.mixing), encoding="utf-8"
        )
    finish(told)


def compared(law: Law, runs: Runs) -> list[Row]:
    """What a law says of runs that it was not fitted on, and what came out."""
    return [
        {
            **{name: row[name] for name in ("text", "read_as", "width", "parameters", "steps")},
            "foretold": round(row["start"] * law.share(*point), 3),
            "within": round(LIKELY * row["start"] * law.error(*point), 3),
            "came out": round(row["bits_per_byte"], 3),
        }
        for row, point in zip(runs.rows, runs.points.tolist(), strict=True)
    ]


def compare(given: argparse.Namespace) -> None:
    """What the shipped law says of other runs."""
    table = compared(shipped_law(mixed=given.mixing), read_runs(given.runs))
    print_table(table)
    finish({"rows": table})


def root_mean_square(found: Any) -> float:
    """Of numbers around nothing."""
    return float(np.sqrt(np.mean(np.square(found))))


def main() -> None:
    """See above."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=Path, nargs="+", required=True)
    parser.add_argument("--mixing", action="store_true", help="beside a context mixer, not n-grams")
    parser.add_argument("--law", type=Path, help="by default that of the sources")
    parser.add_argument("--larger", type=Path, help="runs of larger models, for the page")
    parser.add_argument("--table", type=Path, help="write the page of the fit")
    parser.add_argument("--compare", action="store_true", help="instead: the shipped law beside these runs")
    given = parser.parse_args()
    name = "law_mixing.json" if given.mixing else "law.json"
    given.law = given.law or Path("src/octavo/auto", name)
    compare(given) if given.compare else fit(given)


if __name__ == "__main__":
    main()
