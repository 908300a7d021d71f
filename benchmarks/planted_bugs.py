"""Bugs planted one at a time: does a test see each of them?

`planted_bugs.yaml` lists them: a small change that a tired engineer could make, and the tests that should fail under
it. For each the sources and tests are copied to a temporary folder, the change is made there, and these tests are
run: the fast ones, and the slow ones where no fast one fails. A bug counts as seen when a test fails, not when the code
can no longer be imported. Tests that need real texts are skipped, so that the answer is the same everywhere.

Each outcome is added to `--out` as it comes. A bug whose outcome stands there is not tried again, as long as the bug,
the sources, its tests and what tests share are the same.

    python benchmarks/planted_bugs.py --out planted.jsonl --table benchmarks/results/planted_bugs.md
    python benchmarks/planted_bugs.py --only p-value-without-abs
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from functools import cache, cached_property, partial
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import yaml

from common import finish, keep_row, print_table, rows_in

ROOT = Path(__file__).resolve().parents[1]
PLANTS = Path(__file__).with_suffix(".yaml")
COPIED = ("src", "tests", "benchmarks", "pyproject.toml")
MARKS = {"fast": "not slow", "slow": "slow"}
"""What pytest selects, in the order in which it is run."""
NOTHING_SELECTED = 5
"""pytest's exit status."""
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

    @cached_property
    def state(self) -> str:
        """A hash of what its outcome depends on, as it stands when this is asked first."""
        own = {test.partition("::")[0] for test in self.tests}
        return digest(json.dumps(asdict(self)).encode(), shared_state(), digest_of(map(Path, sorted(own))))


@dataclass(frozen=True)
class Outcome:
    """What became of a bug.

    Attributes:
        seen: by a "fast" test, by a "slow" one, or by none ("").
        by: the test that failed first.
    """

    name: str
    state: str
    seen: str
    by: str
    seconds: float


def digest(*parts: bytes | str) -> str:
    """A hash of them all, in their order."""
    hashes = (hashlib.sha256(part.encode() if isinstance(part, str) else part).digest() for part in parts)
    return hashlib.sha256(b"".join(hashes)).hexdigest()[:16]


def digest_of(files: Iterable[Path]) -> str:
    """A hash of files below the root, by name and content."""
    return digest(*(part for file in files for part in (file.as_posix(), (ROOT / file).read_bytes())))


@cache
def shared_state() -> str:
    """A hash of the sources, and of what stands beside the tests."""
    files = (path for name in ("src", "tests") for path in (ROOT / name).rglob("*") if path.is_file())
    names = sorted(path.relative_to(ROOT) for path in files if "__pycache__" not in path.parts)
    return digest_of(name for name in names if name.parts[0] == "src" or not name.name.startswith("test_"))


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


def run_tests(copy: Path, tests: Iterable[str], which: str, longest: float | None) -> tuple[int | None, str]:
    """pytest on the fast or the slow ones of some tests: its exit status (None: it took too long), and what it said."""
    environment = {
        **os.environ,
        "PYTHONPATH": str(copy / "src"),
        "OCTAVO_CACHE": str(copy / "cache"),
        "OCTAVO_TEST_DATA": str(copy / "none"),
        "OMP_NUM_THREADS": "1",
        "OMP_WAIT_POLICY": "PASSIVE",
    }
    options = ["-x", "--tb=line", "-rfE", "-p", "no:cacheprovider", "-m", MARKS[which]]
    try:
        done = subprocess.run(
            [sys.executable, "-m", "pytest", *options, *tests],
            cwd=copy,
            env=environment,
            capture_output=True,
            text=True,
            timeout=longest,
        )
    except subprocess.TimeoutExpired:
        return None, ""
    return done.returncode, done.stdout + done.stderr


def failed_in(copy: Path, plant: Plant, which: str) -> str:
    """What sees a bug that is planted in a copy: the test that failed first; "" where none did."""
    status, said = run_tests(copy, plant.tests, which, LONGEST)
    if status is None or status < 0:  # it hangs, or a signal ended it
        return "the process " + ("hangs" if status is None else "dies")
    if status in (0, NOTHING_SELECTED):
        return ""
    failed = FAILED.search(said)
    if status != 1 or failed is None:
        sys.exit(f"{plant.name}: under it the tests cannot be run\n{said[-3000:]}")
    return failed[1]


