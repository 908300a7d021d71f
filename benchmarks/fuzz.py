"""Hundreds of damaged folders, recipes and overrides through the command line: each ends with a sentence.

python benchmarks/fuzz.py [--folders 600] [--recipes 600] [--seed 1] [--write]

Counts by how commands ended: 0 done, 1 the machine's or a file's fault, 2 the user's input, 130 interrupted by this
program's own clock. Anything else is a fault of Octavo's. `--write` puts the table into results/fuzz.md.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import mutations
from common import finish, print_table

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from e2e.conftest import RECIPE, SENTENCES
from e2e.forked import Octavo

TOGETHER = 2
WORDS = ("cannot be", "no ", "not ", "error", "damaged", "missing")

STUDY = """\
baseline: recipe.yaml
seeds: 2
noise: 0
budget: {steps: 10}
changes:
- {name: narrow, hypothesis: worse, expect: worse, set: {model.width: 8}}
"""

Case = tuple[str, str, list[str]]


def prepared(folder: Path) -> Octavo:
    """A folder with a text, a run, a taught run and a study."""
    (folder / "recipe.yaml").write_text(RECIPE, encoding="utf-8")
    (folder / "study.yaml").write_text(STUDY, encoding="utf-8")
    (folder / "prompts.txt").write_text("the fox\nwho\n", encoding="utf-8")
    order = (7 * n * n + 3 * n for n in range(120))
    (folder / "text.txt").write_text("".join(SENTENCES[n % 11 % 4] for n in order), encoding="utf-8")
    octavo = Octavo(folder, folder / "cache")
    for words in (
        ("train", "recipe.yaml", "--text", "text.txt", "--out", "run", "evaluation.initial=true"),
        ("generate", "run", "--prompts", "prompts.txt"),
        ("train", "recipe.yaml", "--text", "text.txt", "--out", "taught", "training.teachers.runs=run",
         "training.teachers.written=200"),
        ("study", "run", "study.yaml", "--text", "text.txt", "--out", "study"),
    ):  # fmt: skip
        done = octavo(*words)
        assert done.code == 0, done.err
    return octavo


def folders(folder: Path, count: int, seed: int) -> Iterator[Case]:
    """Kind, what is wrong, and the command."""
    # Commands that run meanwhile build and clear datasets in the cache itself.
    shutil.copytree(folder / "cache", folder / "whole-cache", symlinks=True)
    for number in range(count):
        source = ("run", "run", "run", "taught", "study", "cache")[number % 6]
        target = folder / f"damaged-{number}"
        whole = "whole-cache" if source == "cache" else source
        wrong = mutations.damaged(folder / whole, target, number, seed)
        at = str(target)
        train = ["train", "recipe.yaml", "--text", "text.txt"]
        if source == "study":
            verbs = [
                ["study", "report", at],
                ["study", "run", "study.yaml", "--text", "text.txt", "--out", at],
            ]
        elif source == "cache":
            verbs = [
                ["cache", at, *train, "--out", f"{at}-out", "training.steps=3"],
                ["cache", at, "eval", "run"],
            ]
        else:
            taught = (
                ["training.teachers.runs=run", "training.teachers.written=200"] if source == "taught" else []
            )
            first = ["evaluation.initial=true"] if source == "run" else []
            resume = [*train, "--out", at, "--resume", *taught, *first]
            verbs = [
                ["info", at], ["info", f"{at}/checkpoints/step-000040"], ["eval", at, "--json"],
                ["generate", at, "--tokens", "5"], ["generate", at, "--prompts", "prompts.txt", "--tokens", "5"],
                resume, [*resume, "training.steps=42"], ["train", "--replay", at, "--out", f"{at}-again"],
                [*train, "--out", f"{at}-out", f"training.teachers.runs={at}", "training.steps=2"],
                ["generate", at, "--correct", "vocabulary", "--tokens", "5"],
            ]  # fmt: skip
        yield source, wrong, verbs[number // 6 % len(verbs)]


def recipes(folder: Path, count: int, seed: int) -> Iterator[Case]:
    """The same of recipes and overrides: printed, planned, and where that is quick, trained by."""
    for number in range(count):
        if number % 2:
            content, long = mutations.recipe(number, seed)
            (folder / f"recipe-{number}.yaml").write_bytes(content)
            name, words = f"recipe-{number}.yaml", []
        else:
            words, long = mutations.overrides(number, seed)
            name = "recipe.yaml"
        verb = ["train", name, "--text", "text.txt"]
        if number % 4 < 2:
            command = [*verb, *words, "--dry-run"]
        elif number % 8 < 5 and number % 2 == 0:
            command = ["plan", name, "--text", "text.txt", *words]
        else:
            short = ["training.steps=2", "training.epochs=~", "sampling.tokens=2", "evaluation.tokens=50"]
            out = ["--out", str(folder / f"out-{number}")]
            command = [*verb, *(short if long else short[:1]), *out, *words]
        yield "recipe" if number % 2 else "override", repr(words or name), command


def run(octavo: Octavo, cases: Iterator[Case]) -> tuple[list[dict[str, Any]], list[str]]:
    """How they end: a row for each kind, and what must not be."""
    counts: dict[str, Counter[str]] = {}
    faults: list[str] = []
    waiting: deque[tuple[Case, Any]] = deque()

    def ended() -> None:
        (kind, wrong, words), command = waiting.popleft()
        result = command.wait()
        counts.setdefault(kind, Counter())[str(result.code)] += 1
        quiet = result.code not in (0, 130) and not any(word in result.err for word in WORDS)
        if result.code not in (0, 1, 2, 130) or "Traceback" in result.err or quiet:
            faults.append(
                f"{kind}: {wrong}\n  octavo {' '.join(words)[:300]}\n  {result.code} {result.err[-1500:]}"
            )
            print(faults[-1], end="\n\n", flush=True)
        for path in command.files:
            path.unlink(missing_ok=True)
        for word in words:
            if Path(word).name.startswith(("damaged-", "out-")):
                for made in (word, f"{word}-out", f"{word}-again"):
                    shutil.rmtree(made, ignore_errors=True)

    for case in cases:
        words = case[2]
        cache = {}
        if words[0] == "cache":
            cache, words = {"cache": words[1]}, words[2:]
        waiting.append((case, octavo.start(*words, patch="limited", **cache)))
        if len(waiting) == TOGETHER:
            ended()
    while waiting:
        ended()
    codes = sorted({code for found in counts.values() for code in found}, key=int)
    rows = [
        {"kind": kind, "cases": found.total(), **{f"exit {code}": found[code] for code in codes}}
        for kind, found in counts.items()
    ]
    return rows, faults


def fuzz(folder: Path, wanted: Sequence[int], seed: int) -> tuple[list[dict[str, Any]], list[str]]:
    """All of it in a folder."""
    octavo = prepared(folder)
    try:
        rows, faults = run(octavo, folders(folder, wanted[0], seed))
        more, others = run(octavo, recipes(folder, wanted[1], seed))
    finally:
        octavo.close()
    keys = dict.fromkeys(key for row in [*rows, *more] for key in row)
    return [{key: row.get(key, 0) for key in keys} for row in [*rows, *more]], faults + others


def main() -> None:
    """Damage, run, count."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--folders", type=int, default=600)
    parser.add_argument("--recipes", type=int, default=600)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args()
    begin = time.perf_counter()
    with tempfile.TemporaryDirectory() as place:
        rows, faults = fuzz(Path(place), (given.folders, given.recipes), given.seed)
    print_table(rows)
    if given.write:
        lines = [list(rows[0]), ["---"] * len(rows[0]), *(list(map(str, row.values())) for row in rows)]
        table = "\n".join(f"| {' | '.join(line)} |" for line in lines)
        page = TEXT.format(table=table, given=given, faults=len(faults))
        (Path(__file__).parent / "results" / "fuzz.md").write_text(page, encoding="utf-8")
    finish({"rows": rows, "faults": len(faults), "seconds": time.perf_counter() - begin})


TEXT = """\
# Damaged folders, recipes and overrides through the command line

`python benchmarks/fuzz.py --folders {given.folders} --recipes {given.recipes} --seed {given.seed} --write`

Each case is a run folder, a taught run's, a study's or the cache with one to three things wrong (bits, ends, contents,
values whose hashes are right again, tensors' headers, links), or a recipe or overrides with junk in them, and one
command on it. Exit 0: done all the same; 1: a file's or the machine's fault, in a sentence; 2: the input's fault, in a
sentence; 130: stopped by the fuzz's own clock. Tracebacks, other exits or silent ends: **{faults}**.

{table}
"""

if __name__ == "__main__":
    main()
