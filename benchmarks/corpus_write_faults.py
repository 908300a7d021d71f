"""Ten thousand stories from a server that fails in 30 % of the calls, while the writing process is killed 50 times.

Eight keys share the work; the process (`octavo corpus write`) is killed by signal 9 at random moments and started
again. At the end the corpus, the store, the server's ledger and every file and line of output are looked through.

    python benchmarks/corpus_write_faults.py --stories 10000 --kills 50 | tee result.txt
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

from common import finish, load, print_table
from fake_endpoint import FakeEndpoint
from octavo.llm_corpus.money import PICO

CANARY = "sk-canary-4f1c9d27b6"
KEYS = 8
FAULTS = {
    "429": 0.04,
    "500": 0.06,
    "timeout": 0.02,
    "cut": 0.06,
    "wrong_json": 0.05,
    "empty": 0.04,
    "html": 0.03,
}  # 30 % in all
ALSO = {"bad_story": 0.04}  # whole replies that do not pass


def spec_of(work: Path, url: str) -> Path:
    """A spec whose writers are eight keys of one server."""
    writer = {
        "kind": "endpoint",
        "base_url": url,
        "model": "fake",
        "key_env": "CANARY_KEY",
        "prices": {"input": 0.28, "cached_input": 0.028, "output": 0.42},
        "timeout": 2,
        "stream": True,
    }
    spec = {
        "name": "faults",
        "writers": {f"key-{i}": writer for i in range(KEYS)},
        "diversity": {
            "character": [f"mouse {i}" for i in range(997)],
            "place": [f"place {i}" for i in range(991)],
        },
        "rules": {"checker": "pidgin"},
        "backoff": 0.1,
    }
    path = work / "spec.yaml"
    path.write_text(json.dumps(spec), encoding="utf-8")
    return path


class Trial:
    """One corpus with its server."""

    def __init__(self, work: Path, server: FakeEndpoint, *, stories: int, cap: float) -> None:
        self.work, self.out, self.log = work, work / "corpus", work / "output.txt"
        self.server, self.stories, self.cap = server, stories, cap
        self.spec = spec_of(work, server.url)
        self.seen_in_process_list = 0

    def start(self) -> subprocess.Popen[bytes]:
        """The writing process, its output into the log."""
        words = [
            "corpus",
            "write",
            str(self.spec),
            "--stories",
            str(self.stories),
            "--max-usd",
            str(self.cap),
        ]
        with self.log.open("ab") as log:
            return subprocess.Popen(
                [sys.executable, "-m", "octavo", *words, "--out", str(self.out)],
                stdout=log,
                stderr=log,
                env={**os.environ, "CANARY_KEY": CANARY},
            )

    def look_at_process_list(self, child: subprocess.Popen[bytes]) -> None:
        """What other users see of the process: its command line."""
        line = Path(f"/proc/{child.pid}/cmdline")
        if line.is_file():
            self.seen_in_process_list += CANARY in line.read_text(encoding="utf-8", errors="replace")

    def run(self, kills: int, draw: random.Random) -> list[dict[str, Any]]:
        """Start, kill, start again, and at last to the end."""
        rows = []
        while len(rows) < kills:
            child = self.start()
            calls = len(self.server.calls)
            begin = time.monotonic()
            while len(self.server.calls) == calls and child.poll() is None:
                time.sleep(0.01)  # until it has begun to call
            time.sleep(draw.uniform(0.0, 4.0))
            self.look_at_process_list(child)
            if child.poll() is not None:
                break
            child.kill()
            child.wait()
            rows.append(
                {"kill": len(rows) + 1, "after": round(time.monotonic() - begin, 2), "stories": self.count()}
            )
            print(rows[-1], file=sys.stderr, flush=True)
        child = self.start()
        assert child.wait() == 0, self.log.read_text(encoding="utf-8")[-3000:]
        return rows

    def count(self) -> int:
        """Stories in the store now."""
        con = sqlite3.connect(self.out / "stories.sqlite")
        try:
            return int(con.execute("SELECT count(*) FROM stories").fetchone()[0])
        finally:
            con.close()

    def verdict(self) -> dict[str, Any]:
        """Everything that has to hold, in figures."""
        con = sqlite3.connect(self.out / "stories.sqlite")
        spent = con.execute("SELECT sum(coalesce(cost, reserved)) FROM calls").fetchone()[0]
        whole = con.execute("PRAGMA integrity_check").fetchone()[0]
        outcomes = dict(
            con.execute("SELECT outcome, count(*) FROM calls GROUP BY outcome ORDER BY outcome").fetchall()
        )
        con.close()
        records = [
            json.loads(line) for line in (self.out / "corpus.jsonl").read_text(encoding="utf-8").splitlines()
        ]
        texts = (self.out / "corpus.txt").read_text(encoding="utf-8").split("\n<|endoftext|>\n")[:-1]
        sent = {call["text"] for call in self.server.calls if call["fault"] == ""}
        ledger = self.server.ledger()
        return {
            "stories": len(records),
            "distinct_ids": len({record["id"] for record in records}),
            "distinct_texts": len(set(texts)),
            "torn": sum(record["text"] not in sent for record in records)
            + sum(text not in sent for text in texts),
            "integrity": whole,
            "outcomes": outcomes,
            "spent_usd": spent / PICO,
            "billed_usd": ledger["billed"] / PICO,
            "cap_usd": self.cap,
            "cap_exceeded": spent > self.cap * PICO or ledger["billed"] > spent,
            "early_calls": ledger["early"],
            "server": {"calls": ledger["calls"], "faults": ledger["faults"]},
            "key_in_files": self.files_with_key(),
            "key_in_process_list": self.seen_in_process_list,
        }

    def files_with_key(self) -> int:
        """Files under the work folder, output included, that hold the key."""
        return sum(CANARY.encode() in path.read_bytes() for path in self.work.rglob("*") if path.is_file())


def trial(name: str, *, stories: int, kills: int, cap: float, seed: int) -> dict[str, Any]:
    """One trial in a folder of its own."""
    begin = time.monotonic()
    fake = FakeEndpoint(seconds=0.05, faults={**FAULTS, **ALSO}, key=CANARY, seed=seed)
    with tempfile.TemporaryDirectory(prefix="octavo-faults-") as folder, fake as server:
        one = Trial(Path(folder), server, stories=stories, cap=cap)
        rows = one.run(kills, random.Random(seed))
        found = one.verdict()
    return {"trial": name, "kills": len(rows), "seconds": round(time.monotonic() - begin, 1), **found}


def main() -> int:
    """Run both trials; 0 when everything holds."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--stories", type=int, default=10_000)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--cap", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    many = trial(
        "all stories", stories=options.stories, kills=options.kills, cap=options.cap, seed=options.seed
    )
    tight = trial("a cap too small", stories=options.stories, kills=5, cap=0.5, seed=options.seed + 1)
    shown = (
        "trial",
        "kills",
        "stories",
        "distinct_ids",
        "torn",
        "spent_usd",
        "billed_usd",
        "cap_usd",
        "early_calls",
    )
    print_table([{key: one[key] for key in (*shown, "key_in_files", "seconds")} for one in (many, tight)])
    good = many["stories"] == many["distinct_ids"] == many["distinct_texts"] == options.stories and not any(
        one["torn"] or one["cap_exceeded"] or one["early_calls"] or one["key_in_files"] or one["key_in_process_list"]
        or one["integrity"] != "ok"
        for one in (many, tight)
    )  # fmt: skip
    print("everything holds\n" if good else "SOMETHING DOES NOT HOLD\n")
    faults = Counter({**FAULTS, **ALSO})
    finish(
        {"good": good, "trials": [many, tight], "faults": dict(faults), "seed": options.seed, "load": load()}
    )
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
