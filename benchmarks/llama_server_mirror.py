"""A plugin of pytest that lets llama.cpp's server tests ask `octavo serve`; see `llama_server_tests.py`.

With DEBUG_EXTERNAL=1 those tests start no server of their own. Here each gets one of ours instead, with as much of its
flags as there is here: the port, the slots, the key, the model's name (also where a test asks for another one), and
what a request leaves open, which stands in a run's recipe. A server stays for the next test with the same flags.
"""

from __future__ import annotations

import atexit
import inspect
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import ModuleType

import pytest
import requests

from octavo.run.run import Run

START = 120.0
"""Seconds that a server may take to start."""

sys.modules.setdefault("wget", ModuleType("wget"))  # their helpers import it, and download nothing here
os.environ["DEBUG_EXTERNAL"] = "1"
FOLDER = Path(tempfile.mkdtemp(prefix="octavo-mirror-"))
atexit.register(shutil.rmtree, FOLDER, ignore_errors=True)


@cache
def mirrored(name: str, temperature: float, tokens: int) -> Path:
    """The run under a name, with its recipe's word for what a request leaves open."""
    run = Run.open(Path(os.environ["OCTAVO_MIRRORED"]))
    sampling = run.config.sampling.model_copy(update={"temperature": temperature, "tokens": tokens})
    run.config = run.config.model_copy(update={"sampling": sampling})
    path = Path(tempfile.mkdtemp(dir=FOLDER)) / name
    run.save(path)
    return path


@dataclass(frozen=True)
class Flags:
    """What a server is started with."""

    name: str
    host: str
    port: int
    slots: int
    temperature: float
    tokens: int
    key: str | None


class Ours:
    """The server that there is."""

    process: subprocess.Popen | None = None
    flags: Flags | None = None

    def start(self, flags: Flags) -> None:
        """Have one with these flags."""
        if flags == self.flags:
            return
        self.stop()
        run = mirrored(flags.name, flags.temperature, flags.tokens)
        command = [sys.executable, "-m", "octavo", "serve", run, "--host", flags.host]
        command += ["--port", str(flags.port), "--slots", str(flags.slots)]
        key = {"OCTAVO_SERVE_KEY": flags.key} if flags.key else {}
        self.process = subprocess.Popen(command, env={**os.environ, **key})
        end = time.monotonic() + START
        while time.monotonic() < end and self.process.poll() is None:
            with suppress(requests.RequestException):
                if requests.get(f"http://{flags.host}:{flags.port}/health", timeout=5).ok:
                    self.flags = flags
                    return
            time.sleep(0.05)
        raise RuntimeError("the server did not start")

    def stop(self) -> None:
        """End it."""
        self.flags = None
        if self.process is not None:
            self.process.terminate()
            self.process.wait()


OURS = Ours()
atexit.register(OURS.stop)


@pytest.fixture(autouse=True)
def ours(request, monkeypatch) -> Iterator[None]:
    """A server of ours in place of theirs."""
    import utils  # pyrefly: ignore

    asked = re.findall(r'\bmodel="([^"]+)"', inspect.getsource(request.function))
    if hasattr(request.node, "callspec") and (named := request.node.callspec.params.get("model")):
        asked = [named]

    def start(server, timeout_seconds: int = 0) -> None:
        name = asked[0] if asked else server.model_alias or "model"
        tokens = server.n_predict if server.n_predict and server.n_predict > 0 else 100_000
        OURS.start(
            Flags(
                name,
                server.server_host,
                server.server_port,
                server.n_slots or 1,
                server.temperature,
                tokens,
                server.api_key,
            )
        )

    monkeypatch.setattr(utils.ServerProcess, "start", start)
    return


class Outcomes:
    """What became of each test, as JSON lines."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def pytest_runtest_logreport(self, report) -> None:
        """As pytest calls it."""
        if report.when == "call" or report.outcome != "passed":
            crash = getattr(report.longrepr, "reprcrash", None)
            why = str(report.longrepr[2]) if report.outcome == "skipped" else crash.message if crash else ""
            line = {"test": report.nodeid, "outcome": report.outcome, "why": why}
            with self.path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")


def pytest_configure(config) -> None:
    """As pytest calls it."""
    config.pluginmanager.register(Outcomes(Path(os.environ["OCTAVO_OUTCOMES"])))
