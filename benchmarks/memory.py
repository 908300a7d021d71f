"""Training's peak memory beside the plan's estimate of it, recipe by recipe.

python benchmarks/memory.py [--steps 3] [--only NAME …]

Each training is a process of its own, on made-up tokens, in float32 on the CPU. What it held after its imports and a
tiny training is taken off its largest resident memory.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

from common import finish, load, print_table
from octavo.config import Recipe, load_recipe

TINY = {"model": {"layers": 1, "width": 16, "heads": 2, "context": 16}, "training": {"batch": 2}}
CASES: dict[str, tuple[str, int, list[str]]] = {  # name: recipe, vocabulary, overrides
    "nanoGPT's CPU shape": ("shakespeare-char-cpu", 65, []),
    "the modern one": ("shakespeare-char-modern", 65, []),
    "report E's small": ("shakespeare-char-report-cpu", 65, []),
    "GPT-2's vocabulary": ("tinystories-gpt2-cpu", 50_257, []),
    "nanoGPT's GPU shape, batch 8": ("shakespeare-char", 65, ["training.batch=8"]),
    "the same without dropout": ("shakespeare-char", 65, ["training.batch=8", "model.dropout=0"]),
    "the same, recomputed": (
        "shakespeare-char",
        65,
        ["training.batch=8", "model.dropout=0", "training.recompute=true"],
    ),
    "the same, row by row": (
        "shakespeare-char",
        65,
        ["training.batch=8", "model.dropout=0", "training.micro_batch=1"],
    ),
    "GPT-2 small, batch 1": ("tinystories-gpt2", 50_257, ["training.batch=1", "model.context=512"]),
}


def resolved(name: str, overrides: list[str]) -> Recipe:
    """The recipe as it is measured."""
    return load_recipe(name, [*overrides, "training.precision=float32", "training.device=cpu"])


def training(recipe: Recipe, vocab_size: int, steps: int) -> None:
    """Take some steps on made-up tokens."""
    import numpy as np
    import torch

    from octavo.data.batch import Batch
    from octavo.model.base import build_model
    from octavo.training.loop import training_steps
    from octavo.training.recompute import recompute_blocks
    from octavo.training.step import StepOptions

    settings, context = recipe.training, recipe.model.context
    window = np.random.default_rng(0).integers(0, vocab_size, (settings.batch, context + 1))
    model = build_model(recipe.model, vocab_size=vocab_size, seed=0)
    if settings.recompute is True:
        recompute_blocks(model)
    torch.set_num_threads(settings.threads or torch.get_num_threads())
    taken = training_steps(
        model,
        settings.optimizer.build(model),
        lambda step, micro: Batch(window[:, :-1].copy(), window[:, 1:].copy()),
        steps=range(steps),
        seed=0,
        schedule=lambda step: 1e-3,
        options=StepOptions(
            accumulation=settings.accumulation,
            micro_batch=settings.micro_batch if isinstance(settings.micro_batch, int) else None,
            clip=settings.clip,
        ),
    )
    for _ in taken:
        pass


def peak() -> int:
    """Largest resident memory of this process so far, in bytes; since the last `forget`, where the system can."""
    status = Path("/proc/self/status")
    if status.is_file():
        line = next(line for line in status.read_text(encoding="utf-8").splitlines() if "VmHWM" in line)
        return int(line.split()[1]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def forget() -> None:
    """Begin the peak anew from what is held now."""
    references = Path("/proc/self/clear_refs")
    if references.exists():
        references.write_text("5", encoding="utf-8")


def measure(case: str, steps: int) -> None:
    """Train one case and print the bytes."""
    name, vocab_size, overrides = CASES[case]
    training(resolved(dict(TINY), []), 8, 2)
    forget()
    before = peak()
    training(resolved(name, overrides), vocab_size, steps)
    print(json.dumps({"measured": peak() - before, "baseline": before}))


def main() -> None:
    """Each case measured and estimated."""
    from octavo.planning.plan import counted
    from octavo.training.memory import Fit

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--only", nargs="*", choices=list(CASES), default=list(CASES))
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.measure:
        measure(asked.measure, asked.steps)
        return
    rows: list[dict[str, Any]] = []
    for case in asked.only:
        name, vocab_size, overrides = CASES[case]
        command = [sys.executable, __file__, "--measure", case, "--steps", str(asked.steps)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        found = json.loads(done.stdout.splitlines()[-1])
        recipe = resolved(name, overrides)
        settings = recipe.training
        way = Fit(
            settings.micro_batch if isinstance(settings.micro_batch, int) else None,
            settings.recompute is True,
        )
        estimate = counted(recipe, way, vocab_size=vocab_size).memory.total
        rows.append(
            {
                "": case,
                "measured MiB": found["measured"] / 2**20,
                "estimate MiB": estimate / 2**20,
                "measured / estimate": found["measured"] / estimate,
            }
        )
    print_table(rows)
    finish({"benchmark": "memory", "steps": asked.steps, "cases": rows, "load": load()})


if __name__ == "__main__":
    main()
