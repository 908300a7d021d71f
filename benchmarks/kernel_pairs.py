"""Two ways to have the kernels beside each other: training at three shapes and generation at two, in short turns.

    python benchmarks/kernel_pairs.py --side compiled=. --side prebuilt=.,OCTAVO_KERNEL=x86-64-v4 [--rounds 40]

A side is a checkout, and variables of its environment. Each is one process that stays; they work in turn, a step or a
text at a time, and which begins changes with every round. What is said of a side is its median and its smallest time,
and the ratio of the two sides' within each round. On a machine that others use, trust the ratios.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from common import finish, load, print_table
from generate_speed import SHAPES as WRITTEN
from train_throughput import SHAPES as TRAINED

TRAINING, GENERATION = ("0.8M", "11M", "14M"), ("0.8M", "14M")
STREAMS = (1, 16)


def work() -> None:
    """Be a side: do what each line asks, and answer with the seconds that it took."""
    import torch

    torch.manual_seed(1)
    ready: dict[str, Callable[[], object]] = {}
    for line in sys.stdin:
        name = line.strip()
        if name not in ready:
            kind, shape, streams = name.split()
            ready[name] = training(shape) if kind == "training" else generation(shape, int(streams))
            for _ in range(3):
                ready[name]()
        begin = time.perf_counter()
        ready[name]()
        print(time.perf_counter() - begin, flush=True)


def training(shape: str) -> Callable[[], object]:
    """A step of the training loop, forward and back, a quarter of the shape's batch."""
    import torch

    from octavo.config import load_recipe
    from octavo.data.batch import Batch
    from octavo.model.base import build_model
    from octavo.training.device import keep_memory
    from octavo.training.loop import training_steps
    from octavo.training.step import StepOptions

    spec, names = TRAINED[shape], ("layers", "heads", "width", "context")
    recipe = load_recipe("shakespeare-char-cpu", [f"model.{name}={spec[name]}" for name in names])
    model = build_model(recipe.model, vocab_size=spec["vocabulary"], seed=1)
    keep_memory()
    rows = torch.randint(spec["vocabulary"], (max(spec["batch"] // 8, 8), spec["context"])).numpy()
    batch: Any = Batch(rows, rows)
    steps = training_steps(
        model,
        recipe.training.optimizer.build(model),
        lambda step, micro: batch,
        steps=range(10**9),
        seed=1,
        schedule=lambda step: 0.0,
        options=StepOptions(clip=1.0),
    )
    return lambda: next(steps)


def generation(shape: str, streams: int) -> Callable[[], object]:
    """32 tokens of each of some texts, from a cache that is half full."""
    import torch

    from octavo.config import load_recipe
    from octavo.generation.native import NativeDecoder
    from octavo.model.base import build_model

    spec, names = WRITTEN[shape], ("layers", "heads", "width", "context")
    recipe = load_recipe("shakespeare-char-cpu", [f"model.{name}={spec[name]}" for name in names])
    model = build_model(recipe.model, vocab_size=spec["vocabulary"], seed=1).eval()
    decoder = NativeDecoder(model, slots=streams)
    prompt = torch.randint(spec["vocabulary"], (streams, spec["context"] // 2)).tolist()

    def write() -> None:
        for slot in range(streams):
            decoder.free(slot)
        decoder.feed(dict(enumerate(prompt)))
        for token in range(31):
            decoder.feed({slot: [token] for slot in range(streams)})

    return write


class Side:
    """One side's process."""

    def __init__(self, words: str, threads: int) -> None:
        self.name, _, rest = words.partition("=")
        checkout, *variables = rest.split(",")
        folder = Path(checkout).resolve()
        own = {"PYTHONPATH": str(folder / "src"), "OMP_NUM_THREADS": str(threads), "PYTHONWARNINGS": "ignore"}
        own |= dict(variable.split("=", 1) for variable in variables)
        self._process = subprocess.Popen(
            [sys.executable, __file__, "--work"],
            env=os.environ | own,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def seconds(self, name: str) -> float:
        """Of one piece of work."""
        assert self._process.stdin is not None and self._process.stdout is not None
        print(name, file=self._process.stdin, flush=True)
        return float(self._process.stdout.readline())


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--side", action="append", default=[], help="NAME=CHECKOUT[,VARIABLE=VALUE…], twice")
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--only", choices=("training", "generation"))
    parser.add_argument("--work", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work:
        return work()
    before = load()
    sides = [Side(words, options.threads) for words in options.side]
    first, second = sides
    names = [f"training {shape} 0" for shape in TRAINING]
    names += [f"generation {shape} {streams}" for shape in GENERATION for streams in STREAMS]
    rows = []
    for name in names:
        if options.only and not name.startswith(options.only):
            continue
        found: dict[str, list[float]] = {side.name: [] for side in sides}
        for number in range(options.rounds):
            for side in sides if number % 2 else reversed(sides):
                found[side.name].append(side.seconds(name))
        ratios = [one / other for one, other in zip(found[second.name], found[first.name], strict=True)]
        quarters = statistics.quantiles(ratios, n=4)
        rows.append(
            {
                "": name.removesuffix(" 0"),
                **{f"{side.name}, ms": 1000 * statistics.median(found[side.name]) for side in sides},
                "ratio": statistics.median(ratios),
                "quarter": quarters[0],
                "three quarters": quarters[2],
                "of the smallest": min(found[second.name]) / min(found[first.name]),
            }
        )
        print(rows[-1], file=sys.stderr, flush=True)
    print_table(rows)
    finish({"benchmark": "kernel_pairs", "sides": options.side, "rows": rows, "load_before": before})
    return None


if __name__ == "__main__":
    main()
