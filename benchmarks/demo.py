"""What the demo promises: time in all, time to the first loss, distance to the source's entropy, good stories.

    python benchmarks/demo.py [--repeats 3]

Each repeat is a process of its own with an empty cache and another seed.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from common import finish, load, print_table, spread


def demo(seed: int, settings: list[str]) -> dict[str, Any]:
    """One demo; times are from the process's start."""
    with tempfile.TemporaryDirectory() as folder:
        command = [
            sys.executable,
            "-m",
            "octavo",
            "demo",
            "--out",
            f"{folder}/run",
            f"seed={seed}",
            *settings,
        ]
        begin = time.perf_counter()
        process = subprocess.Popen(
            command,
            stderr=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            text=True,
            encoding="utf-8",
            env={**os.environ, "OCTAVO_CACHE": f"{folder}/cache"},
        )
        assert process.stderr is not None
        first = None
        for line in process.stderr:
            if first is None and line.startswith("step 1/"):
                first = time.perf_counter() - begin
        if process.wait() != 0:
            raise SystemExit(f"the demo failed: {' '.join(command)}")
        whole = time.perf_counter() - begin
        result = json.loads(Path(folder, "run", "evaluation.json").read_text(encoding="utf-8"))
    return {
        "seed": seed,
        "seconds": whole,
        "first_loss_seconds": first,
        "loss": result["val_loss"],
        "source_entropy": result["source_entropy"],
        "source_loss": result["source_loss"],  # on the same stories: the loss is compared with this
        "above_entropy": result["val_loss"] / result["source_loss"] - 1,
        "good_stories": result["stories"]["passed"] / result["stories"]["written"],
        "training_seconds": result["seconds"]["training"],
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("settings", nargs="*", help="key=value, passed on to the demo")
    options = parser.parse_args()
    before = load()
    runs = [demo(seed, options.settings) for seed in range(1, options.repeats + 1)]
    print_table([{key: round(value, 4) for key, value in run.items()} for run in runs])
    names = ("seconds", "first_loss_seconds", "above_entropy", "good_stories")
    finish(
        {**{name: spread([run[name] for run in runs]) for name in names}, "runs": runs, "load_before": before}
    )


if __name__ == "__main__":
    main()