def outcome(plant: Plant, copies: SimpleQueue[Path]) -> Outcome:
    """Plant a bug in a free copy and run its tests. Ends the program where they cannot even be run."""
    copy, begin, seen, by = copies.get(), time.monotonic(), "", ""
    try:
        for which in MARKS:
            with in_place(plant, copy):
                by = failed_in(copy, plant, which)
            if by:
                seen = which
                break
        if seen == "slow":
            demand_green(copy, plant.tests, seen)
    finally:
        copies.put(copy)
    return Outcome(plant.name, plant.state, seen, by, round(time.monotonic() - begin, 1))


def demand_green(copy: Path, tests: Iterable[str], which: str) -> None:
    """End the program where a test fails without any bug."""
    status, said = run_tests(copy, tests, which, None)
    if status not in (0, NOTHING_SELECTED):
        sys.exit(f"Without a planted bug the tests are not green:\n{said[-5000:]}")


def tried(plants: Sequence[Plant], *, jobs: int) -> Iterator[Outcome]:
    """The outcome of every bug, in the order of the list."""
    with tempfile.TemporaryDirectory(prefix="octavo-planted-") as folder, ThreadPoolExecutor(jobs) as pool:
        copies: SimpleQueue[Path] = SimpleQueue()
        for copy in [copied(Path(folder)) for _ in range(jobs)]:
            copies.put(copy)
        demand_green(copy, sorted({test for plant in plants for test in plant.tests}), "fast")
        yield from pool.map(partial(outcome, copies=copies), plants)


def table(plants: Sequence[Plant], outcomes: Sequence[Outcome]) -> str:
    """The page of results, in Markdown."""
    counted = Counter(found.seen for found in outcomes)
    rows = [
        f"| {number} | {plant.says} | `{plant.file.removeprefix('src/octavo/')}` | {found.seen} | {seer(found)} |"
        for number, (plant, found) in enumerate(zip(plants, outcomes, strict=True), 1)
    ]
    return "\n".join(
        [
            "# Planted bugs",
            "",
            f"{len(plants)} bugs, planted one at a time: {counted['fast']} are seen by a fast test, {counted['slow']} "
            f"by slow ones alone, {counted['']} by none.",
            "Made by `python benchmarks/planted_bugs.py --table benchmarks/results/planted_bugs.md`; the changes "
            "themselves stand",
            "in `benchmarks/planted_bugs.yaml`.",
            "",
            "| | bug | place | run | seen first by |",
            "| ---: | --- | --- | --- | --- |",
            *rows,
            "",
        ]
    )


def seer(found: Outcome) -> str:
    """The test, without the folders above its room and without what it was called with."""
    if not found.seen:
        return "**nothing**"
    name = found.by.partition("[")[0].removeprefix("tests/").removeprefix("unit/")
    return f"`{name.replace('::', ' ')}`" if "::" in found.by else found.by


def main() -> int:
    """Try the bugs; 0 when a test sees every one."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", action="append", metavar="NAME", help="this bug alone; may be repeated")
    parser.add_argument("--jobs", type=int, default=1, help="how many at once")
    parser.add_argument(
        "--out", type=Path, default=os.devnull, metavar="FILE", help="add the outcomes to this file"
    )
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
    rows = rows_in(options.out)
    missing = [plant for plant in chosen if plant.state not in {row["state"] for row in rows}]
    for found in tried(missing, jobs=options.jobs) if missing else ():
        keep_row(asdict(found), rows, options.out)
    known = {row["state"]: Outcome(**row) for row in rows}
    outcomes = [known[plant.state] for plant in chosen]
    if options.table:
        options.table.write_text(table(chosen, outcomes), encoding="utf-8")
    bugs: list[dict[str, Any]] = [asdict(found) for found in outcomes]
    if not options.json:
        print_table(bugs)
    survived = [found.name for found in outcomes if not found.seen]
    slow = [found.name for found in outcomes if found.seen == "slow"]
    finish({"planted": len(bugs), "slow": slow, "survived": survived, "bugs": bugs})
    return 1 if survived else 0


if __name__ == "__main__":
    sys.exit(main())
