"""How soon a validation loss is reached, from process start to the saved checkpoint, beside nanoGPT in the same run.

    python benchmarks/time_to_loss.py --text input.txt --nanogpt PATH [--repeats 3]

Rows: nanoGPT's own CPU recipe (unmodified; its loop without evaluations, and its whole-split loss by the same
blocks); Octavo at nanoGPT's exact shape and steps; Octavo's modern recipe, a minute long and cut short. The time to
the target is that from the process's start to the first saved weights whose loss over the whole validation split is
at most the target.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from common import finish, load, print_table
from nanogpt_cpu import PeerResult, run_nanogpt

TARGET = 1.92
OURS = [
    "shakespeare-char-cpu",
    "shakespeare-char-modern",
    "shakespeare-char-modern training.steps=170 evaluation.every=170",
]


def octavo_run(recipe: str, text: Path, folder: Path, seed: int, settings: list[str]) -> dict[str, Any]:
    """One training as a process of its own; times are from its start, to each saved evaluation."""
    command = [sys.executable, "-m", "octavo", "train", recipe, "--text", str(text), "--out", str(folder)]
    begin = time.time()
    subprocess.run([*command, f"seed={seed}", *settings], check=True, capture_output=True)
    whole = time.time() - begin
    rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    saved = {
        int(path.parent.name[5:]): path.stat().st_mtime - begin
        for path in (folder / "checkpoints").glob("step-*/MANIFEST.json")
    }
    judged = [row for row in rows if row["event"] == "validation"]
    reached = [saved[row["step"]] for row in judged if row["loss"] <= TARGET and row["step"] in saved]
    trained = [row for row in rows if row["event"] == "train"]
    return {
        "loss": judged[-1]["loss"],
        "loop_seconds": trained[-1]["seconds"],
        "process_seconds": whole,
        "seconds_to_target": min(reached, default=None),
        "steps": judged[-1]["step"],
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--text", type=Path, required=True)
    parser.add_argument("--nanogpt", type=Path, required=True, help="a checkout of nanoGPT")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--octavo", nargs="+", default=OURS, help="recipes, each with its settings after it")
    options = parser.parse_args()
    before = load()
    peers: list[PeerResult] = []
    ours: dict[str, list[dict[str, Any]]] = {words: [] for words in options.octavo}
    for seed in range(
        1, options.repeats + 1
    ):  # in turn, so that a change of the machine's speed meets all alike
        peers.append(run_nanogpt(options.nanogpt, options.text))
        for words, runs in ours.items():
            recipe, *settings = words.split()
            with tempfile.TemporaryDirectory() as folder:
                settings = ["training.keep=1000", *settings]  # so that every saved evaluation has its time
                runs.append(octavo_run(recipe, options.text, Path(folder) / "run", seed, settings))
    loop = statistics.median(peer.loop_seconds for peer in peers)
    rows = [row("nanoGPT", loop, loop, [peer.val_loss for peer in peers], None)]
    for words, runs in ours.items():
        seconds = statistics.median(run["loop_seconds"] for run in runs)
        times = [run["seconds_to_target"] for run in runs]
        to_target = statistics.median(times) if all(times) else None
        rows.append(row(words, seconds, loop, [run["loss"] for run in runs], to_target))
    print_table(rows)
    best = max((found["speed-up to target"] or 0 for found in rows[1:]), default=0)
    runs = {"nanogpt": [vars(peer) for peer in peers], **ours}
    finish({"target": TARGET, "speedup": best, "rows": rows, "runs": runs, "load_before": before})


def row(
    name: str, seconds: float, peer: float, losses: list[float], to_target: float | None
) -> dict[str, Any]:
    """One line of the table."""
    return {
        "": name,
        "loop, s": round(seconds, 2),
        "of nanoGPT's loop": round(seconds / peer, 3),
        "loss": round(statistics.median(losses), 4),
        f"process start to saved ≤ {TARGET}, s": None if to_target is None else round(to_target, 2),
        "speed-up to target": None if to_target is None else round(peer / to_target, 2),
    }


if __name__ == "__main__":
    main()
