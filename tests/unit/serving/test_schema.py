"""Schemathesis asks whatever /openapi.json lets one ask, and what it does not; with NUL, and to the edges."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from unit.serving.conftest import running

CONFIG = """\
[generation]
allow-x00 = true

[checks.positive_data_acceptance]
enabled = false  # a schema cannot say which letters a vocabulary has, and how long a context is

[checks.negative_data_rejection]
expected-statuses = [400, 404, 405, 413, 415, 431]
"""
RUN = "from schemathesis.cli import schemathesis; schemathesis()"


@pytest.mark.slow
@pytest.mark.parametrize("name", ["bytes", "chat", "counts"])
def test_the_server_is_as_its_document_says(runs: Path, tmp_path: Path, name: str) -> None:
    pytest.importorskip("schemathesis")
    (tmp_path / "schemathesis.toml").write_text(CONFIG)
    with running(runs / name) as (address, _):
        command = [sys.executable, "-c", RUN, "--config-file", tmp_path / "schemathesis.toml", "run"]
        command += [
            f"{address}/openapi.json",
            "--phases",
            "coverage,fuzzing",
            "--max-examples",
            "10",
            "--seed",
            "1",
        ]
        command += ["--request-timeout", "120", "--continue-on-failure", "--no-color"]
        done = subprocess.run(
            command, cwd=tmp_path, capture_output=True, text=True, timeout=1800, check=False
        )
    assert done.returncode == 0, done.stdout[-6000:]
