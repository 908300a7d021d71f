"""Every small recipe from an empty cache to its report: seconds from process start, and what it learned.

    python benchmarks/recipes_cpu.py --shakespeare ts.txt --novel crusoe.txt --script play.txt \\
        --stories tinystories.txt --documents pdfs/

A recipe whose text is not given is left out, and said. GPT-2's encoding has to be in tiktoken's cache or reachable.
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

from common import finish, load, machine, print_table

TEXTS: dict[str, str | None] = {  # which text a recipe is for; None: it makes its own
    "pidgin-stories-cpu": None,
    "tensors-only-cpu": "shakespeare",
    "pdf-folder-cpu": "documents",
    "tinystories-gpt2-cpu": "stories",
    "shakespeare-char-report-cpu": "shakespeare",
    "crusoe-char-cpu": "novel",
    "script-char-large-cpu": "script",
    "script-char-small-cpu": "script",
    "shakespeare-gpt2-cpu": "shakespeare",
}


def trained(recipe: str, text: Path | None, folder: Path) -> dict[str, Any]:
    """One run as a user starts it, in a process of its own."""
    out = folder / recipe
    command = [sys.executable, "-m", "octavo", "train", recipe, "--out", str(out)]
    command += [] if text is None else ["--text", str(text)]
    environment = {**os.environ, "OCTAVO_CACHE": str(folder / f"{recipe}-cache")}
    before, start = load(), time.perf_counter()
    subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL)
    seconds = time.perf_counter() - start
    found = json.loads((out / "evaluation.json").read_text(encoding="utf-8"))
    rows = [json.loads(line) for line in (out / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    last = [row for row in rows if row["event"] == "validation"][-1]
    kinds = [diagnostic["kind"] for diagnostic in found["diagnostics"]]
    return {
        "recipe": recipe,
        "seconds": round(seconds, 1),
        "parameters": found["parameters"],
        "steps": last["step"],
        "best step": found["step"],
        "loss": round(found["val_loss"], 3),
        "bits/byte": round(found["bits_per_byte"], 3),
        "last bits/byte": round(last["bits_per_byte"], 3),
        "diagnostics": ", ".join(kind for kind in kinds if kind not in ("baselines", "memorization")),
        "load before": before,
    }


def main() -> None:
    """Run all that have a text."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for name in sorted({text for text in TEXTS.values() if text}):
        parser.add_argument(f"--{name}", type=Path)
    parser.add_argument("--only", nargs="*", default=list(TEXTS), choices=list(TEXTS), metavar="RECIPE")
    given = vars(parser.parse_args())
    rows = []
    with tempfile.TemporaryDirectory(prefix="octavo-recipes-") as folder:
        for recipe in given["only"]:
            kind = TEXTS[recipe]
            if kind is not None and given[kind] is None:
                print(f"left out: {recipe} (no --{kind})")
                continue
            rows.append(trained(recipe, given[kind] if kind else None, Path(folder)))
            print(rows[-1], flush=True)
    print_table(rows)
    finish({"machine": machine(), "recipes": rows})


if __name__ == "__main__":
    main()
