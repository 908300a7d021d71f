"""The rate of writing through an endpoint that is only partly well, against its rate when it is well.

The server is local, in a process of its own, and answers in 50 ms. Under faults it answers 3 % of the calls with 429
and a Retry-After that is over, 2 % with 503, 2 % never, 2 % with a torn body, and the others compressed, with absurd
counts of tokens or none. Both are written from in turn, so that other work on the machine meets both. With `--stories`
each turn writes so many to the end, and its rate counts the last replies too.

    python benchmarks/corpus_write_rate.py --seconds 30 --turns 3 | tee result.txt
    python benchmarks/corpus_write_rate.py --stories 2500 --turns 3 | tee result.txt
"""

from __future__ import annotations

import argparse
import multiprocessing
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from common import finish, load, print_table
from fake_endpoint import FakeEndpoint
from octavo.llm_corpus.money import PICO
from octavo.llm_corpus.progress import Progress
from octavo.llm_corpus.session import WritingJob
from octavo.llm_corpus.spec import load_spec

FAULTS = {"429_past": 0.03, "503": 0.02, "timeout": 0.02, "cut": 0.02}
USAGE = (
    None,
    {},
    {"prompt_tokens": -1, "completion_tokens": "many"},
    {"prompt_tokens": 10**30, "completion_tokens": 7},
)
GOAL = 0.6
CAP = 1000.0


def serve(ask: Any, tell: Any, faulty: bool, seed: int) -> None:
    """The server's process: its address, and at the end its ledger."""
    more: dict[str, Any] = {"faults": FAULTS, "zipped": True, "usage": USAGE} if faulty else {}
    with FakeEndpoint(seconds=0.05, seed=seed, **more) as server:
        tell.put(server.url)
        ask.get()
        tell.put(server.ledger())


def write(
    work: Path, faulty: bool, in_flight: int, seconds: float, stories: int | None, seed: int
) -> dict[str, Any]:
    """Write into a new folder for a while, or so many stories to the end; returns a row."""
    ask, tell = multiprocessing.Queue(), multiprocessing.Queue()
    server = multiprocessing.Process(target=serve, args=(ask, tell, faulty, seed), daemon=True)
    server.start()
    seen: list[tuple[float, int, int]] = []  # when, stories, in flight
    try:
        settings = [f"writers.model.base_url={tell.get(timeout=30)}", "writers.model.key_env=null"]
        spec = load_spec(
            "pidgin", [*settings, f"writers.model.in_flight={in_flight}", "rules.near_duplicates=0"]
        )
        hours = None if stories else seconds / 3600
        job = WritingJob(spec, work, stories=stories or 10**6, max_usd=CAP, max_hours=hours)

        def look(progress: Progress) -> None:
            seen.append((time.perf_counter(), progress.stories, progress.in_flight))

        begin = time.perf_counter()
        result = job.run(tell=look)
        total = time.perf_counter() - begin
        ask.put("end")
        ledger = tell.get(timeout=30)
    finally:
        server.kill()
    seen.append((begin + total, result["stories"], 0))
    writing = [row for row in seen if stories or row[0] - begin <= seconds]
    unknown = result["report"]["calls"] - ledger["calls"]
    assert unknown == 0 and ledger["billed"] <= result["spent_usd"] * PICO + 1
    return {
        "endpoint": "faults" if faulty else "well",
        "in flight": in_flight,
        "stories": writing[-1][1],
        "an hour": round(writing[-1][1] / (writing[-1][0] - begin) * 3600),
        "calls": ledger["calls"],
        "longest pause s": round(longest_pause(writing), 2),
        "seconds": round(total, 1),
        "spent_usd": round(result["spent_usd"], 4),
        "billed_usd": round(ledger["billed"] / PICO, 4),
        "load": load(),
    }


def longest_pause(rows: list[tuple[float, int, int]]) -> float:
    """Seconds without a new story."""
    last, longest, before = rows[0][0], 0.0, rows[0][1]
    for when, stories, _ in rows:
        if stories > before:
            last, before = when, stories
        longest = max(longest, when - last)
    return longest


def main() -> int:
    """Take the figures; 0 where the goal is reached."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=30.0, help="of each turn")
    parser.add_argument("--stories", type=int, help="write so many to the end, however long that takes")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--in-flight", type=int, nargs="+", default=[8, 64])
    options = parser.parse_args()
    rows, ratios = [], {}
    with tempfile.TemporaryDirectory(prefix="octavo-rate-") as folder:
        for in_flight in options.in_flight:
            found: dict[bool, list[int]] = {False: [], True: []}
            for turn in range(options.turns):
                for faulty in (False, True):
                    work = Path(folder) / f"{in_flight}-{turn}-{faulty}"
                    rows.append(write(work, faulty, in_flight, options.seconds, options.stories, turn))
                    found[faulty].append(rows[-1]["an hour"])
            ratios[in_flight] = round(statistics.median(found[True]) / statistics.median(found[False]), 3)
    print_table(rows)
    for in_flight, ratio in ratios.items():
        print(f"{in_flight} in flight: {ratio:.0%} of the rate without faults; goal: {GOAL:.0%}")
    finish({"rows": rows, "ratios": ratios, "goal": GOAL, "faults": FAULTS})
    return 0 if min(ratios.values()) >= GOAL else 1


if __name__ == "__main__":
    sys.exit(main())
