"""Children that handle what others wrote are told where things lie, and no secret."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from octavo.util.processes import plain_environment

SECRETS = (
    "OPENAI_API_KEY",
    "HF_TOKEN",
    "AWS_SECRET_ACCESS_KEY",
    "PGPASSWORD",
    "https_proxy",
    "MY_WORD",
    "SSH_AUTH_SOCK",
)


def test_no_variable_of_the_user_is_handed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in SECRETS:
        monkeypatch.setenv(name, "sk-canary")
    told = plain_environment(PYTHONUTF8="1")
    assert "sk-canary" not in told.values() and not set(SECRETS) & told.keys()
    assert told["PATH"] == os.environ["PATH"] and told["PYTHONUTF8"] == "1"


def test_a_child_finds_octavo_with_it() -> None:
    program = "import octavo.errors, os, json; print(json.dumps(sorted(os.environ)))"
    done = subprocess.run(
        [sys.executable, "-c", program], env=plain_environment(), capture_output=True, check=True
    )
    assert set(json.loads(done.stdout)) <= {*plain_environment(), "LC_CTYPE"}
