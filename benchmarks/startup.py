"""How long a newcomer waits: `import octavo`, `octavo --help`, each as a fresh process; and with a text, from the raw
file and an empty cache to the first training loss.

    python benchmarks/startup.py [--text input.txt] [--repeats 7]
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from common import finish, load, print_table, spread

RECIPE = "shakespeare-char-cpu"
COMMANDS = {
    "python -c pass": ["-c", "pass"],
    "import octavo": ["-c", "import octavo"],
    "octavo --help": ["-m", "octavo", "--help"],
    "octavo train --help": ["-m", "octavo", "train", "--help"],
    "octavo recipes": ["-m", "octavo", "recipes"],
}


def seconds(arguments: list[str]) -> float:
    """Wall time of one process."""
    begin = time.perf_counter()
    subprocess.run([sys.executable, *arguments], check=True, capture_output=True)
    return time.perf_counter() - begin


def seconds_to_loss(text: Path) -> float:
    """Wall time from a process's start to its first loss; it is ended there."""
    with tempfile.TemporaryDirectory() as folder:
        command = ["-m", "octavo", "train", RECIPE, "--text", str(text), "--out", f"{folder}/run"]
        begin = time.perf_counter()
        with subprocess.Popen(
            [sys.executable, *command],
            stderr=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            encoding="utf-8",
            env={**os.environ, "OCTAVO_CACHE": f"{folder}/cache"},
        ) as process:
            assert process.stderr is not None
            for line in process.stderr:
                if line.startswith("step 1/"):
                    found = time.perf_counter() - begin
                    process.kill()
                    return found
    raise SystemExit(f"there was no loss: {' '.join(command)}")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--text", type=Path)
    options = parser.parse_args()
    repeats = options.repeats
    before = load()
    for arguments in COMMANDS.values():  # files into the page cache
        seconds(arguments)
    times = {
        name: spread([seconds(arguments) for _ in range(repeats)]) for name, arguments in COMMANDS.items()
    }
    if options.text:
        seconds_to_loss(options.text)
        name = f"octavo train {RECIPE}: raw text to first loss"
        times[name] = spread([seconds_to_loss(options.text) for _ in range(repeats)])
    print_table(
        [
            {"": name, **{key: round(value, 3) for key, value in found.items()}}
            for name, found in times.items()
        ]
    )
    finish({"seconds": times, "load_before": before})


if __name__ == "__main__":
    main()
