"""What a power cut may leave of a run: every state that a crash may legally leave, judged; every fsync taken away once.

A tiny run with four saves, killed in the third and gone on with, is recorded: which names change, what is written,
what is synced. A model of the disk
(`tests/unit/training/crash.py`) lists the states that a crash may leave after each operation: unsynced data lost, cut,
zeros; unsynced names missing or in another order. Each is laid out in a folder and gone on with.

    python benchmarks/crash_states.py --drawn 40 --resume 60 --write benchmarks/results/crash_states.md
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from common import finish, print_table
from octavo.run import trainer
from octavo.training import checkpoint_folder
from unit.training.crash import ContentChanged, Named, Reached, Synced, Tree
from unit.training.crashed import fsyncs, problem, record, resumed, states

SAID = {
    Named: "names changed",
    ContentChanged: "files written",
    Synced: "fsyncs",
    Reached: "saves that returned",
}


def main() -> int:
    """Record, list, judge; 0 when no state loses anything and no fsync can be left out."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--drawn", type=int, default=40, help="states drawn at each operation, beside all extremes"
    )
    parser.add_argument(
        "--resume", type=int, default=60, help="states from which a whole run goes on to its end"
    )
    parser.add_argument("--write", type=Path, help="the page of results")
    options = parser.parse_args()
    memory = "/dev/shm"
    with tempfile.TemporaryDirectory(dir=memory if os.access(memory, os.W_OK) else None) as folder:
        work = Path(folder)
        os.environ["OCTAVO_CACHE"] = str(work / "cache")
        recording = record(work)
        events = recording.recorder.events
        seen: set[Any] = set()
        found: list[tuple[int, Tree]] = []
        outcomes: Counter[str] = Counter()
        for _, reached, tree in states(recording, seen, drawn=options.drawn):
            found.append((reached, tree))
            outcomes[problem(recording, reached, tree, work / "state") or "nothing lost"] += 1
        print_table([{"outcome": outcome, "states": count} for outcome, count in outcomes.items()])
        sample = random.Random(0).sample(found, min(options.resume, len(found)))
        same = [resumed(recording, tree, work / "state") is None for _, tree in sample]
        planted = []
        for site in dict.fromkeys(event.site for event in events if isinstance(event, Synced)):
            new = states(recording, set(seen), without=site, drawn=options.drawn)
            said = (problem(recording, reached, tree, work / "state") for _, reached, tree in new)
            wrong = next(filter(None, said), None)
            planted.append({"fsync": site, "line": line(site), "a state without it": shown(wrong, work)})
        print_table(planted)
    counts = Counter(SAID[type(event)] for event in events)
    needed = set(fsyncs(Path(checkpoint_folder.__file__), Path(trainer.__file__)))
    caught = {row["fsync"] for row in planted if row["a state without it"] != "–"}
    page = {
        "operations": dict(counts),
        "crash_points": len(events),
        "states": len(found),
        "outcomes": dict(outcomes),
        "resumed": len(same),
        "resumed_to_the_same_bits": sum(same),
        "fsyncs": len(planted),
        "caught": len(caught),
        "drawn": options.drawn,
    }
    if options.write:
        options.write.write_text(written(page, planted), encoding="utf-8")
    finish({**page, "planted": planted})
    return 0 if set(outcomes) == {"nothing lost"} and all(same) and needed <= caught else 1


def line(place: str) -> str:
    """The source line of an fsync."""
    name, number = place.split(":")
    source = Path(checkpoint_folder.__file__).parents[1] / name
    return source.read_text(encoding="utf-8").splitlines()[int(number) - 1].split("  #")[0].strip()


def shown(wrong: str | None, work: Path) -> str:
    """A complaint without the place where the state was laid out; – for none."""
    return (
        "–"
        if wrong is None
        else wrong.replace(f"{work}/state/", "").split(" (")[0].removeprefix("CheckpointError: ")
    )


def written(page: dict[str, Any], planted: list[dict[str, str]]) -> str:
    """The page of results."""
    operations = ", ".join(f"{count} {what}" for what, count in page["operations"].items())
    rows = "\n".join(f"| {row['fsync']} `{row['line']}` | {row['a state without it']} |" for row in planted)
    lost = page["states"] - page["outcomes"].get("nothing lost", 0)
    return f"""# What a power cut may leave

`python benchmarks/crash_states.py --drawn {page["drawn"]} --resume {page["resumed"]}`: a run with four saves, killed in
the third and gone on with, recorded operation by operation; each save moves `best`, and older ones go. After each, the
states that POSIX lets a crash leave: of unsynced files nothing, a half, zeros, or all; of unsynced names any part,
in any order. A state is good where every named checkpoint is whole and holds what was saved, the newest that was
saved is found, `last` and `best` lead to whole ones, and no row before it is missing.

| | |
| --- | --- |
| operations | {page["crash_points"]}: {operations} |
| different states | {page["states"]:,} |
| states that lose something | **{lost}** |
| gone on with to the end by `--resume` | {page["resumed"]} |
| of these the same to the bit as the run that was never stopped | **{page["resumed_to_the_same_bits"]}** |

Each line of the code that asks for an fsync, taken away:

| line | what a state then lacks |
| --- | --- |
{rows}

A dash: another fsync of the same folder comes before anything depends on it in a run. Other callers rely on it.
"""


if __name__ == "__main__":
    sys.exit(main())
