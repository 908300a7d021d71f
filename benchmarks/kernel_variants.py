"""The kernels' whole tests by each variant that can be run here, one after the other, and whether variants agree.

    python packaging/kernels.py build/variants
    python benchmarks/kernel_variants.py build/variants/*/*.so --out variants.jsonl [--by arm64=PROGRAM …] [--slow]

PROGRAM is what runs Python for that variant in place of this one: for arm64 a script that starts an arm64 Python under
qemu, with torch, pytest and the source in its path. A variant that its processor does not know is said to be that. Each
outcome is kept as it comes: a run that was stopped goes on where it was, and what has not passed is tried again. A test
that gives no outcome for `--limit` seconds, or ends its process, is told by name.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from threading import Timer
from typing import Any

from common import finish, keep_row, load, print_table, rows_in

ROOT = Path(__file__).parents[1]
TESTS = (
    *(
        f"generation/test_{name}.py"
        for name in ("native", "native_fits", "int8", "rounded", "proof", "slots")
    ),
    *("model/test_attention.py", "ngram"),
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
PYTEST = ("-m", "pytest", "-p", "no:cacheprovider", "--tb=short")
ENDED = re.compile(r"(\S+?::.*?) (PASSED|FAILED|ERROR|SKIPPED|XFAIL)\b.*")
FINE = ("PASSED", "SKIPPED", "XFAIL")


def started(program: str, *words: str, **variables: str) -> subprocess.Popen[str]:
    """Python by a program, with one thread, and variables of its own."""
    paths = [str(ROOT / "src"), *filter(None, [os.environ.get("PYTHONPATH")])]
    own = os.environ | {"PYTHONPATH": os.pathsep.join(paths), "OMP_NUM_THREADS": "1"} | variables
    pipe, both = subprocess.PIPE, subprocess.STDOUT
    return subprocess.Popen(
        [program, *words], env=own, cwd=ROOT, stdout=pipe, stderr=both, encoding="utf-8", errors="replace"
    )


def asked(program: str, *words: str, **variables: str) -> tuple[int, str]:
    """The exit code, and what was printed."""
    process = started(program, *words, **variables)
    said, _ = process.communicate()
    return process.returncode, said.strip()


def judged(library: Path, program: str) -> dict[str, str]:
    """Whether a variant can be run here, by its own word and by its proof, and the bits of its answers."""
    code, score = asked(program, "-c", SCORE, str(library))
    if code or score == "0":
        return {"outcome": "not loaded here" if code else "not for this processor"}
    code, said = asked(program, "-c", ANSWERS, OCTAVO_KERNEL=str(library))
    words = said.rpartition("\n")[2].split()  # libraries may have said something before
    if code or words[:2] != ["True", "True"]:
        return {"outcome": f"does not prove itself: {said[-500:]}"}
    return {"outcome": "PASSED", "bits in bfloat16": words[2], "other bits": words[3]}


def tests(program: str, paths: list[str], slow: bool = False) -> list[str]:
    """All tests of some files and folders, in their order, by the names that pytest gives them. Raises SystemExit."""
    code, said = asked(program, *PYTEST, "--collect-only", *(["-m", ""] if slow else []), *paths)
    if code:
        raise SystemExit(said)
    return [line for line in said.splitlines() if "::" in line]


def outcomes(program: str, names: list[str], limit: float, **variables: str) -> Iterator[dict[str, Any]]:
    """What comes of some tests, each as soon as it has ended; each file's by a process of its own."""
    for file in dict.fromkeys(name.split("::")[0] for name in names):
        wanted = [name for name in names if name.startswith(f"{file}::")]
        while wanted:
            yield from _outcomes(program, wanted, limit, **variables)


def _outcomes(program: str, wanted: list[str], limit: float, **variables: str) -> Iterator[dict[str, Any]]:
    """Those of one process, which takes them from `wanted`."""
    process = started(program, *PYTEST, "-vv", "-m", "", *wanted, **variables)
    assert process.stdout is not None
    before, begin = len(wanted), time.perf_counter()
    while True:
        timer = Timer(limit, process.kill)
        timer.start()
        line = process.stdout.readline()
        timer.cancel()
        if not line.endswith("\n"):
            break
        if (found := ENDED.match(line)) and found[1] in wanted:
            wanted.remove(found[1])
            now = time.perf_counter()
            yield {"test": found[1], "outcome": found[2], "s": round(now - begin, 1)}
            begin = now
    process.kill()
    code, took = process.wait(), time.perf_counter() - begin
    if line.strip() in wanted or len(wanted) == before:
        test = line.strip() if line.strip() in wanted else wanted[0]
        wanted.remove(test)
        why = f"no outcome after {took:.0f} s" if took >= limit else f"ended its process ({code})"
        yield {"test": test, "outcome": why, "s": round(took, 1)}


def without(names: list[str], rows: list[dict[str, Any]]) -> list[str]:
    """The tests that have not passed yet."""
    passed = {row["test"] for row in rows if row["outcome"] in FINE}
    return [name for name in names if name not in passed]


def counted(names: list[str], rows: list[dict[str, Any]]) -> str:
    """How many of some tests ended how, when they were last tried."""
    last = {row["test"]: row["outcome"] for row in rows}
    counts = Counter(last[name].lower() for name in names if name in last)
    return ", ".join(f"{number:,} {what}" for what, number in counts.items())


def main() -> None:
    """Test and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("libraries", nargs="+", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--by", action="append", default=[], help="VARIANT=PROGRAM that is its Python")
    parser.add_argument("--limit", type=float, default=1800, help="seconds that a test has")
    parser.add_argument("--slow", action="store_true", help="tests that are marked slow, too")
    options = parser.parse_args()
    programs = dict(words.split("=", 1) for words in options.by)
    names = tests(sys.executable, [f"tests/unit/{name}" for name in TESTS], options.slow)
    before, rows, table = load(), rows_in(options.out), []
    for library in options.libraries:
        program = programs.get(library.stem, sys.executable)
        told = hashlib.sha256(library.read_bytes()).hexdigest()[:16]
        which = {"variant": library.stem, "platform": library.parent.name, "sha256": told}
        own = [row for row in rows if row["sha256"] == told]
        if without([""], own):
            keep_row(which | {"test": ""} | judged(library.resolve(), program), own, options.out)
        verdict = next(row for row in reversed(own) if not row["test"])
        if verdict["outcome"] == "PASSED":
            left = without(names, own)
            for row in outcomes(program, left, options.limit, OCTAVO_KERNEL=str(library.resolve())):
                keep_row(which | row, own, options.out)
        bits = {key: verdict.get(key, "") for key in ("bits in bfloat16", "other bits")}
        said = counted(names, own) or verdict["outcome"]
        table.append({"variant": which["variant"], "platform": which["platform"], "tests": said} | bits)
    print_table(table)
    finish({"rows": table, "slow": options.slow, "load_before": before})


if __name__ == "__main__":
    main()
