"""kill -9 of a study at random moments, again and again: are its results the same, byte for byte, as if never stopped?

One study runs to its end undisturbed. The same study then runs in another folder and is killed at random moments, each
time started again by the same command: every second kill takes the study's process alone, so that the processes of its
runs have to notice and leave; the others take those processes with it, in the middle of whatever they are writing.
At the end both results.json are compared, byte for byte.

    python benchmarks/study_kill.py --kills 20 | tee result.txt
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

os.environ["OMP_NUM_THREADS"] = "1"  # one thread can be forked safely

from common import finish, load, print_table
from octavo.studies.job import outcome_of
from octavo.studies.results import RESULTS
from octavo.studies.run import run_study

RECIPE = """\
tokenizer: char
model: {layers: 1, width: 16, heads: 2, context: 16, dropout: 0.1}
training: {batch: 4}
sampling: {tokens: 20}
"""
STUDY = """\
baseline: recipe.yaml
seeds: 3
noise: 2
budget: {steps: STEPS}
set: {training.checkpoint_every: 200}
stop_hopeless: {after: 0.5, worse_by: 0.3}
changes:
  - name: no residual
    hypothesis: It learns more slowly.
    set: {model.residual: false}
  - name: two layers
    hypothesis: It learns more.
    set: {model.layers: 2}
  - name: far too fast
    hypothesis: It diverges.
    expect: fails
    set: {training.optimizer: {kind: sgd, learning_rate: 1.0e+30}}
"""
WORDS = "the a brown lazy old fox dog cat runs jumps saw over from and . ? !".split()


def start(work: Path, out: Path) -> int:
    """Begin the study, or go on with it, in a forked process; returns its number."""
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        log = os.open(work / "log.txt", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(log, 1)
        os.dup2(log, 2)
        run_study(work / "study.yaml", work / "text.txt", out)
        code = 0
    except BaseException as error:
        print(repr(error), file=sys.stderr)
    finally:
        sys.stderr.flush()
        os._exit(code)


def ended(child: int) -> int:
    """The exit code of a process that is waited for; negative: the signal that ended it."""
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def children(process: int) -> list[int]:
    """The processes that a process has started."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text(encoding="utf-8").rpartition(")")[2].split()
        except OSError:  # it has ended
            continue
        if int(fields[1]) == process:
            found.append(int(stat.parent.name))
    return found


def state(out: Path) -> str:
    """What a kill left."""
    if not (out / "study.yaml").is_file():
        return "nothing yet"
    folders = list(out.glob("runs/*/seed-*"))
    done = sum(outcome_of(folder) is not None for folder in folders)
    return f"{done} runs done, {len(folders) - done} begun"


def main() -> int:
    """Run the study both ways; 0 when the results are identical."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    chance = random.Random(options.seed)
    rows, kills, orphans = [], 0, 0
    with tempfile.TemporaryDirectory(prefix="octavo-study-kill-") as folder:
        work = Path(folder)
        os.environ["OCTAVO_CACHE"] = str(work / "cache")
        (work / "recipe.yaml").write_text(RECIPE, encoding="utf-8")
        (work / "study.yaml").write_text(STUDY.replace("STEPS", str(options.steps)), encoding="utf-8")
        (work / "text.txt").write_text(" ".join(chance.choices(WORDS, k=3000)), encoding="utf-8")
        begin = time.monotonic()
        assert ended(start(work, work / "whole")) == 0, (work / "log.txt").read_text(encoding="utf-8")
        seconds = time.monotonic() - begin
        killed = work / "killed"
        while kills < options.kills:
            # On average a kill comes after what is left to do for each of them, and what a start costs.
            child = start(work, killed)
            time.sleep(chance.uniform(0, 3 + 2 * seconds / options.kills))
            workers = children(child)
            os.kill(child, signal.SIGKILL)
            with_workers = kills % 2 == 1
            for worker in workers if with_workers else []:
                os.kill(worker, signal.SIGKILL)
            if ended(child) != -signal.SIGKILL:
                break  # it was done already
            kills += 1
            rows.append({"kill": kills, "of": "all" if with_workers else "the study", "left": state(killed)})
            print(rows[-1], file=sys.stderr, flush=True)
            orphans += len(workers) if not with_workers else 0
        code = ended(start(work, killed))
        results = [(path / RESULTS).read_bytes() for path in (work / "whole", killed) if code == 0]
        same = len(results) == 2 and results[0] == results[1]
        log = (work / "log.txt").read_text(encoding="utf-8")
    print_table(rows)
    if not same:
        print(log[-4000:])
    print(f"after {kills} kills the results are {'identical' if same else 'NOT identical'}\n")
    finish(
        {
            "kills": kills,
            "identical": same,
            "bytes": len(results[0]) if results else None,
            "orphans": orphans,
            "moments": dict(Counter(row["left"] for row in rows)),
            "uninterrupted_seconds": round(seconds, 3),
            "seed": options.seed,
            "load": load(),
        }
    )
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
