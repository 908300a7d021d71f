"""Tokens a second of one recipe by one process and by several, as copies (ddp) and in parts (fsdp), side by side.

    python benchmarks/scaling.py --text shakespeare.txt [--recipe shakespeare-char-cpu] [--rounds 3] [--steps 100]

Every way trains the same batches with the same number of threads in all, shared out among its processes; they take
turns within a round. A speed is the median over a run's rows without the first, so that neither the start nor an
evaluation counts. With accelerators (one for each process), give --device cuda.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from common import finish, load, print_table, spread

EVERY = 10  # steps between two rows


def speed(way: tuple[str, int], asked: argparse.Namespace, out: Path) -> dict[str, float]:
    """Tokens a second of one run, and its last training loss."""
    kind, processes = way
    threads = max(1, asked.threads // processes)
    launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(processes)]
    command = [sys.executable, *(launcher if processes > 1 else []), "-m", "octavo", "train", asked.recipe]
    command += ["--text", str(asked.text), "--out", str(out), "--quiet", f"parallel={kind}"]
    command += [
        f"training.threads={threads}",
        f"training.device={asked.device}",
        f"training.steps={asked.steps}",
    ]
    command += [f"logging.every={EVERY}", "evaluation.every=1000000", "evaluation.tokens=1000"]
    command += ["training.precision=float32", "sampling.tokens=1", *asked.settings]
    environment = os.environ | {"OMP_NUM_THREADS": str(threads)}
    subprocess.run(command, check=True, capture_output=True, env=environment)
    lines = (out / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    rows = [row for row in map(json.loads, lines) if row["event"] == "train" and row["step"] > EVERY]
    return {"speed": statistics.median(row["tokens_per_second"] for row in rows), "loss": rows[-1]["loss"]}


def main() -> None:
    """Measure all ways in turn and print a table; the last line is one JSON document."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--text", type=Path, required=True)
    parser.add_argument("--recipe", default="shakespeare-char-cpu")
    parser.add_argument("--processes", type=int, nargs="+", default=[2, 4])
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1, help="of all processes together")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("settings", nargs="*", help="settings for all, such as model.width=256")
    asked = parser.parse_args()
    ways = [("none", 1), *((kind, size) for size in asked.processes for kind in ("ddp", "fsdp"))]
    before = load()
    runs: dict[tuple[str, int], list[dict[str, float]]] = {way: [] for way in ways}
    with tempfile.TemporaryDirectory() as folder:
        for number in range(asked.rounds):
            for way in ways:
                out = Path(folder) / f"{way[0]}-{way[1]}-{number}"
                runs[way].append(speed(way, asked, out))
    alone = statistics.median(run["speed"] for run in runs[ways[0]])
    table: list[dict[str, Any]] = []
    for way, found in runs.items():
        speeds = spread([run["speed"] for run in found])
        row = {"parallel": way[0], "processes": way[1], "tokens/s": round(speeds["median"])}
        row |= {"min": round(speeds["min"]), "max": round(speeds["max"])}
        table.append(row | {"times one": round(speeds["median"] / alone, 3), "loss": found[-1]["loss"]})
    print_table(table)
    settings = {key: str(value) for key, value in vars(asked).items() if key != "text"}
    finish({"rows": table, "settings": settings, "load_before": before})


if __name__ == "__main__":
    main()
