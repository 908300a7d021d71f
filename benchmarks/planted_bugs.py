"""Bugs planted one at a time: does a test see each of them?

`planted_bugs.yaml` lists them: a small change that a tired engineer could make, and the tests that should fail under
it. For each the sources and tests are copied to a temporary folder, the change is made there, and these tests are
run. A bug counts as killed when a test fails, not when the code can no longer be imported. Tests that need real texts
are skipped, so that the answer is the same everywhere.

    python benchmarks/planted_bugs.py --table benchmarks/results/planted_bugs.md
    python benchmarks/planted_bugs.py --only p-value-without-abs
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import yaml

from common import finish, print_table

ROOT = Path(__file__).resolve().parents[1]
PLANTS = Path(__file__).with_suffix(".yaml")
COPIED = ("src", "tests", "benchmarks", "pyproject.toml")
LONGEST = 600
"""Seconds after which tests under a planted bug count as hanging, which a person would see."""

FAILED = re.compile(r"^(?:FAILED|ERROR) (\S+)", re.MULTILINE)


@dataclass(frozen=True)
class Plant:
    """One bug: in `file` the text `old`, which stands there once, becomes `new`; `tests` should see it."""

    name: str
    says: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]

    def problem(self, root: Path) -> str | None:
        """Why it cannot be planted in this tree, if so."""
        path = root / self.file
        found = path.read_text(encoding="utf-8").count(self.old) if path.is_file() else 0
        if found != 1:
            return f"{self.name}: {self.file} has its old text {found} times, not once"
        if self.old == self.new:
            return f"{self.name}: old and new text are the same"
        missing = [test for test in self.tests if not (root / test.partition("::")[0]).is_file()]
        return f"{self.name}: no test file {missing[0]}" if missing else None

    def planted(self, root: Path) -> str:
        """The file's text with the bug in it."""
        return (root / self.file).read_text(encoding="utf-8").replace(self.old, self.new)


@dataclass(frozen=True)
class Outcome:
    """What became of a bug. `by`: the test that failed first."""

    name: str
    killed: bool
    by: str
    seconds: float


def read_plants(path: Path = PLANTS) -> list[Plant]:
    """The list."""
    rows = yaml.safe_load(path.read_text(encoding="utf-8"))
    return [Plant(**{**row, "tests": tuple(row["tests"].split())}) for row in rows]


def problems(plants: Sequence[Plant], root: Path = ROOT) -> list[str]:
    """What is wrong with the list: a sentence for each bug that cannot be planted, or whose name stands twice."""
    names = [plant.name for plant in plants]
    twice = sorted({name for name in names if names.count(name) > 1})
    found = [problem for plant in plants if (problem := plant.problem(root)) is not None]
    return found + [f"{name}: the name stands twice" for name in twice]


def copied(folder: Path) -> Path:
    """A copy of the tree in a new folder beneath `folder`."""
    copy = Path(tempfile.mkdtemp(dir=folder))
    for name in COPIED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, copy / name, ignore=shutil.ignore_patterns("__pycache__", ".hypothesis"))
        else:
            shutil.copy2(source, copy / name)
    return copy


@contextlib.contextmanager
def in_place(plant: Plant, copy: Path) -> Iterator[None]:
    """The bug in a copy of the tree, and the file as it was afterwards."""
    path = copy / plant.file
    before = path.read_bytes()
    # What Python keeps compiled is told apart by size and second: too coarse for changes as quick as these.
    compiled = Path(importlib.util.cache_from_source(str(path)))
    try:
        compiled.unlink(missing_ok=True)
        path.write_text(plant.planted(copy), encoding="utf-8")
        yield
    finally:
        path.write_bytes(before)
        compiled.unlink(missing_ok=True)


def run_tests(copy: Path, tests: Sequence[str], longest: float | None) -> tuple[int | None, str]:
    """pytest on some tests of a copy: its exit status (None: it took longer than `longest`), and what it said."""
    environment = {
        **os.environ,
        "PYTHONPATH": str(copy / "src"),
        "OCTAVO_CACHE": str(copy / "cache"),
        "OCTAVO_TEST_DATA": str(copy / "none"),
        "OMP_NUM_THREADS": "1",
        "OMP_WAIT_POLICY": "PASSIVE",
    }
    command = [sys.executable, "-m", "pytest", "-x", "--tb=line", "-rfE", "-p", "no:cacheprovider", *tests]
    try:
        done = subprocess.run(
            command, cwd=copy, env=environment, capture_output=True, text=True, timeout=longest
        )
    except subprocess.TimeoutExpired:
        return None, ""
    return done.returncode, done.stdout + done.stderr


