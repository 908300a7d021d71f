"""How fast a corpus is written: 256 calls in flight against the serial rate, and the built-in storyteller.

The server is local and answers in about 12 seconds, as report A's did (10 to 15 seconds a story, 19 hours in all).
It runs in a process of its own. The serial rate is measured too: one call at a time.

    python benchmarks/corpus_write.py | tee result.txt
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from common import finish, load, print_table
from fake_endpoint import FakeEndpoint
from octavo.llm_corpus.session import WritingJob
from octavo.llm_corpus.spec import load_spec


def serve(seconds: float, port: Any) -> None:
    """The server's process."""
    with FakeEndpoint(seconds=seconds) as server:
        port.put(server.url)
        time.sleep(86400)


def write(work: Path, name: str, spec: str, stories: int, *settings: str) -> dict[str, Any]:
    """Have stories written into a new folder; returns a row."""
    job = WritingJob(load_spec(spec, settings), work / name, stories=stories, max_usd=100)
    begin, processor = time.perf_counter(), time.process_time()
    result = job.run()
    seconds = time.perf_counter() - begin
    assert result["report"]["stories"] == stories
    return {
        "writer": name,
        "stories": stories,
        "seconds": round(seconds, 2),
        "a minute": round(stories / seconds * 60, 1),
        "processor seconds": round(time.process_time() - processor, 2),
        "load": load(),
    }


def main() -> int:
    """Take the figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=12.0, help="of an answer")
    parser.add_argument("--stories", type=int, default=2048)
    parser.add_argument("--told", type=int, default=10_000, help="stories of the storyteller")
    options = parser.parse_args()
    ports: Any = multiprocessing.Queue()
    server = multiprocessing.Process(target=serve, args=(options.seconds, ports), daemon=True)
    server.start()
    try:
        address = f"writers.model.base_url={ports.get(timeout=30)}"
        key = "writers.model.key_env=null"
        with tempfile.TemporaryDirectory(prefix="octavo-write-") as folder:
            work = Path(folder)
            rows = [
                write(work, "storyteller", "pidgin-storyteller", options.told),
                write(work, "one at a time", "pidgin", 4, address, key, "writers.model.in_flight=1"),
                write(
                    work,
                    "256 in flight",
                    "pidgin",
                    options.stories,
                    address,
                    key,
                    "writers.model.in_flight=256",
                ),
            ]
    finally:
        server.kill()
    print_table(rows)
    times = rows[2]["a minute"] / rows[1]["a minute"]
    print(
        f"256 in flight: {times:.0f} times the serial rate; storyteller: {rows[0]['a minute']:,.0f} stories a minute\n"
    )
    finish({"rows": rows, "times_serial": round(times, 1), "answer_seconds": options.seconds})
    return 0


if __name__ == "__main__":
    sys.exit(main())
