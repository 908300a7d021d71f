"""How soon a validation loss is reached, from process start to the saved checkpoint, beside nanoGPT in the same run.

    python benchmarks/time_to_loss.py --text input.txt --nanogpt PATH [--repeats 3]

Rows: nanoGPT's own CPU recipe (unmodified; its loop without evaluations, and its whole-split loss by the same blocks);
Octavo at nanoGPT's exact shape and steps; Octavo's modern recipe, and the first moment at which it had saved weights
whose loss over the whole validation split is at most the target.
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
from nanogpt_cpu import run_nanogpt

TARGET = 1.92


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
    options = parser.parse_args()
    before = load()
    peers, same, modern = [], [], []
    for seed in range(
        1, options.repeats + 1
    ):  # in turn, so that a change of the machine's speed meets all alike
        peers.append(run_nanogpt(options.nanogpt, options.text))
        with tempfile.TemporaryDirectory() as folder:
            keep = ["training.keep=1000"]
            same.append(octavo_run("shakespeare-char-cpu", options.text, Path(folder) / "same", seed, keep))
            modern.append(
                octavo_run("shakespeare-char-modern", options.text, Path(folder) / "modern", seed, keep)
            )
    loop = statistics.median(peer.loop_seconds for peer in peers)
    rows = [row("nanoGPT", loop, loop, [peer.val_loss for peer in peers], None)]
    for name, runs in (("octavo shakespeare-char-cpu", same), ("octavo shakespeare-char-modern", modern)):
        seconds = statistics.median(run["loop_seconds"] for run in runs)
        times = [run["seconds_to_target"] for run in runs]
        to_target = statistics.median(times) if all(times) else None
        rows.append(row(name, seconds, loop, [run["loss"] for run in runs], to_target))
    print_table(rows)
    finish(
        {
            "target": TARGET,
            "speedup": rows[2]["speed-up to target"],
            "rows": rows,
            "runs": {"nanogpt": [vars(peer) for peer in peers], "same_shape": same, "modern": modern},
            "load_before": before,
        }
    )


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
