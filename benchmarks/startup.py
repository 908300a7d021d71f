"""How long a newcomer waits: `import octavo`, `octavo --help`, each as a fresh process; with a run, until `octavo
generate` shows its first characters; and with a text, from the raw file and an empty cache to the first training loss.

    python benchmarks/startup.py [--run runs/bard] [--before ../earlier] [--text input.txt] [--repeats 7]

`--before` names a checkout of an earlier commit, which is measured in turn with this one.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from common import finish, load, print_table, spread

RECIPE = "shakespeare-char-cpu"
HERE = Path(__file__).parents[1]
COMMANDS = {
    "python -c pass": ["-c", "pass"],
    "import octavo": ["-c", "import octavo"],
    "octavo --help": ["-m", "octavo", "--help"],
    "octavo train --help": ["-m", "octavo", "train", "--help"],
    "octavo recipes": ["-m", "octavo", "recipes"],
}


def environment(checkout: Path, **more: str) -> dict[str, str]:
    """That of a process which runs a checkout's own code; what is compiled is kept, as an installer does."""
    return {**os.environ, "PYTHONPATH": str(checkout / "src"), "PYTHONDONTWRITEBYTECODE": "", **more}


def seconds(checkout: Path, arguments: list[str]) -> float:
    """Wall time of one process."""
    begin = time.perf_counter()
    subprocess.run([sys.executable, *arguments], check=True, capture_output=True, env=environment(checkout))
    return time.perf_counter() - begin


def seconds_to_characters(checkout: Path, run: Path) -> float:
    """Wall time from a process's start until something stands on its standard output."""
    command = ["-m", "octavo", "generate", str(run.resolve()), "--tokens", "20"]
    begin = time.perf_counter()
    with subprocess.Popen(
        [sys.executable, *command],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=environment(checkout),
    ) as process:
        assert process.stdout is not None
        first = process.stdout.read(1)
        found = time.perf_counter() - begin
        process.stdout.read()
    if not first or process.returncode:
        raise SystemExit(f"nothing was written: {' '.join(command)}")
    return found


def seconds_to_loss(checkout: Path, text: Path) -> float:
    """Wall time from a process's start to its first loss; it is ended there."""
    with tempfile.TemporaryDirectory() as folder:
        command = ["-m", "octavo", "train", RECIPE, "--text", str(text.resolve()), "--out", f"{folder}/run"]
        begin = time.perf_counter()
        with subprocess.Popen(
            [sys.executable, *command],
            stderr=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            encoding="utf-8",
            env=environment(checkout, OCTAVO_CACHE=f"{folder}/cache"),
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
    parser.add_argument("--run", type=Path)
    parser.add_argument("--before", type=Path)
    parser.add_argument("--text", type=Path)
    options = parser.parse_args()
    before = load()
    waits: dict[str, Callable[[Path], float]] = {
        name: lambda checkout, arguments=arguments: seconds(checkout, arguments)
        for name, arguments in COMMANDS.items()
    }
    if options.run:
        waits["octavo generate: first characters"] = lambda checkout: seconds_to_characters(
            checkout, options.run
        )
    if options.text:
        waits[f"octavo train {RECIPE}: raw text to first loss"] = lambda checkout: seconds_to_loss(
            checkout, options.text
        )
    checkouts = {"": HERE} | ({" (before)": options.before.resolve()} if options.before else {})
    taken: dict[str, list[float]] = {name + which: [] for name in waits for which in checkouts}
    for name, wait in waits.items():
        for checkout in checkouts.values():  # files into the page cache
            wait(checkout)
        for _ in range(options.repeats):
            for which, checkout in checkouts.items():
                taken[name + which].append(wait(checkout))
    times = {name: spread(found) for name, found in taken.items()}
    print_table(
        [
            {"": name, **{key: round(value, 3) for key, value in found.items()}}
            for name, found in times.items()
        ]
    )
    finish({"seconds": times, "load_before": before})


if __name__ == "__main__":
    main()
