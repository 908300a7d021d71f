"""What models remember of passages that stood in their text a known number of times, and how often that is a mistake.

    python benchmarks/memorization.py --text input.txt --out FOLDER [--seeds 1 2 3] [--models quick …]

For every seed other lots decide which passages are planted how often. Each model is a recipe with its settings; with
`model.counts` n-grams of the text are mixed in. Beside the planted passages stands the meter of every report, which
looks at what the model writes. Runs that FOLDER has already are taken as they are.

False alarms: of the planted passages, where the controls alone are dealt out as if they had been planted; of the
meter, where held-out text is judged as if a model had written it.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from common import finish, print_table
from distillation import trained
from octavo.evaluation.canaries import Continued, Memory, Passage, Planting, memory
from octavo.evaluation.diagnostics import Facts, memorization
from octavo.evaluation.memorization import copying
from octavo.evaluation.samples import difference_error
from octavo.run.canaries import PlantedFiles, continued, plant, readable
from octavo.run.data import build_dataset
from octavo.run.run import Run
from octavo.util.records import plain
from octavo.util.terminal import Console

MODELS = {
    "quick": "quick",
    "quick with counts": "quick model.counts=kneser-ney",
    "quick, 12 passes": "quick training.steps=2000 training.passes=null",
}
DEALS, SAMPLES, LENGTH = 200, 16, 512
"""False alarms: deals of each run's controls; texts that the meter compares, and their tokens."""


def planted_text(text: Path, out: Path, seed: int) -> PlantedFiles:
    """The text with passages planted by the lots of this seed."""
    name = out / f"planted-{seed}.txt"
    quiet = Console(quiet=True)
    return plant(str(text), name, Planting(seed=seed), quiet, force=True)


def judged(run: Run, plan: Path) -> list[Continued]:
    """What the run makes of each passage."""
    passages = [Passage(**one) for one in json.loads(plan.read_text(encoding="utf-8"))["passages"]]
    return continued(run, readable(run, passages, Console(quiet=True)))


def row(name: str, found: Sequence[Sequence[Continued]], runs: Sequence[Run]) -> dict[str, Any]:
    """A model's line: passages of all seeds together, and what the meter said of each."""
    together: Memory = memory([one for each in found for one in each])
    meter = [json.loads((run.path / "evaluation.json").read_text(encoding="utf-8")) for run in runs]
    kinds = [next(d for d in each["diagnostics"] if d["kind"] == "memorization") for each in meter]
    control = together.rows[0].nats
    line: dict[str, Any] = {"model": name, "loss": f"{np.mean([each['val_loss'] for each in meter]):.3f}"}
    for times in together.rows:
        what = {0: "never", 1: "once"}.get(times.times, f"{times.times} times")
        less = "" if not times.times else f", −{control - times.nats:.2f}".replace("−-", "+")
        mark = "" if times.p_recited is None or times.p_recited >= 0.05 else " *"
        line[what] = f"{times.recited} of {times.passages}{less}{mark}"
    line["the meter: recites"] = f"{sum(one['severity'] == 'bad' for one in kinds)} of {len(kinds)}"
    line["copied"] = f"{np.mean([one['evidence']['copied'] for one in kinds]):.1%}"
    return line


def dealt(found: Sequence[Continued], random: np.random.Generator) -> Memory:
    """A verdict where nothing was planted: a run's controls alone, some of them under false names."""
    controls = [one for one in found if not one.times]
    names = np.repeat([1, 4, 16, 64, 0], [4, 4, 4, 4, len(controls) - 16])
    return memory(
        [
            Continued(times, one.matched, one.tokens, one.nats)
            for times, one in zip(random.permutation(names).tolist(), controls, strict=True)
        ]
    )


def meter_alarms(run: Run, draws: int, random: np.random.Generator) -> int:
    """How often the meter takes held-out text for recited."""
    dataset = build_dataset(run.config, Console(quiet=True), run.tokenizer)
    tokens, alarms = np.asarray(dataset.validation.tokens), 0
    for _ in range(draws):
        places = random.choice(len(tokens) // LENGTH, 2 * SAMPLES, replace=False) * LENGTH
        texts = [dataset.tokenizer.decode(tokens[at : at + LENGTH]) for at in places.tolist()]
        sides = {"generated": texts[:SAMPLES], "held_out": texts[SAMPLES:]}
        found, searched = copying(sides, dataset.train.text_path)
        error = difference_error(found["generated"], found["held_out"])
        shares = {name: plain(one.together) for name, one in found.items()}
        evaluation = {"memorization": {"searched": searched, "difference_error": error, **shares}}
        said = memorization(Facts(run.config, 1, dataset.tokenizer.vocab_size, 1, evaluation=evaluation))
        alarms += said is not None and said.severity == "bad"
    return alarms


def main() -> None:
    """Train what is missing, judge and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--text", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--models", nargs="+", default=list(MODELS), choices=list(MODELS))
    parser.add_argument("--draws", type=int, default=100, help="of held-out text for the meter")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    os.environ.setdefault("OCTAVO_CACHE", str(options.out / "cache"))

    rows, everything, runs = [], [], []
    for name in options.models:
        recipe, *settings = MODELS[name].split()
        found, own = [], []
        for seed in options.seeds:
            files = planted_text(options.text, options.out, seed)
            folder = options.out / f"{name.replace(' ', '-').replace(',', '')}-{seed}"
            run = trained(recipe, files.text, folder, [f"seed={seed}", *settings])
            own.append(run)
            found.append(judged(run, files.plan))
        rows.append(row(name, found, own))
        everything += found
        runs += own
    print_table(rows)
    random = np.random.Generator(np.random.Philox(key=0))
    dealings = [dealt(found, random) for found in everything for _ in range(DEALS)]
    alarms = {
        "deals": len(dealings),
        "recites": sum(one.recited_from is not None for one in dealings),
        "knows": sum(one.known_from is not None for one in dealings),
        "meter draws": options.draws,
        "meter": meter_alarms(runs[0], options.draws, random),
    }
    print(alarms)
    verdicts = [memory(found).as_dict() for found in everything]
    finish({"rows": rows, "false_alarms": alarms, "verdicts": verdicts})


if __name__ == "__main__":
    main()
