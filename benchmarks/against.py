"""Another checkout beside this one: training, generation, memory and start-up, in turn in one run.

    python benchmarks/against.py --base CHECKOUT [--rounds 5] [--only training generation memory start-up] [--text FILE]

Each checkout runs its own benchmark scripts with its own sources, one after the other, and which of them begins changes
with every round. The table has the medians, and the median and the range of the rounds' ratios: this checkout over the
other. On a busy machine trust the ratio, not the figures.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from common import finish, load, print_table

HERE = Path(__file__).resolve().parents[1]
Figures = Iterator[tuple[str, float]]


def training(found: dict[str, Any]) -> Figures:
    """Tokens a second of each shape."""
    for row in found["rows"]:
        yield f"training {row['shape']}, tokens/s", row["tokens/s"]


def generation(found: dict[str, Any]) -> Figures:
    """Tokens a second, one stream and many."""
    for row in found["rows"]:
        yield f"generation {found['shape']}, streams: {row['streams']}, tokens/s", row["tokens/s, warm"]


def memory(found: dict[str, Any]) -> Figures:
    """Measured memory of each case."""
    for row in found["cases"]:
        yield f"memory, {row['']}, MiB", row["measured MiB"]


def start_up(found: dict[str, Any]) -> Figures:
    """Seconds of each command."""
    for name, seconds in found["seconds"].items():
        yield f"{name}, s", seconds["median"]


CASES: dict[str, list[tuple[list[str], Callable[[dict[str, Any]], Figures]]]] = {
    "training": [
        (["train_throughput.py", "--only", "octavo, float32", "--repeats", "1", "--shape", shape], training)
        for shape in ("0.8M", "11M", "14M")
    ],
    "generation": [
        (["generate_speed.py", "--only", "octavo", "--repeats", "1", "--shape", shape], generation)
        for shape in ("0.8M", "14M")
    ],
    "memory": [
        (["memory.py", "--only", "nanoGPT's CPU shape", "the modern one", "GPT-2's vocabulary"], memory)
    ],
    "start-up": [(["startup.py", "--repeats", "3"], start_up)],
}


def run(checkout: Path, arguments: list[str]) -> dict[str, Any]:
    """The JSON that a checkout's own benchmark ends with."""
    environment = {**os.environ, "PYTHONPATH": str(checkout / "src")}
    done = subprocess.run(
        [sys.executable, str(checkout / "benchmarks" / arguments[0]), *arguments[1:]],
        capture_output=True,
        encoding="utf-8",
        env=environment,
        cwd=checkout,
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"{checkout}: {' '.join(arguments)} failed:\n{done.stderr[-2000:]}")
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    """Measure both and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--base", type=Path, required=True, help="the other checkout")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", nargs="+", choices=CASES, default=list(CASES))
    parser.add_argument("--text", type=Path, help="a text: start-up is timed up to its first loss as well")
    options = parser.parse_args()
    sides = {"this": HERE, "base": options.base.resolve()}
    before = load()
    rounds: dict[str, list[dict[str, float]]] = {}
    for number in range(options.rounds):
        for case in options.only:
            for arguments, figures in CASES[case]:
                text = ["--text", str(options.text)] if case == "start-up" and options.text else []
                for side in sorted(sides, reverse=number % 2 == 0):
                    for name, value in figures(run(sides[side], [*arguments, *text])):
                        while len(rounds.setdefault(name, [])) <= number:
                            rounds[name].append({})
                        rounds[name][number][side] = value
    rows = [row(name, [one for one in found if len(one) == 2]) for name, found in rounds.items()]
    print_table(rows)
    finish({"benchmark": "against", "rows": rows, "rounds": rounds, "load_before": before})


def row(name: str, found: list[dict[str, float]]) -> dict[str, Any]:
    """Medians of one figure and of its ratios."""
    ratios = [one["this"] / one["base"] for one in found]
    return {
        "": name,
        "base": statistics.median(one["base"] for one in found),
        "this": statistics.median(one["this"] for one in found),
        "this / base": statistics.median(ratios),
        "lowest": min(ratios),
        "highest": max(ratios),
    }


if __name__ == "__main__":
    main()
