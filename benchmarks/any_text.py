"""The recipes for any text beside those for TinyShakespeare, on texts of several kinds: bits per byte after each run.

    python benchmarks/any_text.py --texts play.txt shakespeare.txt chinese.txt notes.md [--recipes quick minute …]
        [--runs FOLDER] [--set key=value]

Each run is a process of its own, as a user starts it. What is in --runs already is not trained again, so that a table
can be made piece by piece. Beside each text stand the best n-gram, gzip, and xz with the training text before it.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from common import finish, load, machine, print_table

RECIPES = (
    "quick",
    "minute",
    "ten-minutes",
    "shakespeare-char-cpu",
    "shakespeare-char-quick",
    "shakespeare-char-modern",
)


def trained(recipe: str, text: Path, runs: Path, settings: list[str]) -> dict[str, Any]:
    """One run's row; `seconds` is the loop's own time, evaluations left out, and says little on a busy machine."""
    out = runs / f"{text.stem}-{recipe}"
    before = load()
    if not (out / "evaluation.json").is_file():
        command = [sys.executable, "-m", "octavo", "train", recipe, "--text", str(text), "--out", str(out)]
        environment = {**os.environ, "OCTAVO_CACHE": str(runs / "cache")}
        subprocess.run(
            [*command, "--quiet", *settings], env=environment, check=True, stdout=subprocess.DEVNULL
        )
    found = json.loads((out / "evaluation.json").read_text(encoding="utf-8"))
    rows = [json.loads(line) for line in (out / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    last = [row for row in rows if row["event"] == "train"][-1]
    return {
        "text": text.name,
        "recipe": recipe,
        "bits/byte": round(found["bits_per_byte"], 3),
        "best n-gram": round(found["baselines"]["ngram"]["bits_per_byte"], 3),
        "gzip": round(found["baselines"]["gzip"]["bits_per_byte"], 3),
        "xz": round(found["baselines"]["xz_given_train"]["bits_per_byte"], 3),
        "steps": last["step"],
        "best step": found["step"],
        "training loss": round(last["loss"], 3),
        "validation loss": round(found["val_loss"], 3),
        "seconds": round(last["seconds"], 1),
        "load before": before,
    }


def main() -> None:
    """All recipes on all texts."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--texts", nargs="+", type=Path, required=True)
    parser.add_argument("--recipes", nargs="+", default=list(RECIPES))
    parser.add_argument("--runs", type=Path)
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="for every run")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="octavo-any-text-") as folder:
        runs = given.runs or Path(folder)
        rows = [trained(recipe, text, runs, given.set) for text in given.texts for recipe in given.recipes]
    print_table(rows)
    finish({"machine": machine(), "settings": given.set, "runs": rows})


if __name__ == "__main__":
    main()
