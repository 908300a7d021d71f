"""What the demo's options come to; the demo itself takes a minute."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from octavo.cli.demo import demo_command
from octavo.util.terminal import Console


def test_the_demo_can_be_quiet(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def train(recipe: str, *, quiet: bool, **options: Any) -> SimpleNamespace:
        Console(quiet=quiet).say("step 1")
        return SimpleNamespace(report=tmp_path / "index.html")

    monkeypatch.setattr("octavo.run.train.train", train)
    for quiet, said in ((False, "step 1\n"), (True, "")):
        assert demo_command(out=tmp_path / "run", quiet=quiet) == 0
        told = capsys.readouterr()
        assert (told.out, told.err) == (f"report: {tmp_path / 'index.html'}\n", said)
