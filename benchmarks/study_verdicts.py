"""How often a study's verdict is right: thousands of made-up studies whose truth is known, through the real judge.

python benchmarks/study_verdicts.py [--studies 2000] [--seed 1] [--text PATH]

The test alone, without documents, is in study_noise.py. A made-up study has a baseline and changes, five seeds each and
the default number of extra baseline seeds. A run's
loss on a document is: the document's difficulty + the run's seed effect + chance for this run on this document, and,
where a change does something, its shift and a part of it that differs from document to document. Distances are in noise
standard deviations: the spread between runs that differ in nothing but their seed.

With --text, real ones beside them: a small model is trained with 40 seeds, and studies are drawn from these runs, so
that noise and documents are those of trainings. It is also measured how far two variants with the same seed go
together, which says what pairing could gain.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from common import finish, print_table
from octavo.studies.results import EvaluationCurve, RunResult, StudyResults
from octavo.studies.run import run_study
from octavo.studies.spec import Change, Study
from octavo.studies.statistics import default_noise
from octavo.studies.verdict import Analysis, analyse_study
from octavo.util.terminal import Console

NOISE, UNITS, LEVEL = 0.005, 100, 2.3
"""Bits per byte between seeds; documents of the validation text; the baseline's bits per byte."""


@dataclass(frozen=True)
class World:
    """What the made-up runs are drawn from."""

    changes: int = 1
    seeds: int = 5
    shift: float = 0.0
    """Of the first change, in noise deviations."""
    uneven: float = 0.0
    """How much the shift differs between documents: its deviation over documents, as a share of the shift."""
    per_document: float = 0.5
    """Share of the noise's variance that is chance for single documents, not for the run as a whole."""
    shared: float = 0.0
    """Share of the runs' variance that seeds have in common over all changes (same order of the data)."""
    noisier: float = 1.0
    """The changes' noise, as a multiple of the baseline's."""
    diverged: int = 0
    """How many of the changes end far off, each run somewhere else."""
    tails: float = math.inf
    """Degrees of freedom of the seeds' distribution; infinite: normal."""


def draw(world: World, extra: int, random: np.random.Generator) -> StudyResults:
    """One made-up study with `extra` seeds of the baseline alone."""
    sizes = random.integers(500, 2000, UNITS)
    difficulty = LEVEL + 0.3 * random.standard_normal(UNITS)
    common = random.standard_normal(world.seeds + extra) * math.sqrt(world.shared)
    per_document = math.sqrt(world.per_document / (np.square(sizes / sizes.sum()).sum()))
    runs = []
    for arm in range(world.changes + 1):
        spread = NOISE * (world.noisier if arm else 1.0)
        planted = world.shift * NOISE if arm == 1 else 0.0
        effect = planted * (1 + world.uneven * random.standard_normal(UNITS))
        for seed in range(world.seeds + (0 if arm else extra)):
            own = _standard(random, world.tails) * math.sqrt(1 - world.shared)
            run = math.sqrt(1 - world.per_document) * (common[seed] + own)
            document = per_document * random.standard_normal(UNITS)
            far = random.uniform(1, 4) if arm > world.changes - world.diverged else 0.0
            bits = difficulty + effect + spread * (run + document) + far
            runs.append(_run(arm, seed + 1, bits * sizes * math.log(2), sizes))
    return StudyResults(folder=Path(), study=_study(world, extra), runs=tuple(runs))


def _standard(random: np.random.Generator, freedom: float) -> float:
    if math.isinf(freedom):
        return float(random.standard_normal())
    return float(random.standard_t(freedom)) / math.sqrt(freedom / (freedom - 2))


def _run(arm: int, seed: int, nats: np.ndarray, sizes: np.ndarray) -> RunResult:
    bits = float(nats.sum() / sizes.sum() / math.log(2))
    loss = float(nats.sum() / sizes.sum())
    name = f"change {arm}" if arm else "baseline"
    return RunResult(
        change=name,
        slug=name.replace(" ", "-"),
        seed=seed,
        status="done",
        reason=None,
        metric=bits,
        val_loss=loss,
        bits_per_byte=bits,
        accuracy=None,
        perplexity=math.exp(loss),
        initial_loss=100.0,
        step=500,
        tokens=500_000,
        flops=1e12,
        parameters=100_000,
        nats=tuple(nats),
        bytes=tuple(sizes),
        tokens_scored=tuple(sizes),
        curve=EvaluationCurve((), (), (), ()),
        train_curve=(),
        sample="",
        seconds=None,
        folder=f"runs/{name}/seed-{seed}",
        settings={},
    )


def _study(world: World, extra: int) -> Study:
    changes = tuple(Change(f"change {arm + 1}", f"change-{arm + 1}") for arm in range(world.changes))
    return Study(
        name="made up",
        description="",
        finding="",
        baseline="baseline",
        recipe={},
        settings={},
        seeds=tuple(range(1, world.seeds + 1)),
        noise_seeds=tuple(range(world.seeds + 1, world.seeds + extra + 1)),
        metric="bits_per_byte",
        judge="last",
        budget={},
        changes=changes,
    )


def alarm(analysis: Analysis) -> bool:
    """Whether any change was declared better or worse (of those that did not end far off)."""
    return any(
        verdict.verdict in ("better", "worse") and abs(verdict.difference or 0) < 0.5
        for verdict in analysis.verdicts
    )


