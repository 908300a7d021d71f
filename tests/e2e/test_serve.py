"""octavo serve as a user starts it: the port, the words, the signal; and the client that everybody has."""

from __future__ import annotations

import json
import re
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from e2e.forked import Command, Octavo, until

pytest.importorskip("uvicorn")


@contextmanager
def served(octavo: Octavo, *arguments: object, **options: Any) -> Iterator[tuple[str, Command]]:
    """A server, until the context ends: its address."""
    command = octavo.start("serve", *arguments, "--port", "0", **options)
    out = command.files[1]
    until(lambda: "serving at" in out.read_text() if out.exists() else False)
    address = re.search(r"serving at (http://\S+)/v1", out.read_text())
    assert address
    try:
        yield address[1], command
    finally:
        command.signal(signal.SIGTERM)
        assert command.wait().code == 0


def written(octavo: Octavo, run: Path, prompt: str = "", **options: object) -> str:
    """What `octavo generate` prints, without the prompt."""
    words = [word for name, value in options.items() for word in (f"--{name}", value)]
    return octavo("generate", run, "--prompt", prompt, *words).out.removesuffix("\n").removeprefix(prompt)


@pytest.fixture(scope="module")
def address(octavo: Octavo, finished: Path) -> Iterator[str]:
    with served(octavo, finished) as (address, _):
        yield address


def test_a_user_asks_what_the_last_line_says(octavo: Octavo, finished: Path, address: str) -> None:
    asked = {"model": "finished", "prompt": "", "seed": 0}
    answer = httpx2.post(f"{address}/v1/completions", json=asked, timeout=60, trust_env=False)
    assert answer.json()["choices"][0]["text"] == written(octavo, finished, seed=0)


def test_a_signal_ends_it_when_what_is_under_way_is_finished(octavo: Octavo, finished: Path) -> None:
    asked = {"prompt": "the", "seed": 1, "max_tokens": 400, "stream": True}
    with (
        served(octavo, finished) as (address, command),
        httpx2.Client(trust_env=False, timeout=60) as client,
        client.stream("POST", f"{address}/v1/completions", json=asked) as answer,
    ):
        lines = answer.iter_lines()
        first = next(lines)
        command.signal(signal.SIGTERM)
        told = [line.removeprefix("data: ") for line in (first, *lines) if line]
    assert told.pop() == "[DONE]"
    text = "".join(choice["text"] for line in told for choice in json.loads(line)["choices"])
    assert text == written(octavo, finished, "the", seed=1, tokens=400)


def test_checkpoints_and_folders_of_runs(octavo: Octavo, finished: Path) -> None:
    with served(octavo, finished.parent) as (address, _):
        card = httpx2.get(f"{address}/v1/models/finished", trust_env=False).json()
        steps = card["octavo"]["steps"]
        assert len(steps) > 1 and card["octavo"]["finished"]
        for step in steps[-2:]:
            asked = {"model": f"finished@{step}", "prompt": "the", "seed": 0}
            answer = httpx2.post(f"{address}/v1/completions", json=asked, timeout=60, trust_env=False).json()
            assert answer["choices"][0]["text"] == written(octavo, finished, "the", seed=0, checkpoint=step)


def test_what_cannot_be_served_is_a_sentence(octavo: Octavo, finished: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        wrong: list[tuple[tuple[object, ...], str]] = [
            ((finished, "--port", port), str(port)),
            (("nothing",), "nothing"),
            ((finished, "--host", "0.0.0.0"), "OCTAVO_SERVE_KEY"),
            ((finished, "--host", "no.such.host.invalid"), "OCTAVO_SERVE_KEY"),
            ((finished, finished), "finished"),
            ((finished, "--port", "70000"), "70000"),
            ((finished, "--slots", "0"), "slots"),
        ]
        for arguments, named in wrong:
            done = octavo("serve", *arguments)
            assert done.code == 2 and named in done.err and "Traceback" not in done.err, done.err


def test_without_the_extra_its_name_is_said(octavo: Octavo, finished: Path) -> None:
    done = octavo("serve", finished, patch="without_a_server")
    assert done.code == 1 and "octavo[serve]" in done.err and "Traceback" not in done.err
