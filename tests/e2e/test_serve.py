"""octavo serve as a user starts it: the port, the words, the signal; and the client that everybody has."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
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


def asked(address: str, **fields: object) -> dict[str, Any]:
    """An answer or a refusal."""
    return httpx2.post(f"{address}/v1/completions", json=fields, timeout=60, trust_env=False).json()


def test_a_run_that_still_trains_serves_its_best(octavo: Octavo) -> None:
    run = octavo.folder / "still"
    training = octavo.start(
        *("train", "recipe.yaml", "--text", "text.txt", "--out", run, "training.steps=1000000"),
        *("evaluation.every=500", "training.checkpoint_every=500"),
    )
    try:
        until((run / "best").exists)
        with served(octavo, run) as (address, _):
            answer = asked(address, prompt="the", seed=1)
            assert answer["choices"][0]["text"] and "not ended" in answer["octavo"]["notice"]
            (card,) = httpx2.get(f"{address}/v1/models", trust_env=False).json()["data"]
            assert not card["octavo"]["finished"] and "not ended" in card["octavo"]["notice"]
    finally:
        training.signal(signal.SIGINT)
        training.wait()


def test_what_is_damaged_is_said(octavo: Octavo, finished: Path) -> None:
    """Another checkpoint of the run is served in its place; one that stands alone is refused at once."""
    run = Path(shutil.copytree(finished, octavo.folder / "damaged", symlinks=True))
    best = (run / "best").resolve()
    weights = best / "model.safetensors"
    whole = weights.read_bytes()
    weights.write_bytes(whole[:-100] + bytes(100))
    with served(octavo, run) as (address, _):
        assert "damaged" in asked(address, prompt="the")["octavo"]["notice"]
    with served(octavo, best) as (address, command):
        answer = httpx2.post(f"{address}/v1/completions", json={"prompt": "the"}, timeout=60, trust_env=False)
        assert answer.status_code == 503 and str(run) not in answer.text
        assert "log" in answer.json()["error"]["message"]
        until(lambda: "cannot be served" in command.files[2].read_text())
    weights.write_bytes(whole[:-100])
    done = octavo("serve", best, "--port", "0")
    assert done.code == 1 and "model.safetensors" in done.err and "Traceback" not in done.err


def test_files_that_are_replaced_or_removed_are_said(octavo: Octavo, finished: Path) -> None:
    run = Path(shutil.copytree(finished, octavo.folder / "mine", symlinks=True))
    how: dict[str, Any] = {"prompt": "the", "seed": 1}
    with served(octavo, run) as (address, _):
        answer = asked(address, **how)
        assert "notice" not in answer["octavo"]
        (run / "best" / "model.safetensors").write_bytes(b"")
        again = asked(address, **how)
        assert again["choices"] == answer["choices"] and "changed" in again["octavo"]["notice"]
        shutil.rmtree(run)
        again = asked(address, **how)
        assert again["choices"] == answer["choices"] and "removed" in again["octavo"]["notice"]


def test_another_address_needs_the_key_of_the_environment(finished: Path) -> None:
    environment = {**os.environ, "OCTAVO_SERVE_KEY": "choose-one", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "octavo", "serve", finished, "--host", "0.0.0.0", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment, text=True) as process:
        assert process.stdout is not None
        said = process.stdout.readline()
        try:
            port = re.search(r":(\d+)/v1", said)
            assert port and "Bearer" in said and "choose-one" not in said
            with httpx2.Client(base_url=f"http://127.0.0.1:{port[1]}", trust_env=False) as client:
                assert client.get("/health").status_code == 200
                assert client.get("/v1/models").status_code == 401
                key = {"Authorization": "Bearer choose-one"}
                assert client.get("/v1/models", headers=key).status_code == 200
                assert client.get("/v1/models", headers=key | {"Host": "evil.example"}).status_code == 403
        finally:
            process.terminate()
    assert process.returncode == 0