def found(analysis: Analysis) -> bool:
    """Whether the first change was seen, in the right direction."""
    return analysis.verdicts[0].verdict == "worse"


def share(world: World, what: Callable[[Analysis], bool], studies: int, seed: int) -> dict[str, Any]:
    """How many of so many studies fulfil `what`."""
    random, extra = np.random.default_rng(seed), default_noise(world.seeds, world.changes)
    analysis = [analyse_study(draw(world, extra, random)) for _ in range(studies)]
    hits = sum(map(what, analysis))
    inside = [
        verdict.interval[0] <= world.shift * NOISE <= verdict.interval[1]
        for study in analysis
        for verdict in study.verdicts[:1]
        if verdict.interval
    ]
    return {
        "baseline runs": world.seeds + extra,
        "studies": studies,
        "hits": hits,
        "rate": hits / studies,
        "per 20": round(20 * hits / studies, 2),
        "interval holds the truth": round(float(np.mean(inside)), 3),
    }


NULL = {
    "no change at all, 1 change": World(),
    "no change at all, 3 changes": World(changes=3),
    "no change at all, 8 changes": World(changes=8),
    "… half of the seeds' effect shared": World(changes=3, shared=0.5),
    "… heavy tails (t, 4 degrees)": World(changes=3, tails=4),
    "… one of 3 changes ends far off": World(changes=3, diverged=1),
    "… the change twice as noisy": World(noisier=2),
    "… the change half as noisy": World(noisier=0.5),
}
PLANTED = {
    "3 deviations, 1 change": World(shift=3),
    "3 deviations, among 3 changes": World(changes=3, shift=3),
    "3 deviations, among 8 changes": World(changes=8, shift=3),
    "… half of the seeds' effect shared": World(changes=3, shift=3, shared=0.5),
    "… as uneven over documents as it is large": World(changes=3, shift=3, uneven=1),
    "… three times as uneven": World(changes=3, shift=3, uneven=3),
    "… heavy tails (t, 4 degrees)": World(changes=3, shift=3, tails=4),
    "… another of the 3 changes ends far off": World(changes=3, shift=3, diverged=1),
}


REAL = {
    "baseline": {
        "tokenizer": "char",
        "model": {"layers": 2, "width": 32, "heads": 2, "context": 32},
        "training": {"batch": 8, "device": "cpu"},
        "sampling": {"tokens": 10},
    },
    "seeds": 30,
    "noise": 10,
    "budget": {"steps": 200},
    "changes": [
        {"name": "one head", "hypothesis": "One head is about equal.", "set": {"model.heads": 1}},
    ],
}


def real(text: str, folder: Path, studies: int, seed: int) -> dict[str, Any]:
    """The same two questions, with runs drawn from 40 real trainings of one recipe."""
    results = run_study(REAL, text, folder, console=Console(quiet=True))
    runs = [run for run in results.of("baseline") if run.status == "done"]
    values = np.array([run.metric for run in runs], float)
    pairs = np.array([[run.metric for run in results.of(name)[:30]] for name in ("baseline", "one head")])
    sd, random = float(values.std(ddof=1)), np.random.default_rng(seed)
    extra = default_noise(3, 1)
    hits = {"declared better or worse": 0, "found": 0}
    for _ in range(studies):
        chosen = [runs[place] for place in random.permutation(len(runs))[: 6 + extra]]
        hits["declared better or worse"] += alarm(analyse_study(_drawn(chosen, 0.0)))
        hits["found"] += found(analyse_study(_drawn(chosen, 3 * sd)))
    return {
        "runs": len(runs),
        "noise": sd,
        "level": float(values.mean()),
        "same seed, correlation": float(np.corrcoef(pairs)[0, 1]),
        "studies": studies,
        **{name: count / studies for name, count in hits.items()},
    }


def _drawn(runs: list[RunResult], shift: float) -> StudyResults:
    """The first three runs as a change that costs `shift` bits per byte, the rest as the baseline."""
    made = [
        _run(
            int(place < 3),
            place,
            np.array(run.nats) + (shift * math.log(2) if place < 3 else 0.0) * np.array(run.bytes),
            np.array(run.bytes),
        )
        for place, run in enumerate(runs)
    ]
    return StudyResults(folder=Path(), study=_study(World(seeds=3), len(runs) - 6), runs=tuple(made))


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--studies", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--text", help="a text to train real runs on")
    parser.add_argument("--out", type=Path, default=Path("runs/study-verdicts"), help="where they go")
    arguments = parser.parse_args()
    begin = time.perf_counter()
    tables: dict[str, dict[str, Any]] = {}
    for title, what, worlds in (
        ("declared better or worse", alarm, NULL),
        ("found", found, PLANTED),
    ):
        for name, world in worlds.items():
            studies = arguments.studies if not name.startswith("…") else arguments.studies // 4
            row = share(world, what, studies, arguments.seed)
            tables.setdefault(title, {})[name] = row
            print(f"{name}: {row['rate']:.3f}", file=sys.stderr, flush=True)
    for title, table in tables.items():
        print_table([{title: name, **row} for name, row in table.items()])
    trained = (
        real(arguments.text, arguments.out, arguments.studies, arguments.seed) if arguments.text else None
    )
    if trained:
        print_table([trained])
    finish(
        {
            "rates": tables,
            "trained": trained,
            "seconds": round(time.perf_counter() - begin, 1),
        }
    )


if __name__ == "__main__":
    main()
