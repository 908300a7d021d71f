"""How long a newcomer waits: `import octavo`, `octavo --help`, each as a fresh process.

python benchmarks/startup.py [--repeats 7]
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time

from common import finish, load, print_table, spread

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


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=7)
    repeats = parser.parse_args().repeats
    before = load()
    for arguments in COMMANDS.values():  # files into the page cache
        seconds(arguments)
    times = {
        name: spread([seconds(arguments) for _ in range(repeats)]) for name, arguments in COMMANDS.items()
    }
    print_table(
        [
            {"": name, **{key: round(value, 3) for key, value in found.items()}}
            for name, found in times.items()
        ]
    )
    finish({"seconds": times, "load_before": before})


if __name__ == "__main__":
    main()
