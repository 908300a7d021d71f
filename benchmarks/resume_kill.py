"""kill -9 at random moments, then --resume: is the run the same, bit for bit, as one that was never stopped?

Each trial starts a run in a new folder, kills its process, goes on to the end, and compares weights, optimizer state
and losses with the run that was never stopped. A third of the kills come at any moment of the process, from its start
to the report; the others wait for a checkpoint that is being written. The model is tiny and saves every second step,
because what is tested is the order of writing, not arithmetic. Processes are forked, so that most of their time is
training and saving, not importing.

    python benchmarks/resume_kill.py --kills 50 | tee result.txt
"""

from __future__ import annotations

import argparse
import hashlib
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

os.environ["OMP_NUM_THREADS"] = "1"  # one thread can be forked safely

from common import finish, load, print_table
from octavo.cli import main as octavo_main
from octavo.errors import CheckpointError
from octavo.run.folder import RunFolder
from octavo.training.checkpoint_folder import follow, list_checkpoints
from octavo.util.files import file_hash

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from e2e.forked import warm

RECIPE = """\
tokenizer: char
model: {layers: 1, width: 16, heads: 2, context: 16, dropout: 0.1}
training: {steps: 40, batch: 4, checkpoint_every: 2, precision: float32, device: cpu, threads: 1}
evaluation: {every: 10}
sampling: {every: 20, tokens: 20}
logging: {every: 1}
"""
WORDS = "the a brown lazy old fox dog cat runs jumps saw over from and . ? !".split()


def start(work: Path, out: Path, *, resume: bool) -> int:
    """Begin (or go on with) a run in a forked process; returns its number."""
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        log = os.open(work / "log.txt", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(log, 1)
        os.dup2(log, 2)
        octavo_main(["train", str(work / "recipe.yaml"), "--text", str(work / "text.txt"), "--out", str(out)]
                    + ["--resume"] * resume)  # fmt: skip
    except SystemExit as end:
        code = int(end.code or 0)
    finally:
        sys.stderr.flush()
        os._exit(code)


def ended(child: int) -> int:
    """The exit code of a process that is waited for; negative: the signal that ended it."""
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def fingerprint(out: Path) -> str:
    """SHA-256 over a run's results: weights and optimizer state of last and best, all losses."""
    folder, digest = RunFolder(out), hashlib.sha256()
    for link in (folder.last, folder.best):
        checkpoint = follow(link)
        assert checkpoint is not None, f"{link} leads nowhere"
        checkpoint.verify()
        for name in ("model.safetensors", "state.safetensors"):
            digest.update(file_hash(checkpoint.folder / name).encode())
    for row in folder.rows():
        digest.update(f"{row['event']} {row['step']} {row['loss']!r}\n".encode())
    return digest.hexdigest()


def writing(out: Path) -> bool:
    """Whether a checkpoint stands half-written."""
    return any((out / "checkpoints").glob(".tmp-*"))


def state(out: Path) -> str:
    """What a kill left."""
    folder = RunFolder(out)
    if not folder.config.is_file():
        return "nothing yet"
    if writing(out):
        return "in a save"
    if not list_checkpoints(folder.checkpoints):
        return "before the first save"
    rows = folder.rows()
    return "judging, report" if rows and rows[-1]["step"] == 40 else "between saves"


def halves_with_names(out: Path) -> int:
    """Checkpoints that have a name and are not whole: must be none."""
    found = 0
    for checkpoint in list_checkpoints(out / "checkpoints"):
        try:
            checkpoint.verify()
        except CheckpointError:
            found += 1
    return found


def kill_once(
    work: Path, out: Path, random: random.Random, *, seconds: float, aimed: bool
) -> tuple[str, float]:
    """Start a run in `out` and kill it: at any moment of `seconds`, or in a save after such a moment."""
    while True:
        shutil.rmtree(out, ignore_errors=True)
        begin = time.monotonic()
        child = start(work, out, resume=False)
        time.sleep(random.uniform(0, seconds * (0.4 if aimed else 1)))
        patience = time.monotonic() + 2 * seconds
        while aimed and not writing(out) and time.monotonic() < patience:
            pass
        if aimed:
            time.sleep(random.uniform(0, 0.004))  # a save takes about ten milliseconds
        at = time.monotonic() - begin
        os.kill(child, signal.SIGKILL)
        if ended(child) == -signal.SIGKILL:  # else it was done already: draw again
            return state(out), at


def main() -> int:
    """Run the trials; 0 when all are identical."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    random_ = random.Random(options.seed)
    rows = []
    with tempfile.TemporaryDirectory(prefix="octavo-kill-") as folder:
        work = Path(folder)
        warm()  # once here, not in every child
        os.environ["OCTAVO_CACHE"] = str(work / "cache")
        (work / "recipe.yaml").write_text(RECIPE, encoding="utf-8")
        (work / "text.txt").write_text(" ".join(random_.choices(WORDS, k=1500)), encoding="utf-8")
        for name in ("first", "reference"):  # the first fills the cache of datasets
            begin = time.monotonic()
            assert ended(start(work, work / name, resume=False)) == 0, (work / "log.txt").read_text()
            seconds = time.monotonic() - begin
        expected = fingerprint(work / "reference")
        assert fingerprint(work / "first") == expected, "two runs that were never stopped differ"
        for number in range(options.kills):
            out = work / f"run-{number}"
            aimed = number % 3 > 0
            left, at = kill_once(work, out, random_, seconds=seconds, aimed=aimed)
            halves = halves_with_names(out)
            code = ended(start(work, out, resume=left != "nothing yet"))
            same = code == 0 and fingerprint(out) == expected
            rows.append(
                {"kill": number + 1, "after": f"{at:.3f} s", "left": left, "halves": halves, "same": same}
            )
            shutil.rmtree(out)
        log = (work / "log.txt").read_text(encoding="utf-8")
    print_table(rows)
    identical = sum(row["same"] for row in rows)
    if identical < len(rows):
        print(log[-4000:])
    moments = Counter(row["left"] for row in rows)
    print(f"{identical} of {len(rows)} identical; {dict(moments)}\n")
    finish(
        {
            "kills": len(rows),
            "identical": identical,
            "in_save": moments["in a save"],
            "named_halves": sum(row["halves"] for row in rows),
            "moments": dict(moments),
            "uninterrupted_seconds": round(seconds, 3),
            "seed": options.seed,
            "load": load(),
        }
    )
    return 0 if identical == len(rows) else 1


if __name__ == "__main__":
    sys.exit(main())
