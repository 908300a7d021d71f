"""A plugin of pytest that lets llama.cpp's server tests ask `octavo serve`; see `llama_cpp_server_tests.py`.

With DEBUG_EXTERNAL=1 those tests start no server of their own. Here each starts one of ours instead, with as much of
its flags as there is here: the port, the slots, the key, the model's name (also where a test asks for another one), and
what a request leaves open, which stands in a run's recipe.
"""

from __future__ import annotations

import inspect
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
import requests
import yaml

START = 120.0
"""Seconds that a server may take to start."""

sys.modules.setdefault("wget", ModuleType("wget"))  # their helpers import it, and download nothing here
os.environ["DEBUG_EXTERNAL"] = "1"


def mirrored(run: Path, folder: Path, name: str, server) -> Path:
    """The run under another name, with the recipe's word for what a request leaves open."""
    mirror = folder / name
    mirror.mkdir()
    for file in run.iterdir():
        if file.name != "config.yaml":
            (mirror / file.name).symlink_to(file.resolve())
    recipe = yaml.safe_load((run / "config.yaml").read_text(encoding="utf-8"))
    settings = recipe.setdefault("sampling", {})
    settings["temperature"] = server.temperature
    if server.n_predict and server.n_predict > 0:
        settings["tokens"] = server.n_predict
    (mirror / "config.yaml").write_text(yaml.safe_dump(recipe, sort_keys=False), encoding="utf-8")
    return mirror


@pytest.fixture(autouse=True)
def ours(request, monkeypatch, tmp_path) -> Iterator[None]:
    """Servers of ours in place of theirs, until the test ends."""
    import utils  # pyrefly: ignore

    asked = re.findall(r'\bmodel="([^"]+)"', inspect.getsource(request.function))
    processes: list[subprocess.Popen] = []

    def start(server, timeout_seconds: int = 0) -> None:
        folder = tmp_path / str(len(processes))
        folder.mkdir()
        name = asked[0] if asked else server.model_alias or "model"
        mirror = mirrored(Path(os.environ["OCTAVO_MIRRORED"]), folder, name, server)
        command = [sys.executable, "-m", "octavo", "serve", mirror, "--host", server.server_host]
        command += ["--port", str(server.server_port), "--slots", str(server.n_slots or 1)]
        key = {"OCTAVO_SERVE_KEY": server.api_key} if server.api_key else {}
        process = subprocess.Popen(command, env={**os.environ, **key})
        processes.append(process)
        end = time.monotonic() + START
        while time.monotonic() < end and process.poll() is None:
            try:
                requests.get(server.make_url("/health"), timeout=5)
                return
            except requests.ConnectionError:
                time.sleep(0.05)
        raise RuntimeError("the server did not start")

    def stop(_server) -> None:
        while processes:
            processes[-1].terminate()
            processes.pop().wait()

    monkeypatch.setattr(utils.ServerProcess, "start", start)
    monkeypatch.setattr(utils.ServerProcess, "stop", stop)
    yield
    stop(None)
    shutil.rmtree(tmp_path)


class Outcomes:
    """What became of each test, as JSON lines."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def pytest_runtest_logreport(self, report) -> None:
        """As pytest calls it."""
        if report.when == "call" or report.outcome != "passed":
            crash = getattr(report.longrepr, "reprcrash", None)
            line = {"test": report.nodeid, "outcome": report.outcome, "why": crash.message if crash else ""}
            if report.outcome == "skipped":
                line["why"] = str(report.longrepr[2])
            with self.path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")


def pytest_configure(config) -> None:
    """As pytest calls it."""
    config.pluginmanager.register(Outcomes(Path(os.environ["OCTAVO_OUTCOMES"])))