def outcome(plant: Plant, copies: SimpleQueue[Path]) -> Outcome:
    """Plant a bug in a free copy and run its tests. Ends the program where the tests cannot even be run."""
    copy, begin = copies.get(), time.monotonic()
    try:
        with in_place(plant, copy):
            status, said = run_tests(copy, plant.tests, LONGEST)
    finally:
        copies.put(copy)
    seconds = round(time.monotonic() - begin, 1)
    if status in (0, 1):
        failed = FAILED.search(said)
        by = failed[1] if failed else ""
        assert bool(by) is bool(status), said[-3000:]
        return Outcome(plant.name, bool(status), by, seconds)
    if status is None or status < 0:  # it hangs, or a signal ended it
        return Outcome(plant.name, True, "the process" + (" hangs" if status is None else " dies"), seconds)
    sys.exit(f"{plant.name}: under it the tests cannot be run\n{said[-3000:]}")


def demand_green(copy: Path, plants: Sequence[Plant]) -> None:
    """End the program where a test fails without any bug."""
    status, said = run_tests(copy, sorted({test for plant in plants for test in plant.tests}), None)
    if status != 0:
        sys.exit(f"Without a planted bug the tests are not green:\n{said[-5000:]}")


def tried(plants: Sequence[Plant], *, jobs: int) -> list[Outcome]:
    """The outcome of every bug, in the order of the list."""
    with tempfile.TemporaryDirectory(prefix="octavo-planted-") as folder:
        copies: SimpleQueue[Path] = SimpleQueue()
        for copy in [copied(Path(folder)) for _ in range(jobs)]:
            copies.put(copy)
        demand_green(copy, plants)
        outcomes = []
        with ThreadPoolExecutor(jobs) as pool:
            for found in pool.map(partial(outcome, copies=copies), plants):
                print(f"{found.name}: {found.by or 'SURVIVED'} ({found.seconds} s)", file=sys.stderr)
                outcomes.append(found)
        return outcomes


def table(plants: Sequence[Plant], outcomes: Sequence[Outcome]) -> str:
    """The page of results, in Markdown."""
    killed = sum(found.killed for found in outcomes)
    rows = [
        f"| {number} | {plant.says} | `{plant.file.removeprefix('src/octavo/')}` | {killer(found)} |"
        for number, (plant, found) in enumerate(zip(plants, outcomes, strict=True), 1)
    ]
    return "\n".join(
        [
            "# Planted bugs",
            "",
            f"{len(plants)} bugs, planted one at a time; {killed} were seen by a test, {len(plants) - killed} by none. "
            "Made by",
            "`python benchmarks/planted_bugs.py --table benchmarks/results/planted_bugs.md`; the changes themselves "
            "stand in",
            "`benchmarks/planted_bugs.yaml`.",
            "",
            "| | bug | place | killed by |",
            "| ---: | --- | --- | --- |",
            *rows,
            "",
        ]
    )


def killer(found: Outcome) -> str:
    """The test, without the folders above its room and without what it was called with."""
    if not found.killed:
        return "**nothing**"
    name = found.by.partition("[")[0].removeprefix("tests/").removeprefix("unit/")
    return f"`{name.replace('::', ' ')}`" if "::" in found.by else found.by


def main() -> int:
    """Try the bugs; 0 when a test sees every one."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", action="append", metavar="NAME", help="this bug alone; may be repeated")
    parser.add_argument("--jobs", type=int, default=1, help="how many at once")
    parser.add_argument("--table", type=Path, metavar="FILE", help="write the page of results")
    parser.add_argument("--json", action="store_true", help="print the JSON document alone")
    options = parser.parse_args()
    plants = read_plants()
    unknown = sorted(set(options.only or ()) - {plant.name for plant in plants})
    wrong = problems(plants) + [f"{name}: there is no such bug in the list" for name in unknown]
    if wrong:
        print("\n".join(wrong), file=sys.stderr)
        return 2
    chosen = [plant for plant in plants if not options.only or plant.name in options.only]
    outcomes = tried(chosen, jobs=options.jobs)
    if options.table:
        options.table.write_text(table(chosen, outcomes), encoding="utf-8")
    rows: list[dict[str, Any]] = [asdict(found) for found in outcomes]
    if not options.json:
        print_table(rows)
    survived = [found.name for found in outcomes if not found.killed]
    finish({"planted": len(rows), "survived": survived, "bugs": rows})
    return 1 if survived else 0


if __name__ == "__main__":
    sys.exit(main())
