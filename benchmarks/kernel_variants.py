"""The kernels' whole tests by each variant that can be run here, one after the other, and whether variants agree.

    python packaging/kernels.py build/variants
    python benchmarks/kernel_variants.py build/variants/*/*.so [--by arm64=PROGRAM …] [--slow]

PROGRAM is what runs Python for that variant in place of this one: for arm64 a script that starts an arm64 Python under
qemu, with torch, pytest and the source in its path. A variant that its processor does not know is said to be that.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from common import finish, load, print_table

ROOT = Path(__file__).parents[1]
TESTS = (
    *("test_native.py", "test_native_fits.py", "test_int8.py", "test_proof.py", "test_slots.py"),
    *("../model/test_attend.py", "../ngram"),
)
SCORE = "import ctypes, sys; print(ctypes.CDLL(sys.argv[1]).score())"
ANSWERS = """
import hashlib
from octavo.generation.proof import answers, prove
from octavo.util.kernels import in_use
parts = {True: hashlib.sha256(), False: hashlib.sha256()}
for name, answer in answers():
    parts["bfloat16" in name].update(name.encode() + answer.tobytes())
taken = in_use().why == "OCTAVO_KERNEL names this file"
print(taken, prove() is None, *(part.hexdigest()[:8] for part in parts.values()))
"""


def asked(program: list[str], *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Python by a program, which has the kernels that `variables` name."""
    own = {**os.environ, "PYTHONPATH": os.pathsep.join((str(ROOT / "src"), os.environ.get("PYTHONPATH", "")))}
    return subprocess.run(
        [*program, *words], env=own | variables, cwd=ROOT, capture_output=True, encoding="utf-8", check=False
    )


def judged(library: Path, program: list[str], slow: bool) -> dict[str, Any]:
    """What came of one variant."""
    row: dict[str, Any] = {"variant": library.stem, "platform": library.parent.name}
    scored = asked(program, "-c", SCORE, str(library))
    if scored.returncode or scored.stdout.strip() == "0":
        return row | {"tests": "not loaded here" if scored.returncode else "not for this processor"}
    answers = asked(program, "-c", ANSWERS, OCTAVO_KERNEL=str(library))
    if answers.returncode or (words := answers.stdout.split())[:2] != ["True", "True"]:
        return row | {"tests": f"does not prove itself: {answers.stdout}{answers.stderr[-500:]}"}
    row |= {"bits in bfloat16": words[2], "other bits": words[3]}
    begin = time.perf_counter()
    files = [str((ROOT / "tests/unit/generation" / name).resolve()) for name in TESTS]
    pytest = ["-m", "pytest", "-p", "no:cacheprovider", "--tb=short", *(["-m", ""] if slow else []), *files]
    told = asked(program, *pytest, OCTAVO_KERNEL=str(library)).stdout
    counts = re.findall(r"(\d+) (passed|failed|skipped|errors?)", told)
    if not counts or any(what.startswith(("failed", "error")) for _, what in counts):
        print(told[-8000:], file=sys.stderr)
    said = ", ".join(f"{number} {what}" for number, what in counts) or "ended before their end"
    return row | {"tests": said, "s": round(time.perf_counter() - begin)}


def main() -> None:
    """Test and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("libraries", nargs="+", type=Path)
    parser.add_argument("--by", action="append", default=[], help="VARIANT=PROGRAM that is its Python")
    parser.add_argument("--slow", action="store_true", help="tests that are marked slow, too")
    options = parser.parse_args()
    programs = dict(words.split("=", 1) for words in options.by)
    before, rows = load(), []
    for library in options.libraries:
        program = programs.get(library.stem, sys.executable)
        rows.append(judged(library.resolve(), [program], options.slow))
        print(rows[-1], file=sys.stderr, flush=True)
    keys = list(dict.fromkeys(key for row in rows for key in row))
    print_table([{key: row.get(key, "") for key in keys} for row in rows])
    finish({"benchmark": "kernel_variants", "rows": rows, "slow": options.slow, "load_before": before})


if __name__ == "__main__":
    main()
