"""A training step with one thread, with all, and as Octavo chooses, alone and beside a program that uses the cores.

The other program computes with as many OpenMP threads as there are cores, which wait actively, as another training
would. `passive` and `short` are the same step with OpenMP told to wait without spinning, or hardly.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from common import finish, load, print_table

NEIGHBOUR = "import torch\nx = torch.randn(200_000)\nwhile True:\n    x.mul_(1.0001)\n"
STEP = """
import json, sys
from octavo.config import load_recipe
from octavo.util.terminal import Console
from octavo.planning.plan import timed
recipe = load_recipe(sys.argv[1], sys.argv[2:])
found = timed(recipe, vocab_size=65, console=Console(quiet=True), repeats=9)
print(json.dumps({key: found[key] for key in ("step_seconds", "threads")}))
"""
WAITING = {"passive": {"OMP_WAIT_POLICY": "PASSIVE"}, "short": {"GOMP_SPINCOUNT": "1000"}}


@contextmanager
def neighbour(cores: int, *, there: bool) -> Iterator[None]:
    """Somebody else who computes."""
    if not there:
        yield
        return
    environment = {**os.environ, "OMP_NUM_THREADS": str(cores), "OMP_WAIT_POLICY": "ACTIVE"}
    with subprocess.Popen([sys.executable, "-c", NEIGHBOUR], env=environment) as process:
        try:
            yield
        finally:
            process.kill()


def step(recipe: str, cores: int, *, threads: int | None, waiting: str | None) -> dict[str, float]:
    """A step's seconds, and the threads that it had, in a process of its own."""
    own = {name: value for name, value in os.environ.items() if not name.startswith(("OMP", "GOMP"))}
    own |= {"OMP_NUM_THREADS": str(cores), **WAITING.get(waiting or "", {})}
    settings = ["training.precision=float32", "training.device=cpu"]
    settings += [f"training.threads={threads}"] if threads else []
    done = subprocess.run(
        [sys.executable, "-c", STEP, recipe, *settings], env=own, capture_output=True, text=True, check=True
    )
    return json.loads(done.stdout)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--recipe", default="shakespeare-char-cpu")
    parser.add_argument("--rounds", type=int, default=3, help="in turn; the shortest counts")
    options = parser.parse_args()
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    ways = {
        "1 thread": {"threads": 1, "waiting": None},
        f"{cores} threads": {"threads": cores, "waiting": None},
        f"{cores} threads, passive": {"threads": cores, "waiting": "passive"},
        f"{cores} threads, short": {"threads": cores, "waiting": "short"},
        "as chosen": {"threads": None, "waiting": None},
    }
    before, found = load(), {}
    for _ in range(options.rounds):
        for there in (False, True):
            with neighbour(cores, there=there):
                for name, way in ways.items():
                    found.setdefault((there, name), []).append(step(options.recipe, cores, **way))
    rows = [
        {
            "beside": "a busy program" if there else "nobody",
            "step": name,
            "ms": 1000 * min(each["step_seconds"] for each in all_of),
            "threads": ", ".join(sorted({str(each["threads"]) for each in all_of})),
        }
        for (there, name), all_of in found.items()
    ]
    print_table(rows)
    finish({"recipe": options.recipe, "load_before": before, "rounds": options.rounds, "rows": rows})


if __name__ == "__main__":
    main()
