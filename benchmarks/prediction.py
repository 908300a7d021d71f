"""Step times that `octavo plan` predicts beside those measured, on this machine's processor.

python benchmarks/prediction.py [--steps 20] [--calibrate NAME] [--threads N]

The machine's peaks are measured (matrix products in float32 and bfloat16, memory, starting an operation). How much of
the peak matrix products reach is then taken from one shape, and the other shapes are predicted with it.
"""

from __future__ import annotations

import argparse
import statistics
from dataclasses import asdict, replace
from typing import Any

import torch

from common import finish, load, print_table
from octavo.config import Recipe, load_recipe
from octavo.planning.machines import Machine, here
from octavo.planning.plan import timed
from octavo.planning.predict import predict
from octavo.training.memory import Fit, estimated
from octavo.util.terminal import Console

CASES: dict[str, tuple[str, list[str]]] = {
    "nanoGPT's CPU shape": ("shakespeare-char-cpu", []),
    "the modern one": ("shakespeare-char-modern", []),
    "report E's small": ("shakespeare-char-report-cpu", []),
    "report D's, for a laptop": ("tinystories-gpt2-cpu", []),
    "Table 2's shape, batch 2": ("script-char-small", ["training.batch=2"]),
    "nanoGPT's GPU shape, batch 2": ("shakespeare-char", ["training.batch=2"]),
}


def resolved(case: str, precision: str) -> tuple[Recipe, int]:
    """The recipe as it is measured, and its vocabulary."""
    name, overrides = CASES[case]
    recipe = load_recipe(name, [*overrides, f"training.precision={precision}", "training.device=cpu"])
    return recipe, recipe.expected_vocabulary or 65


def measured(case: str, precision: str, repeats: int) -> float:
    """Seconds of one optimizer step."""
    recipe, vocab_size = resolved(case, precision)
    return timed(recipe, vocab_size=vocab_size, console=Console(quiet=True), repeats=repeats).step_seconds


def calibrated(machine: Machine, case: str, precision: str, seconds: float) -> Machine:
    """The machine with the share of its peak at which the prediction for `case` is what was measured."""
    recipe, vocab_size = resolved(case, precision)
    step = estimated(recipe, recipe.training, Fit(), vocab_size=vocab_size)
    found = predict(recipe, replace(machine, share=1.0), parallel="none", vocab_size=vocab_size, steps=1)
    parts = recipe.training.accumulation
    flops = parts * step.part.flops + step.update.flops
    fixed = found.seconds.step - flops / machine.flops[precision]
    share = flops / machine.flops[precision] / max(seconds - fixed, 1e-9)
    return replace(machine, share=share if 0 < share < 1 else 1.0)


def main() -> None:
    """Measure, calibrate, predict."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=20, help="timed steps of each shape")
    parser.add_argument("--calibrate", choices=list(CASES), default="nanoGPT's CPU shape")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--precision", choices=("float32", "bfloat16"), nargs="*", default=["float32"])
    asked = parser.parse_args()
    torch.set_num_threads(asked.threads)
    before = load()
    machine = here()
    rows: list[dict[str, Any]] = []
    shares = {}
    for precision in asked.precision:
        times = {case: measured(case, precision, asked.steps) for case in CASES}
        tuned = calibrated(machine, asked.calibrate, precision, times[asked.calibrate])
        shares[precision] = tuned.share
        for case, seconds in times.items():
            recipe, vocab_size = resolved(case, precision)
            found = predict(recipe, tuned, parallel="none", vocab_size=vocab_size, steps=1).seconds.step
            rows.append(
                {
                    "": case,
                    "precision": precision,
                    "predicted ms": found * 1000,
                    "measured ms": seconds * 1000,
                    "predicted / measured": found / seconds,
                }
            )
    print_table(rows)
    ratios = [max(row["predicted / measured"], 1 / row["predicted / measured"]) for row in rows]
    finish(
        {
            "benchmark": "prediction",
            "peaks": asdict(machine),
            "calibrated on": asked.calibrate,
            "share": shares,
            "cases": rows,
            "median factor": statistics.median(ratios),
            "largest factor": max(ratios),
            "load_before": before,
            "load_after": load(),
        }
    )


if __name__ == "__main__":
    main()
