"""A server that is asked on and on, by clients of all kinds: its memory stays flat, and its bits the same."""

from __future__ import annotations

import os
import random
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from octavo.run.run import Run
from unit.serving.conftest import asked, connected

PROMPTS = ("the small b", "", "a big", "the small bird sees a big tree." * 3, "e")
pytestmark = pytest.mark.slow


@contextmanager
def serving(run: Path) -> Iterator[tuple[str, int]]:
    """`octavo serve` in a process of its own: its address, and its process."""
    words = [sys.executable, "-m", "octavo", "serve", str(run), "--port", "0"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "MALLOC_ARENA_MAX": "2"}
    with subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment
    ) as own:
        try:
            assert own.stdout is not None
            found = re.search(r"http://localhost:\d+", own.stdout.readline())
            assert found is not None
            yield found[0].replace("localhost", "127.0.0.1"), own.pid
        finally:
            own.send_signal(signal.SIGTERM)


def memory(process: int) -> int:
    """KiB that it holds."""
    found = re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{process}/status").read_text(encoding="utf-8"))
    assert found is not None
    return int(found[1])


def client(address: str, number: int, texts: int) -> None:
    """Asks for texts in all ways; some it does not wait for."""
    chance = random.Random(number)
    with httpx2.Client(base_url=address, timeout=60, trust_env=False) as own:
        for _ in range(texts):
            how: dict[str, Any] = {"prompt": chance.choice(PROMPTS), "max_tokens": chance.randint(1, 120)}
            how |= {"seed": chance.randrange(10**6), "temperature": chance.choice([0.0, 0.7, 1.3])}
            how |= {"n": chance.randint(1, 3), "truncate": True, "logprobs": chance.choice([None, 2])}
            deed = chance.random()
            if deed < 0.1:
                own.post("/v1/completions", json=how | {"n": -1})
            elif deed < 0.2:
                with own.stream(
                    "POST", "/v1/completions", json=how | {"stream": True, "max_tokens": 10_000}
                ) as gone:
                    next(gone.iter_raw())
            elif deed < 0.25:
                connected(address).close()
            else:
                told = own.post("/v1/completions", json=how | {"stream": deed < 0.6})
                assert told.status_code == 200


@pytest.mark.skipif(
    not Path("/proc/self/status").is_file(), reason="the system does not say what a process holds"
)
def test_memory_stays_flat_and_bits_the_same(runs: Path) -> None:
    """Until it has seen as much again as made it warm: then every kilobyte that a text leaves would show."""
    (expected,) = Run.open(runs / "counts").samples(PROMPTS[0], count=1, seed=5, tokens=100, temperature=0.9)
    held = []
    with serving(runs / "counts") as (address, process):
        for round in range(4):
            with ThreadPoolExecutor(8) as pool:
                list(
                    pool.map(lambda number: client(address, number, 8), range(100 * round, 100 * round + 16))
                )
            with httpx2.Client(base_url=address, timeout=60, trust_env=False) as own:
                (choice,) = asked(
                    own,
                    model="counts",
                    prompt=PROMPTS[0],
                    seed=5,
                    max_tokens=100,
                    temperature=0.9,
                    logprobs=0,
                )["choices"]
                assert choice["octavo"]["ids"] == expected.ids
                assert choice["text"] == expected.text
                lines = own.get("/metrics").text
                assert "octavo_slots_in_use 0" in lines and "octavo_queue 0" in lines
            held.append(memory(process))
    assert held[-1] - held[1] < 4096, held
